#include "netsim/topology.hpp"

namespace openmrc::netsim {
namespace {

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

LinkId ClosShape::first(LinkKind kind) const {
  switch (kind) {
    case LinkKind::kNicUp:
      return 0;
    case LinkKind::kNicDown:
      return hosts;
    case LinkKind::kT0Up:
      return 2 * hosts;
    case LinkKind::kT1Down:
      return 2 * hosts + t0_links();
    case LinkKind::kT1Up:
      return 2 * (hosts + t0_links());
    case LinkKind::kT2Down:
      break;
  }
  return 2 * (hosts + t0_links()) + t1_links();
}

std::uint32_t ClosShape::count(LinkKind kind) const {
  if (kind == LinkKind::kNicUp || kind == LinkKind::kNicDown) return hosts;
  return kind == LinkKind::kT0Up || kind == LinkKind::kT1Down ? t0_links() : t1_links();
}

LinkEnds ends_of(const ClosShape& shape, LinkId link) {
  MRC_ASSERT(link < shape.links_per_plane());
  LinkEnds ends;
  ends.kind = shape.kind_of(link);
  const std::uint32_t index = link - shape.first(ends.kind);
  switch (ends.kind) {
    case LinkKind::kNicUp:
    case LinkKind::kNicDown:
      ends.host = index;
      ends.t0 = shape.t0_of(index);
      break;
    case LinkKind::kT0Up:
    case LinkKind::kT1Down:
      ends.t0 = index / shape.t1s;
      ends.t1 = shape.pod_of_t0(ends.t0) * shape.t1s + index % shape.t1s;
      break;
    case LinkKind::kT1Up:
    case LinkKind::kT2Down:
      ends.t1 = index / shape.t1_uplinks;
      ends.t2 = ends.t1 % shape.t1s * shape.t1_uplinks + index % shape.t1_uplinks;
      break;
  }
  return ends;
}

Route route_of(const ClosShape& shape, std::uint32_t source_host, std::uint32_t destination_host, std::uint32_t ev) {
  std::uint32_t number = ev;
  if (shape.routing == Routing::kHash) {
    const std::uint64_t addresses = (std::uint64_t{source_host} << 32) | destination_host;
    number = static_cast<std::uint32_t>(mix(mix(addresses + 0x9e3779b97f4a7c15ULL) ^ ev) >> 32);
  }
  Route route;
  route.t0_uplink = static_cast<std::uint16_t>(number % shape.t1s);
  if (shape.t1_uplinks > 0) route.t1_uplink = static_cast<std::uint16_t>(number / shape.t1s % shape.t1_uplinks);
  return route;
}

LinkId next_link(const ClosShape& shape, const Packet& packet) {
  const std::uint32_t target = shape.t0_of(packet.destination_host);
  switch (shape.kind_of(packet.link)) {
    case LinkKind::kNicUp: {
      const std::uint32_t t0 = shape.t0_of(packet.source_host);
      if (t0 == target) return shape.nic_down(packet.destination_host);
      return shape.t0_up(t0, packet.route.t0_uplink);
    }
    case LinkKind::kT0Up: {
      const std::uint32_t pod = shape.pod_of_t0(shape.t0_of(packet.source_host));
      if (shape.t1_uplinks == 0 || pod == shape.pod_of_t0(target)) {
        return shape.t1_down(target, packet.route.t0_uplink);
      }
      return shape.t1_up(pod * shape.t1s + packet.route.t0_uplink, packet.route.t1_uplink);
    }
    case LinkKind::kT1Up:
      return shape.t2_down(shape.pod_of_t0(target) * shape.t1s + packet.route.t0_uplink, packet.route.t1_uplink);
    case LinkKind::kT2Down:
      return shape.t1_down(target, packet.route.t0_uplink);
    case LinkKind::kT1Down:
      return shape.nic_down(packet.destination_host);
    case LinkKind::kNicDown:
      break;
  }
  return kDelivered;
}

}  // namespace openmrc::netsim
