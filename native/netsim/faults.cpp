#include "netsim/faults.hpp"

#include <algorithm>
#include <numeric>

namespace openmrc::netsim {
namespace {

bool upward(LinkKind kind) { return kind == LinkKind::kNicUp || kind == LinkKind::kT0Up || kind == LinkKind::kT1Up; }

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

// True for effects that would compound if every link of a switch or a plane had them.
bool once_per_passage(const Effects& effects) {
  return !effects.down && !effects.blackhole && effects.rate_ppm == kFullRatePpm;
}

bool within(std::uint32_t wanted, std::uint32_t count) { return wanted == kAnywhere || wanted < count; }

bool narrows(std::uint32_t outer, std::uint32_t inner) { return outer == kAnywhere || outer == inner; }

bool covers_t0(const LinkEnds& ends, std::uint32_t t0, bool once) {
  if (ends.t0 != t0) return false;
  return !once || ends.kind == LinkKind::kNicDown || ends.kind == LinkKind::kT0Up;
}

bool covers_t1(const LinkEnds& ends, const FaultTarget& target, bool once) {
  if (ends.t1 != target.t1) return false;
  if (!once || ends.kind == LinkKind::kT1Up) return true;
  // Without a third tier a T1 has no upward egress: "tx" faults on it act at its ingress.
  return ends.kind == (target.direction == FaultDirection::kTx ? LinkKind::kT0Up : LinkKind::kT1Down);
}

bool covers_t2(const LinkEnds& ends, const FaultTarget& target, bool once) {
  if (ends.t2 != target.t2) return false;
  return !once || ends.kind == (target.direction == FaultDirection::kTx ? LinkKind::kT1Up : LinkKind::kT2Down);
}

void add_range(std::vector<LinkId>& links, LinkId first, std::uint32_t count, std::uint32_t step = 1) {
  for (std::uint32_t i = 0; i < count; ++i) links.push_back(first + i * step);
}

}  // namespace

bool covers(const FaultTarget& target, const Effects& effects, const LinkEnds& ends) {
  if (!direction_covers(target.direction, ends.kind)) return false;
  const bool once = once_per_passage(effects);
  if (target.host != kAnywhere) return ends.host == target.host;
  if (target.t0 != kAnywhere && target.t1 != kAnywhere) return ends.t0 == target.t0 && ends.t1 == target.t1;
  if (target.t1 != kAnywhere && target.t2 != kAnywhere) return ends.t1 == target.t1 && ends.t2 == target.t2;
  if (target.t0 != kAnywhere) return covers_t0(ends, target.t0, once);
  if (target.t1 != kAnywhere) return covers_t1(ends, target, once);
  if (target.t2 != kAnywhere) return covers_t2(ends, target, once);
  if (!once) return true;
  return ends.kind == (target.direction == FaultDirection::kTx ? LinkKind::kNicUp : LinkKind::kNicDown);
}

std::vector<LinkId> candidates(const FaultTarget& target, const ClosShape& shape) {
  std::vector<LinkId> links;
  if (target.host != kAnywhere) return {shape.nic_up(target.host), shape.nic_down(target.host)};
  if (target.t0 != kAnywhere) {
    const std::uint32_t first = target.t0 * shape.hosts_per_t0;
    const std::uint32_t hosts = std::min(shape.hosts_per_t0, shape.hosts - first);
    add_range(links, shape.nic_up(first), hosts);
    add_range(links, shape.nic_down(first), hosts);
    add_range(links, shape.t0_up(target.t0, 0), shape.t1s);
    add_range(links, shape.t1_down(target.t0, 0), shape.t1s);
    return links;
  }
  if (target.t1 != kAnywhere) {
    const std::uint32_t pod = target.t1 / shape.t1s;
    const std::uint32_t first = pod * shape.t0s_per_pod;
    const std::uint32_t t0s = shape.t0s_per_pod == 0 ? shape.t0s() : std::min(shape.t0s_per_pod, shape.t0s() - first);
    add_range(links, shape.t0_up(first, target.t1 % shape.t1s), t0s, shape.t1s);
    add_range(links, shape.t1_down(first, target.t1 % shape.t1s), t0s, shape.t1s);
    if (shape.t1_uplinks > 0) {
      add_range(links, shape.t1_up(target.t1, 0), shape.t1_uplinks);
      add_range(links, shape.t2_down(target.t1, 0), shape.t1_uplinks);
    }
    return links;
  }
  links.resize(shape.links_per_plane());
  std::iota(links.begin(), links.end(), 0U);
  return links;
}

bool exists(const FaultTarget& target, const ClosShape& shape) {
  const bool switches = target.t0 != kAnywhere || target.t1 != kAnywhere || target.t2 != kAnywhere;
  if (target.host != kAnywhere && switches) return false;
  if (!within(target.plane, shape.planes) || !within(target.host, shape.hosts) || !within(target.t0, shape.t0s()) ||
      !within(target.t1, shape.t1s_in_all()) || !within(target.t2, shape.t2s())) {
    return false;
  }
  if (target.t2 == kAnywhere) {  // a T0 and a T1 of different pods have no link
    return target.t0 == kAnywhere || target.t1 == kAnywhere || shape.pod_of_t0(target.t0) == target.t1 / shape.t1s;
  }
  if (target.t0 != kAnywhere) return false;
  return target.t1 == kAnywhere || target.t1 % shape.t1s == target.t2 / shape.t1_uplinks;
}

bool contains(const FaultTarget& outer, const FaultTarget& inner, const ClosShape& shape) {
  if (!narrows(outer.plane, inner.plane)) return false;
  if (outer.direction != FaultDirection::kBoth && outer.direction != inner.direction) return false;
  const bool inner_under_t0 = inner.host != kAnywhere && outer.t0 == shape.t0_of(inner.host);
  if (!narrows(outer.host, inner.host) || !narrows(outer.t1, inner.t1) || !narrows(outer.t2, inner.t2)) return false;
  return narrows(outer.t0, inner.t0) || inner_under_t0;
}

}  // namespace openmrc::netsim
