// The reverse EV set of a QP: EVs of each plane for SACKs, NACKs and ACKs (A.11.17).
//
// A few EVs per plane take turns, so that one dead path costs a share of the SACKs, which repeat each other, but never
// all of them. In two-way traffic our own data identifies working EVs: every unmarked SACK puts its EV into the set.
// While traffic is inbound only, EV probes with random EVs do so: an answered one enters the set, an unanswered one
// keeps the plane out of use for control packets until another is answered. A sender that repeats packets or asks for
// our state has not received our answers: its plane's set is drawn anew. If SACKs may leave the plane of their packets,
// probes also measure the round trip of each plane every ten seconds, in any traffic.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/base/limits.hpp"
#include "engine/base/rng.hpp"
#include "engine/base/time.hpp"
#include "engine/paths/ev_set.hpp"

namespace openmrc {

class ReversePaths {
 public:
  // Draws the EVs of each port from the universe of `set`.
  void start(const EvSet& set, std::uint32_t port_count, Rng rng);

  // Chooses the EV of a control packet in answer to a packet on `preferred`: the same plane if possible, since it has
  // just worked in one direction. False: no usable port is free, or the preferred one is worth the wait.
  bool choose(const EvSet& set, PortMask free_ports, PortMask usable_ports, PortId preferred, Ev& ev);

  // Draws the EVs of `port` anew, after a packet on it revealed that our last answers did not arrive.
  void suspect(const EvSet& set, PortId port);
  // Records that `index` worked outbound.
  void confirm(TimePs now, const EvSet& set, EvIndex index);
  // Replaces an EV that the controller has denied (A.11.19).
  void leave_denied(const EvSet& set);

  // A random EV of `port` to probe.
  Ev draw(const EvSet& set, PortId port);
  // Records the answer to a probe. `rtt` 0: there was none.
  void on_probe_result(TimePs now, const EvSet& set, const Ev& ev, TimePs rtt);
  // Time for which the next probe of `port` waits for its answer; at least `least`, as the path may be longer.
  TimePs patience(PortId port, TimePs least) const { return std::max(least, planes_[port].patience); }
  void rebase(TimePs by) {
    for (Plane& plane : planes_) {
      plane.confirmed = rebased(plane.confirmed, by);
      plane.measured = rebased(plane.measured, by);
    }
  }
  // Round trip of a probe, the least of ten seconds; 0: not known, or out of date.
  TimePs round_trip(TimePs now, PortId port) const {
    const Plane& plane = planes_[port];
    return now - plane.measured < kRoundTripLife ? plane.round_trip : 0;
  }
  // Time at which an EV of this plane last proved to work.
  TimePs confirmed(PortId port) const { return planes_[port].confirmed; }

 private:
  static constexpr std::uint8_t kEvsPerPort = 4;
  static constexpr TimePs kPatienceFirst = 100 * kPsPerMs, kPatienceMax = kPsPerSecond;
  static constexpr TimePs kRoundTripLife = 10 * kPsPerSecond;

  struct Plane {
    std::array<std::uint32_t, kEvsPerPort> evs{};
    TimePs confirmed = INT64_MIN;
    TimePs patience = 0;
    TimePs round_trip = 0, measured = kLongAgo;
    std::uint8_t count = 0;  // 0: no EV uses this port
    std::uint8_t turn = 0;   // index of the EV that carries the next packet
    std::uint8_t oldest = 0;
    bool good = false;
    bool drawn = false;  // none of them has proved to work yet
  };

  bool may_use(PortId port, PortMask allowed, bool only_good) const;
  Ev take(const EvSet& set, PortId port);
  void draw_plane(const EvSet& set, PortId port);
  static void drop(Plane& plane, std::uint32_t value);

  std::array<Plane, kPortCountMax> planes_{};
  Rng rng_{0};
  std::uint8_t port_count_ = 0;
  PortId turn_ = 0;
};

}  // namespace openmrc
