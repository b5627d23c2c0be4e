// The reverse EV set of a QP: one EV per plane for SACKs, NACKs and ACKs (A.11, "Reverse path for SACKs").
//
// In two-way traffic our own data shows which EVs work: every unmarked SACK refreshes its plane. While traffic is
// inbound only, EV probes with random EVs do: an answered one becomes the plane's reverse EV, an unanswered one keeps
// the plane out of use for control packets until another is answered.
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/limits.hpp"
#include "engine/base/rng.hpp"
#include "engine/base/time.hpp"
#include "engine/paths/ev_set.hpp"

namespace openmrc {

class ReversePaths {
 public:
  // Draws one EV per port out of the universe of `set`.
  void start(const EvSet& set, std::uint32_t port_count, Rng rng);

  // EV for a control packet that answers something received on `preferred`: the same plane where possible, since it has
  // just been seen working one way. False: no usable port is free, or the preferred one is worth the wait.
  bool choose(PortMask free_ports, PortMask usable_ports, PortId preferred, Ev& ev);

  // `index` was seen working outbound.
  void confirm(TimePs now, const EvSet& set, EvIndex index);
  // After the controller denied an EV: what it used to carry takes another.
  void leave_denied(const EvSet& set);

  // A random EV of `port` to probe.
  Ev draw(const EvSet& set, PortId port);
  void on_probe_result(TimePs now, const EvSet& set, const Ev& ev, bool answered);
  // When this plane's EV was last seen working.
  TimePs confirmed(PortId port) const { return paths_[port].confirmed; }

 private:
  struct Path {
    std::uint32_t ev = 0;
    bool exists = false;
    bool good = false;
    TimePs confirmed = INT64_MIN;
  };

  bool try_port(PortId port, PortMask allowed, bool only_good, Ev& ev) const;

  std::array<Path, kPortCountMax> paths_{};
  Rng rng_{0};
  std::uint8_t port_count_ = 0;
  PortId turn_ = 0;
};

}  // namespace openmrc
