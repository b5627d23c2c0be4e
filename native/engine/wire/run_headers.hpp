// Encoded headers of a run: consecutive packets between the first and the last one of an MRC message, sent together.
// They differ in PSN and address only, and most packets of a stream belong to one.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "engine/base/limits.hpp"
#include "engine/wire/layout.hpp"

namespace openmrc::wire {

class RunHeaders {
 public:
  static constexpr std::size_t kBytes = kBthBytes + kMethBytes + kTsethBytes + kRethBytes;

  // True if a run can begin with this packet: from the middle of a message, and it requests no acknowledgement.
  static bool may_begin(std::span<const std::uint8_t> packet) {
    return packet.size() >= kBytes && packet[0] == static_cast<std::uint8_t>(Opcode::kWriteMiddle) &&
           layout::has_timestamp(packet.data()) && !layout::requests_ack(packet.data()) &&
           !layout::is_repeated(packet.data()) && !layout::is_joined(packet.data());
  }

  // `first`: a packet with which a run can begin; each packet of the run has `payload_bytes` of payload.
  RunHeaders(std::span<const std::uint8_t> first, std::uint32_t payload_bytes) : payload_bytes_(payload_bytes) {
    std::memcpy(first_.data(), first.data(), kBytes);
    flags_ = load_be32(first_.data() + kFlagsAt) & ~layout::kMask24;
    psn_ = load_be32(first_.data() + kFlagsAt) & layout::kMask24;
    address_ = load_be64(first_.data() + kAddressAt);
  }

  // Writes the headers of the packet that is `index` behind the first one: kBytes.
  void write(std::uint32_t index, std::uint8_t* out) const {
    // In parts of the size of registers: for 36 bytes at once GCC takes `rep movs`, which is slow to start.
    static_assert(kBytes == 32 + sizeof(std::uint32_t));
    std::memcpy(out, first_.data(), 32);
    std::memcpy(out + 32, first_.data() + 32, sizeof(std::uint32_t));
    store_be32(out + kFlagsAt, flags_ | ((psn_ + index) & layout::kMask24));
    store_be64(out + kAddressAt, address_of(index));
  }

  // True if the packet belongs to the run at that place. It has at least kBytes.
  bool continued(std::uint32_t index, const std::uint8_t* packet) const {
    return std::memcmp(packet, first_.data(), kFlagsAt) == 0 &&
           load_be32(packet + kFlagsAt) == (flags_ | ((psn_ + index) & layout::kMask24)) &&
           std::memcmp(packet + kBthBytes, first_.data() + kBthBytes, kAddressAt - kBthBytes) == 0 &&
           load_be64(packet + kAddressAt) == address_of(index) &&
           std::memcmp(packet + kKeyAt, first_.data() + kKeyAt, kBytes - kKeyAt) == 0;
  }

 private:
  static constexpr std::size_t kFlagsAt = layout::kPsnWordAt;
  static constexpr std::size_t kAddressAt = kBthBytes + kMethBytes + kTsethBytes;
  static constexpr std::size_t kKeyAt = kAddressAt + sizeof(std::uint64_t);

  std::uint64_t address_of(std::uint32_t index) const { return address_ + std::uint64_t{index} * payload_bytes_; }

  std::array<std::uint8_t, kBytes> first_;
  std::uint32_t payload_bytes_ = 0, flags_ = 0, psn_ = 0;
  std::uint64_t address_ = 0;
};

static_assert(RunHeaders::kBytes <= kHeaderBytesMax);

}  // namespace openmrc::wire
