// MRC in the simulator: one engine, the very one that runs on the wire, behind the interface of simulated NICs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "netsim/simulate/endpoint.hpp"

namespace openmrc::netsim {

// A path that no QP may use from the start, as a deny list of the controller would have it.
struct DeniedPath {
  std::uint32_t plane = 0;
  Route route;
};

struct MrcSettings {
  QpToInit init;                         // selector, EV set, congestion control; the universe is drawn per QP
  std::uint16_t universe_per_port = 32;  // active and backup EVs
  QpToRtr rtr;                           // mpr_units, sack_bytes, wimm_max_dest, capabilities
  QpToRts rts;                           // timers, data class; mpr_units and wimm_max follow from rtr
  std::vector<DeniedPath> denied;
  TimePs reverse_probe_interval = 0;  // 0: two base RTTs; the specification has one, for NICs that do it in hardware
  bool events = false;                // keep what happens to paths for poll_path_event
  std::uint32_t events_max = 1U << 16;
};

std::unique_ptr<Endpoint> make_mrc_endpoint(const Surroundings& surroundings, const MrcSettings& settings,
                                            std::uint32_t host, bool watched);

}  // namespace openmrc::netsim
