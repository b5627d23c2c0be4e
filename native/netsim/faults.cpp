#include "netsim/faults.hpp"

namespace openmrc::netsim {
namespace {

bool upward(LinkKind kind) { return kind == LinkKind::kNicUp || kind == LinkKind::kT0Up; }

bool direction_covers(FaultDirection direction, LinkKind kind) {
  switch (direction) {
    case FaultDirection::kTx:
      return upward(kind);
    case FaultDirection::kRx:
      return !upward(kind);
    case FaultDirection::kBoth:
      break;
  }
  return true;
}

// Effects that would compound if every link of a switch or a plane had them.
bool once_per_passage(const Effects& effects) {
  return !effects.down && !effects.blackhole && effects.rate_ppm == kFullRatePpm;
}

bool within(std::uint32_t wanted, std::uint32_t count) { return wanted == kAnywhere || wanted < count; }

bool narrows(std::uint32_t outer, std::uint32_t inner) { return outer == kAnywhere || outer == inner; }

}  // namespace

bool covers(const FaultTarget& target, const Effects& effects, const LinkEnds& ends) {
  if (!direction_covers(target.direction, ends.kind)) return false;
  const bool once = once_per_passage(effects);
  if (target.host != kAnywhere) return ends.host == target.host;
  if (target.t0 != kAnywhere && target.t1 != kAnywhere) return ends.t0 == target.t0 && ends.t1 == target.t1;
  if (target.t0 != kAnywhere) {
    if (ends.t0 != target.t0) return false;
    return !once || ends.kind == LinkKind::kNicDown || ends.kind == LinkKind::kT0Up;
  }
  if (target.t1 != kAnywhere) {
    if (ends.t1 != target.t1) return false;
    if (!once) return true;
    // A T1 has no upward egress: what goes "tx" through it is caught where it enters.
    return ends.kind == (target.direction == FaultDirection::kTx ? LinkKind::kT0Up : LinkKind::kT1Down);
  }
  if (!once) return true;
  return ends.kind == (target.direction == FaultDirection::kTx ? LinkKind::kNicUp : LinkKind::kNicDown);
}

bool exists(const FaultTarget& target, const ClosShape& shape) {
  if (target.host != kAnywhere && (target.t0 != kAnywhere || target.t1 != kAnywhere)) return false;
  return within(target.plane, shape.planes) && within(target.host, shape.hosts) && within(target.t0, shape.t0s()) &&
         within(target.t1, shape.t1s);
}

bool contains(const FaultTarget& outer, const FaultTarget& inner, const ClosShape& shape) {
  if (!narrows(outer.plane, inner.plane)) return false;
  if (outer.direction != FaultDirection::kBoth && outer.direction != inner.direction) return false;
  const bool inner_under_t0 = inner.host != kAnywhere && outer.t0 == shape.t0_of(inner.host);
  if (!narrows(outer.host, inner.host) || !narrows(outer.t1, inner.t1)) return false;
  return narrows(outer.t0, inner.t0) || inner_under_t0;
}

}  // namespace openmrc::netsim
