// Faults in the terms of users: target, effects, start and end. Several may cover one link; their effects add up.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/time.hpp"
#include "netsim/output_port.hpp"
#include "netsim/topology.hpp"

namespace openmrc::netsim {

struct FaultSpec {
  FaultTarget target;
  Effects effects;
  TimePs start = 0;
  TimePs duration = kNever;  // kNever: until repaired
  TimePs period = 0;         // > 0: flaps, on for the first half of each period
};

// True if the fault acts on this link. Effects that kill packets act on every link of the target. Effects on a share of
// packets, and delays, act once per passage: on a link, on the egress ports of a switch, and for a plane or the whole
// fabric on the last link before the host (tx: the first link after it).
bool covers(const FaultTarget& target, const Effects& effects, const LinkEnds& ends);

// The links of one plane that the fault may act on: a superset of those for which `covers` holds.
std::vector<LinkId> candidates(const FaultTarget& target, const ClosShape& shape);

// True if the target lies inside the fabric.
bool exists(const FaultTarget& target, const ClosShape& shape);

// True if all of `inner` lies within `outer` (for "repair ...").
bool contains(const FaultTarget& outer, const FaultTarget& inner, const ClosShape& shape);

}  // namespace openmrc::netsim
