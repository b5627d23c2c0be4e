// The links that the switches' routing tables avoid, once routing has converged after a fault. Until then switches hash
// packets onto links that are dead; afterwards the packets of a dead path are hashed onto the paths that are left, and
// those of the others stay where they were (resilient hashing).
#pragma once

#include <cstdint>
#include <vector>

#include "netsim/packet.hpp"
#include "netsim/topology.hpp"

namespace openmrc::netsim {

class RoutingTables {
 public:
  explicit RoutingTables(const ClosShape& shape) : shape_(shape), planes_(shape.planes) {}

  void set(std::uint32_t plane, LinkId link, bool avoided);
  // Whether there is anything to avoid: what a packet of a healthy plane pays.
  bool avoids(std::uint32_t plane) const { return planes_[plane].avoided > 0; }

  // `hashed` if it is usable, or another route of the same two NICs; `hashed` again if they have none.
  Route route(std::uint32_t plane, const Packet& packet, Route hashed) const;
  // Whether the plane has a usable way from NIC to NIC.
  bool reaches(std::uint32_t plane, std::uint32_t source_host, std::uint32_t destination_host) const;
  // Whether the packet, at the end of `packet.link`, may take this uplink of the switch there.
  bool usable_uplink(std::uint32_t plane, const Packet& packet, std::uint32_t uplink) const;

 private:
  struct Plane {
    std::vector<bool> links;  // avoided; empty while none is
    std::uint32_t avoided = 0;
  };

  bool usable(const Plane& plane, std::uint32_t source_host, std::uint32_t destination_host, Route route) const;
  bool find(const Plane& plane, const Packet& packet, Route& route) const;
  // A link carries nothing for routing if one of its directions does not: its neighbours have lost each other.
  bool t0_link(const Plane& plane, std::uint32_t t0, std::uint32_t uplink) const {
    return !plane.links[shape_.t0_up(t0, uplink)] && !plane.links[shape_.t1_down(t0, uplink)];
  }
  bool t1_link(const Plane& plane, std::uint32_t t1, std::uint32_t uplink) const {
    return !plane.links[shape_.t1_up(t1, uplink)] && !plane.links[shape_.t2_down(t1, uplink)];
  }

  ClosShape shape_;
  std::vector<Plane> planes_;
};

}  // namespace openmrc::netsim
