// A packet on its way through the fabric: what switches and links look at, in half a cache line. Large fabrics are bound
// by the memory that a hop touches; what only the two ends need stays with them.
#pragma once

#include <cstdint>

#include "engine/base/traffic.hpp"

namespace openmrc::netsim {

using LinkId = std::uint32_t;

inline constexpr std::uint32_t kNoPayload = ~std::uint32_t{0};
inline constexpr std::uint16_t kNotCorrupted = 0xFFFF;

// The uplinks a packet takes: of its T0 (which is the number of a T1 in the pod) and of that T1. Written where the path
// is decided: by the sending NIC when routes are static, by the switch on the way when they are not.
struct Route {
  std::uint16_t t0_uplink = 0;
  std::uint16_t t1_uplink = 0;
};

struct Packet {
  std::uint32_t source_host = 0;
  std::uint32_t destination_host = 0;
  std::uint32_t ev = 0;
  LinkId link = 0;                     // the link it travels over
  std::uint32_t bytes = 0;             // on the wire, framing included; smaller after trimming
  std::uint32_t payload = kNoPayload;  // what the edge keeps for it; the fabric never looks inside
  Route route;
  std::uint16_t corruption = kNotCorrupted;  // random number that says which bit of the datagram flipped
  TrafficClass traffic_class = TrafficClass::kNoTrim;
  Ecn ecn = Ecn::kNotEct;
};

static_assert(sizeof(Packet) == 32);

}  // namespace openmrc::netsim
