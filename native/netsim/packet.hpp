// A packet on its way through the fabric: the fields that switches and links use, in half a cache line. Large fabrics
// are bound by the memory that a hop touches, so the fields of the two ends are stored elsewhere.
#pragma once

#include <cstdint>

#include "engine/base/traffic.hpp"

namespace openmrc::netsim {

using LinkId = std::uint32_t;

inline constexpr std::uint32_t kNoPayload = ~std::uint32_t{0};
inline constexpr std::uint16_t kNotCorrupted = 0xFFFF;

// The uplinks on a packet's path: of its T0 (the number of a T1 in the pod) and of that T1. Written at the decision: by
// the sending NIC with static routes, else by the switch on the way.
struct Route {
  std::uint16_t t0_uplink = 0;
  std::uint16_t t1_uplink = 0;
};

struct Packet {
  std::uint32_t source_host = 0;
  std::uint32_t destination_host = 0;
  std::uint32_t ev = 0;
  LinkId link = 0;                     // link that carries it
  std::uint32_t bytes = 0;             // on the wire, framing included; smaller after trimming
  std::uint32_t payload = kNoPayload;  // handle of the edge's data; unused by the fabric
  Route route;
  std::uint16_t corruption = kNotCorrupted;  // random number that selects the flipped bit of the datagram
  TrafficClass traffic_class = TrafficClass::kNoTrim;
  Ecn ecn = Ecn::kNotEct;
};

static_assert(sizeof(Packet) == 32);

}  // namespace openmrc::netsim
