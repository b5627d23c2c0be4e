// One plane of a Clos fabric with two or three tiers, by arithmetic: the attachment of hosts, and the links of a path.
//
// Hosts attach to T0s; the T0s of a pod meet in the pod's T1s; with three tiers the pods meet in T2s, T1 number j of
// every pod in the same group of T2s. A fabric of several sites is the three-tier case with long links between T1 and
// T2.
//
// Links are directed. Of one plane, in this order: host h up to its T0, T0 down to host h, T0 i up by its uplink j (to
// T1 j of the pod), the same link down, T1 g up by its uplink k, the same link down. T1s are counted through all pods:
// g = pod * t1s + j. T2s are counted j * t1_uplinks + k.
#pragma once

#include <cstdint>

#include "engine/base/assert.hpp"
#include "netsim/generated/fabric.hpp"
#include "netsim/packet.hpp"

namespace openmrc::netsim {

inline constexpr int kLinkKinds = 6;

struct ClosShape : FabricShape {
  std::uint32_t t0s() const { return (hosts + hosts_per_t0 - 1) / hosts_per_t0; }
  std::uint32_t t0_of(std::uint32_t host) const { return host / hosts_per_t0; }
  std::uint32_t pods() const { return t0s_per_pod == 0 ? 1 : (t0s() + t0s_per_pod - 1) / t0s_per_pod; }
  std::uint32_t pod_of_t0(std::uint32_t t0) const { return t0s_per_pod == 0 ? 0 : t0 / t0s_per_pod; }
  std::uint32_t t1s_in_all() const { return pods() * t1s; }
  std::uint32_t t2s() const { return t1s * t1_uplinks; }
  // Paths between hosts of different pods (of different T0s when there is one pod).
  std::uint32_t paths() const { return t1s * (t1_uplinks == 0 ? 1 : t1_uplinks); }

  std::uint32_t t0_links() const { return t0s() * t1s; }
  std::uint32_t t1_links() const { return t1s_in_all() * t1_uplinks; }
  std::uint32_t links_per_plane() const { return 2 * (hosts + t0_links() + t1_links()); }

  LinkId nic_up(std::uint32_t host) const { return host; }
  LinkId nic_down(std::uint32_t host) const { return hosts + host; }
  LinkId t0_up(std::uint32_t t0, std::uint32_t uplink) const { return 2 * hosts + t0 * t1s + uplink; }
  LinkId t1_down(std::uint32_t t0, std::uint32_t uplink) const { return t0_up(t0, uplink) + t0_links(); }
  LinkId t1_up(std::uint32_t t1, std::uint32_t uplink) const {
    return 2 * (hosts + t0_links()) + t1 * t1_uplinks + uplink;
  }
  LinkId t2_down(std::uint32_t t1, std::uint32_t uplink) const { return t1_up(t1, uplink) + t1_links(); }
  LinkId first(LinkKind kind) const;
  std::uint32_t count(LinkKind kind) const;

  LinkKind kind_of(LinkId link) const {
    if (link < hosts) return LinkKind::kNicUp;
    if (link < 2 * hosts) return LinkKind::kNicDown;
    const std::uint32_t first_t1 = 2 * (hosts + t0_links());
    if (link < first_t1) return link < 2 * hosts + t0_links() ? LinkKind::kT0Up : LinkKind::kT1Down;
    return link < first_t1 + t1_links() ? LinkKind::kT1Up : LinkKind::kT2Down;
  }
};

// The two ends of a link, in the terms of the fault language; kAnywhere for a term that does not apply.
inline constexpr std::uint32_t kAnywhere = ~std::uint32_t{0};

struct LinkEnds {
  LinkKind kind{};
  std::uint32_t host = kAnywhere;
  std::uint32_t t0 = kAnywhere;
  std::uint32_t t1 = kAnywhere;
  std::uint32_t t2 = kAnywhere;
};

LinkEnds ends_of(const ClosShape& shape, LinkId link);

// The route of a packet with static or hashed routing.
Route route_of(const ClosShape& shape, std::uint32_t source_host, std::uint32_t destination_host, std::uint32_t ev);

inline constexpr LinkId kDelivered = ~LinkId{0};
inline constexpr LinkId kEntering = kDelivered - 1;  // not on any link yet
// The link after `packet.link` on its route; kDelivered if that link ends at a host.
LinkId next_link(const ClosShape& shape, const Packet& packet);

}  // namespace openmrc::netsim
