// MRC in the simulator: the same engine that runs on real networks, behind the interface of simulated NICs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/engine.hpp"
#include "netsim/generated/simulator.hpp"
#include "netsim/simulate/endpoint.hpp"

namespace openmrc::netsim {

std::unique_ptr<Endpoint> make_mrc_endpoint(const Surroundings& surroundings, const MrcSettings& settings,
                                            std::uint32_t host, bool watched);

}  // namespace openmrc::netsim
