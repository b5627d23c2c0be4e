#include "netsim/topology.hpp"

namespace openmrc::netsim {
namespace {

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

LinkEnds ends_of(const ClosShape& shape, LinkId link) {
  MRC_ASSERT(link < shape.links_per_plane());
  LinkEnds ends;
  ends.kind = shape.kind_of(link);
  const std::uint32_t fabric_links = shape.t0s() * shape.t1s;
  switch (ends.kind) {
    case LinkKind::kNicUp:
    case LinkKind::kNicDown:
      ends.host = link % shape.hosts;
      ends.t0 = shape.t0_of(ends.host);
      break;
    case LinkKind::kT0Up:
      ends.t0 = (link - 2 * shape.hosts) / shape.t1s;
      ends.t1 = (link - 2 * shape.hosts) % shape.t1s;
      break;
    case LinkKind::kT1Down:
      ends.t1 = (link - 2 * shape.hosts - fabric_links) / shape.t0s();
      ends.t0 = (link - 2 * shape.hosts - fabric_links) % shape.t0s();
      break;
  }
  return ends;
}

std::uint32_t t1_of_ev(const ClosShape& shape, const Packet& packet) {
  if (shape.ev_mapping == EvMapping::kModulo) return packet.ev % shape.t1s;
  const std::uint64_t addresses = (std::uint64_t{packet.source_host} << 32) | packet.destination_host;
  return static_cast<std::uint32_t>(mix(mix(addresses + 0x9e3779b97f4a7c15ULL) ^ packet.ev) % shape.t1s);
}

LinkId next_link(const ClosShape& shape, const Packet& packet) {
  const std::uint32_t destination_t0 = shape.t0_of(packet.destination_host);
  switch (shape.kind_of(packet.link)) {
    case LinkKind::kNicUp: {
      const std::uint32_t t0 = shape.t0_of(packet.source_host);
      if (t0 == destination_t0) return shape.nic_down(packet.destination_host);
      return shape.t0_up(t0, t1_of_ev(shape, packet));
    }
    case LinkKind::kT0Up:
      return shape.t1_down((packet.link - 2 * shape.hosts) % shape.t1s, destination_t0);
    case LinkKind::kT1Down:
      return shape.nic_down(packet.destination_host);
    case LinkKind::kNicDown:
      break;
  }
  return kDelivered;
}

}  // namespace openmrc::netsim
