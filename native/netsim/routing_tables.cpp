#include "netsim/routing_tables.hpp"

#include <algorithm>

namespace openmrc::netsim {
namespace {

constexpr std::uint32_t kHashesMax = 8;  // limit before all routes are tried in order

}  // namespace

void RoutingTables::set(std::uint32_t index, LinkId link, bool avoided) {
  Plane& plane = planes_[index];
  if (plane.links.empty()) plane.links.resize(shape_.links_per_plane());
  if (plane.links[link] == avoided) return;
  plane.links[link] = avoided;
  if (avoided) {
    ++plane.avoided;
  } else {
    --plane.avoided;
  }
}

bool RoutingTables::usable(const Plane& plane, std::uint32_t source_host, std::uint32_t destination_host,
                           Route route) const {
  const std::uint32_t near = shape_.t0_of(source_host), far = shape_.t0_of(destination_host);
  if (near == far) return true;
  if (!t0_link(plane, near, route.t0_uplink) || !t0_link(plane, far, route.t0_uplink)) return false;
  const std::uint32_t near_pod = shape_.pod_of_t0(near), far_pod = shape_.pod_of_t0(far);
  if (near_pod == far_pod) return true;
  return t1_link(plane, near_pod * shape_.t1s + route.t0_uplink, route.t1_uplink) &&
         t1_link(plane, far_pod * shape_.t1s + route.t0_uplink, route.t1_uplink);
}

bool RoutingTables::find(const Plane& plane, const Packet& packet, Route& route) const {
  // Hashes with another seed each time, so that flows of a dead path spread over all remaining ones.
  ClosShape hashing = shape_;
  hashing.routing = Routing::kHash;
  for (std::uint32_t seed = 1; seed <= kHashesMax; ++seed) {
    constexpr std::uint32_t kStride = 0x9e3779b9U;
    route = route_of(hashing, packet.source_host, packet.destination_host, packet.ev + seed * kStride);
    if (usable(plane, packet.source_host, packet.destination_host, route)) return true;
  }
  hashing.routing = Routing::kModulo;
  for (std::uint32_t path = 0; path < shape_.paths(); ++path) {
    route = route_of(hashing, packet.source_host, packet.destination_host, packet.ev + path);
    if (usable(plane, packet.source_host, packet.destination_host, route)) return true;
  }
  return false;
}

Route RoutingTables::route(std::uint32_t index, const Packet& packet, Route hashed) const {
  const Plane& plane = planes_[index];
  if (plane.avoided == 0 || usable(plane, packet.source_host, packet.destination_host, hashed)) return hashed;
  Route other;
  return find(plane, packet, other) ? other : hashed;
}

bool RoutingTables::reaches(std::uint32_t index, std::uint32_t source_host, std::uint32_t destination_host) const {
  const Plane& plane = planes_[index];
  if (plane.avoided == 0) return true;
  for (const std::uint32_t host : {source_host, destination_host}) {
    if (plane.links[shape_.nic_up(host)] || plane.links[shape_.nic_down(host)]) return false;
  }
  Packet packet;
  packet.source_host = source_host;
  packet.destination_host = destination_host;
  Route route;
  return find(plane, packet, route);
}

bool RoutingTables::usable_uplink(std::uint32_t index, const Packet& packet, std::uint32_t uplink) const {
  const Plane& plane = planes_[index];
  if (plane.avoided == 0) return true;
  Route route = packet.route;
  if (shape_.kind_of(packet.link) == LinkKind::kT0Up) {
    route.t1_uplink = static_cast<std::uint16_t>(uplink);
    return usable(plane, packet.source_host, packet.destination_host, route);
  }
  route.t0_uplink = static_cast<std::uint16_t>(uplink);
  for (std::uint32_t second = 0; second < std::max(shape_.t1_uplinks, 1U); ++second) {
    route.t1_uplink = static_cast<std::uint16_t>(second);
    if (usable(plane, packet.source_host, packet.destination_host, route)) return true;
  }
  return false;
}

}  // namespace openmrc::netsim
