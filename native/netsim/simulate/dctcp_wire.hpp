// Packets of the DCTCP baseline. Sequence numbers count packets, not bytes: every packet but the last of a message is
// full, and retransmissions use the same packets, so byte numbers would carry no more information.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "netsim/simulate/endpoint.hpp"

namespace openmrc::netsim {

enum class DctcpKind : std::uint8_t { kData = 0, kAck = 1 };

struct DctcpData {
  DctcpKind kind = DctcpKind::kData;
  std::uint8_t last = 0;  // of the message
  std::uint16_t reserved = 0;
  std::uint32_t connection = 0;  // number at the receiver
  std::uint64_t sequence = 0;
  std::int64_t sent_ps = 0;  // timestamp option
  std::uint32_t message = 0;
  std::uint32_t reserved_too = 0;  // avoids padding: headers are hashed into the trace of a run
};

// Packets [start, end) beyond the acknowledgement, counted from it.
struct SackBlock {
  std::uint32_t start = 0, end = 0;
};

inline constexpr std::size_t kSackBlocks = 3;  // limit beside the timestamp option (RFC 2018)

struct DctcpAck {
  DctcpKind kind = DctcpKind::kAck;
  std::uint8_t echo = 0;  // ECE
  std::uint8_t blocks = 0;
  std::uint8_t reserved = 0;
  std::uint32_t connection = 0;
  std::uint64_t next = 0;    // packet expected
  std::int64_t sent_ps = 0;  // of the packet that caused this acknowledgement
  std::array<SackBlock, kSackBlocks> sacked;
};

static_assert(sizeof(DctcpData) <= kHeaderRoom && std::has_unique_object_representations_v<DctcpData>);
static_assert(sizeof(DctcpAck) <= kHeaderRoom && std::has_unique_object_representations_v<DctcpAck>);

// TCP's 20 bytes and the 12 of the timestamp option, without the UDP header that the surroundings count.
inline constexpr std::uint32_t kTcpBytes = 24;
inline constexpr std::uint32_t kSackOptionBytes = 4, kSackBlockBytes = 8;

inline void write_header(const DctcpData& header, std::uint32_t around, std::uint16_t payload_bytes,
                         HostPacket& packet) {
  std::memcpy(packet.header.data(), &header, sizeof header);
  packet.header_bytes = sizeof header;
  packet.payload_bytes = payload_bytes;
  packet.bytes = around + kTcpBytes + payload_bytes;
}

inline void write_header(const DctcpAck& header, std::uint32_t around, HostPacket& packet) {
  std::memcpy(packet.header.data(), &header, sizeof header);
  packet.header_bytes = sizeof header;
  packet.bytes = around + kTcpBytes + (header.blocks == 0 ? 0 : kSackOptionBytes + header.blocks * kSackBlockBytes);
}

inline DctcpKind dctcp_kind(const HostPacket& packet) { return static_cast<DctcpKind>(packet.header[0]); }

template <typename Header>
Header read_dctcp_header(const HostPacket& packet) {
  Header header;
  std::memcpy(&header, packet.header.data(), sizeof header);
  return header;
}

}  // namespace openmrc::netsim
