// A packet on its way through the fabric.
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/traffic.hpp"

namespace openmrc::netsim {

using LinkId = std::uint32_t;

inline constexpr std::uint32_t kNoPayload = ~std::uint32_t{0};
inline constexpr std::uint32_t kNotCorrupted = ~std::uint32_t{0};
inline constexpr std::uint32_t kHeaderRoom = 48;  // the longest transport header that a simulated host sends

// The uplinks a packet takes: of its T0 (which is the number of a T1 in the pod) and of that T1. Written where the path
// is decided: by the sending NIC when routes are static, by the switch on the way when they are not.
struct Route {
  std::uint16_t t0_uplink = 0;
  std::uint16_t t1_uplink = 0;
};

// Copied from event to event, so that a hop touches no memory but the event's own and the link's.
struct Packet {
  std::uint32_t source_host = 0;
  std::uint32_t destination_host = 0;
  std::uint32_t ev = 0;
  LinkId link = 0;                           // the link it travels over
  std::uint32_t bytes = 0;                   // on the wire, framing included; smaller after trimming
  std::uint32_t payload = kNoPayload;        // emulator: the datagram that its edge keeps. The fabric never looks inside
  std::uint32_t corruption = kNotCorrupted;  // random number that says which bit of the datagram flipped
  Route route;
  std::uint16_t payload_bytes = 0;  // simulator: of the transport, lengths only
  std::uint16_t destination_port = 0;
  TrafficClass traffic_class = TrafficClass::kNoTrim;
  Ecn ecn = Ecn::kNotEct;
  std::uint8_t header_bytes = 0;                   // simulator: used bytes of `header`
  std::array<std::uint8_t, kHeaderRoom> header{};  // simulator: the transport's own
};

}  // namespace openmrc::netsim
