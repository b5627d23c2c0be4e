// The links that the switches' routing tables avoid after routing has converged on a fault. Before that, switches hash
// packets onto dead links; afterwards the packets of a dead path are hashed onto the remaining paths, and all other
// packets keep theirs (resilient hashing).
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
  // True if any link is avoided: the only cost for a packet of a healthy plane.
  bool avoids(std::uint32_t plane) const { return planes_[plane].avoided > 0; }

  // `hashed` if usable, else another route between the same two NICs; `hashed` again if there is none.
  Route route(std::uint32_t plane, const Packet& packet, Route hashed) const;
  // True if the plane has a usable path from NIC to NIC.
  bool reaches(std::uint32_t plane, std::uint32_t source_host, std::uint32_t destination_host) const;
  // True if the packet, at the end of `packet.link`, may take this uplink of the switch there.
  bool usable_uplink(std::uint32_t plane, const Packet& packet, std::uint32_t uplink) const;

 private:
  struct Plane {
    std::vector<bool> links;  // avoided links; empty while there are none
    std::uint32_t avoided = 0;
  };

  bool usable(const Plane& plane, std::uint32_t source_host, std::uint32_t destination_host, Route route) const;
  bool find(const Plane& plane, const Packet& packet, Route& route) const;
  // Routing uses a link only if both directions work, since its ends otherwise lose each other's messages.
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
