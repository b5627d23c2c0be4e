// Packets of the RoCEv2 baseline: the header of a simulated packet, and the size of the real one.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "netsim/simulate/endpoint.hpp"

namespace openmrc::netsim {

enum class RoceKind : std::uint8_t { kWrite = 0, kAck = 1, kNak = 2, kCnp = 3 };

// PSNs are not cut to 24 bits: the window stays below half of that space, so the result is the same.
struct RoceHeader {
  std::uint64_t psn = 0;         // WRITE: its own; ACK, NAK: the next one expected
  std::uint32_t connection = 0;  // number at the receiver
  std::uint32_t message = 0;
  RoceKind kind{};
  std::uint8_t first = 0, last = 0;  // of the message
  std::uint8_t ack_request = 0;
  std::uint32_t reserved = 0;  // avoids padding: headers are hashed into the trace of a run
};
static_assert(sizeof(RoceHeader) <= kHeaderRoom && std::has_unique_object_representations_v<RoceHeader>);

inline constexpr std::uint32_t kBthBytes = 12, kRethBytes = 16, kAethBytes = 4, kCnpPadBytes = 16, kIcrcBytes = 4;

inline std::uint32_t transport_bytes(const RoceHeader& header) {
  switch (header.kind) {
    case RoceKind::kWrite:
      return kBthBytes + (header.first != 0 ? kRethBytes : 0) + kIcrcBytes;
    case RoceKind::kCnp:
      return kBthBytes + kCnpPadBytes + kIcrcBytes;
    default:
      return kBthBytes + kAethBytes + kIcrcBytes;
  }
}

// `around`: bytes of the lower layers around the transport on the wire.
inline void write_header(const RoceHeader& header, std::uint32_t around, std::uint16_t payload_bytes,
                         HostPacket& packet) {
  std::memcpy(packet.header.data(), &header, sizeof header);
  packet.header_bytes = sizeof header;
  packet.payload_bytes = payload_bytes;
  packet.bytes = around + transport_bytes(header) + payload_bytes;
}

inline RoceHeader read_roce_header(const HostPacket& packet) {
  RoceHeader header;
  std::memcpy(&header, packet.header.data(), sizeof header);
  return header;
}

}  // namespace openmrc::netsim
