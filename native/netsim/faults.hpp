// Faults as people name them: where, what, from when to when. Several may cover one link; their effects add up.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/time.hpp"
#include "netsim/link.hpp"
#include "netsim/topology.hpp"

namespace openmrc::netsim {

enum class FaultDirection : std::uint8_t { kBoth = 0, kTx = 1, kRx = 2 };  // tx: away from hosts

// kAnywhere in a member: not restricted to it. All of them: the whole fabric.
struct FaultTarget {
  std::uint32_t plane = kAnywhere;
  std::uint32_t host = kAnywhere;  // its NIC-T0 link
  std::uint32_t t0 = kAnywhere;    // with t1: the link between them; alone: the switch
  std::uint32_t t1 = kAnywhere;    // with t2: the link between them
  std::uint32_t t2 = kAnywhere;
  FaultDirection direction = FaultDirection::kBoth;
};

struct FaultSpec {
  FaultTarget target;
  Effects effects;
  TimePs start = 0;
  TimePs duration = kNever;  // kNever: until repaired
  TimePs period = 0;         // > 0: flaps, on for the first half of each period
};

// Whether the fault acts on this link. What kills packets acts on every link of the target; what happens to a share of
// packets or delays them acts where a packet passes once: on a link, on the egress ports of a switch, and for a plane or
// the whole fabric on the last link before the host (tx: the first link after it).
bool covers(const FaultTarget& target, const Effects& effects, const LinkEnds& ends);

// The links of one plane that the fault may act on: all for which `covers` can hold, and perhaps more.
std::vector<LinkId> candidates(const FaultTarget& target, const ClosShape& shape);

// Whether the target lies inside the fabric.
bool exists(const FaultTarget& target, const ClosShape& shape);

// Whether everything that `inner` names belongs to what `outer` names (for "repair ...").
bool contains(const FaultTarget& outer, const FaultTarget& inner, const ClosShape& shape);

}  // namespace openmrc::netsim
