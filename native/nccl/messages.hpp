// Bytes that the two ends of a connection exchange: the handle, the set-up over TCP, and announced receives.
//
//   sender: hello   the secret of the handle, its QP and ports
//   receiver: offer the same without the secret
//   sender: ready   the payload of a full packet; its QP is in RTS
//   either: close   regular end, with the number of messages that were completed
//
// Every integer is big-endian. A reader returns false for anything that the writer would not have written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/address.hpp"
#include "engine/base/limits.hpp"
#include "engine/config.hpp"

namespace openmrc::nccl {

inline constexpr std::uint32_t kGroupMax = 8;                   // receives in one group
inline constexpr std::uint32_t kSlots = 32;                     // groups announced and not completed
inline constexpr std::size_t kSlotBytes = 256;                  // of an announced group in the sender's memory
inline constexpr std::uint64_t kMessageSizeMax = 1ULL << 38;    // 256 chunks
inline constexpr std::uint64_t kChunkBytes = kMessageBytesMax;  // longer messages are several WRITEs
inline constexpr std::uint16_t kImmediatesMax = 512;            // WRITE_IMM in flight, in each direction

using Secret = std::array<std::uint8_t, 16>;

// Address of a listening end, which NCCL carries to its peer.
struct Handle {
  Address address;
  std::uint16_t tcp_port = 0;
  Secret secret{};
};

// One end of a connection.
struct EndDescription {
  std::uint32_t qp = 0;
  std::uint32_t psn = 0;           // of its first packet
  std::uint32_t payload_room = 0;  // of a packet, as far as this end knows
  std::uint64_t receive_buffer_bytes = 0;
  bool extensions = false;          // for planes that do not mark
  std::uint64_t slots_address = 0;  // of the sender: where receives are announced
  std::uint32_t slots_key = 0;
  PeerConfig ports;
};

struct Announced {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t key = 0;
  std::int32_t tag = 0;
};

struct AnnouncedGroup {
  std::uint64_t sequence = 0;
  std::uint32_t count = 0;
  std::array<Announced, kGroupMax> receives{};
};

inline constexpr std::size_t kHandleBytes = 64;  // the rest of NCCL's is the connecting end's
inline constexpr std::size_t kEndBytes = 48 + 16 * kPortCountMax;
inline constexpr std::size_t kHelloBytes = 8 + 16 + kEndBytes;
inline constexpr std::size_t kOfferBytes = 8 + kEndBytes;
inline constexpr std::size_t kReadyBytes = 16;
inline constexpr std::size_t kCloseBytes = 16;

using Bytes = std::span<std::uint8_t>;
using ConstBytes = std::span<const std::uint8_t>;

void write_handle(Bytes out, const Handle& handle);
bool read_handle(ConstBytes in, Handle& handle);
void write_hello(Bytes out, const Secret& secret, const EndDescription& end);
// `known`: the secret is the expected one, so that it is the peer that sent this.
bool read_hello(ConstBytes in, const Secret& expected, bool& known, EndDescription& end);
void write_offer(Bytes out, const EndDescription& end);
bool read_offer(ConstBytes in, EndDescription& end);
void write_ready(Bytes out, std::uint32_t payload);
bool read_ready(ConstBytes in, std::uint32_t& payload);
void write_close(Bytes out, std::uint64_t completed);
bool read_close(ConstBytes in, std::uint64_t& completed);

constexpr std::size_t group_bytes(std::uint32_t count) { return 16 + 24 * std::size_t{count}; }
static_assert(group_bytes(kGroupMax) <= kSlotBytes && group_bytes(kGroupMax) <= kInlineBytesMax);
void write_group(Bytes out, const AnnouncedGroup& group);
bool read_group(ConstBytes in, AnnouncedGroup& group);

// Immediate data of a message: its receive, and the number of chunks ahead of the WRITE_IMM.
struct Arrival {
  std::uint32_t slot = 0, index = 0, chunks = 0;
};
constexpr std::uint32_t immediate_of(const Arrival& arrival) {
  return arrival.slot << 27 | arrival.index << 24 | arrival.chunks;
}
constexpr Arrival arrival_of(std::uint32_t immediate) {
  return {immediate >> 27, immediate >> 24 & 7U, immediate & 0xFF'FFFFU};
}
static_assert(kSlots == 32 && kGroupMax == 8 && kMessageSizeMax / kChunkBytes < 1U << 24);
static_assert(kSlots * kGroupMax <= kImmediatesMax);

}  // namespace openmrc::nccl
