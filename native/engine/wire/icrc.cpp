#include "engine/wire/icrc.hpp"

#include <array>
#include <cstring>

#include "engine/base/assert.hpp"
#include "engine/wire/bytes.hpp"
#include "engine/wire/crc32.hpp"
#include "engine/wire/crc32_table.hpp"
#include "engine/wire/headers.hpp"

namespace openmrc::wire {

namespace {

constexpr std::size_t kLrhMaskBytes = 8;  // in place of InfiniBand's local route header
constexpr std::size_t kIpv4Bytes = 20;
constexpr std::size_t kIpv6Bytes = 40;
constexpr std::size_t kUdpBytes = 8;
constexpr std::size_t kAddressBytesIpv4 = 4;
constexpr std::size_t kBthMaskedWord = 4;  // begins with resv8a, where switches may mark FECN and BECN
constexpr std::uint8_t kProtocolUdp = 17;
constexpr std::uint8_t kMasked = 0xFF;

std::uint8_t* put_ipv4(const Flow& flow, std::uint16_t udp_bytes, std::uint8_t* out) {
  out[0] = 0x45;
  out[1] = kMasked;  // type of service
  store_be16(out + 2, static_cast<std::uint16_t>(kIpv4Bytes + udp_bytes));
  store_be32(out + 4, 0x00004000);  // identification 0, don't fragment
  out[8] = kMasked;                 // time to live
  out[9] = kProtocolUdp;
  store_be16(out + 10, 0xFFFF);  // header checksum
  std::memcpy(out + 12, flow.source.bytes.data(), kAddressBytesIpv4);
  std::memcpy(out + 16, flow.destination.bytes.data(), kAddressBytesIpv4);
  return out + kIpv4Bytes;
}

std::uint8_t* put_ipv6(const Flow& flow, std::uint16_t udp_bytes, std::uint8_t* out) {
  store_be32(out, 0x6FFFFFFF);  // traffic class and flow label
  store_be16(out + 4, udp_bytes);
  out[6] = kProtocolUdp;
  out[7] = kMasked;  // hop limit
  std::memcpy(out + 8, flow.source.bytes.data(), flow.source.bytes.size());
  std::memcpy(out + 24, flow.destination.bytes.data(), flow.destination.bytes.size());
  return out + kIpv6Bytes;
}

// Register after everything in front of the BTH. `datagram_bytes` includes the ICRC, as the length fields of IP and UDP
// do.
std::uint32_t pseudo_header(const Flow& flow, std::size_t datagram_bytes) {
  std::array<std::uint8_t, kLrhMaskBytes + kIpv6Bytes + kUdpBytes> bytes;
  const auto udp_bytes = static_cast<std::uint16_t>(kUdpBytes + datagram_bytes);
  std::uint8_t* at = bytes.data();
  std::memset(at, kMasked, kLrhMaskBytes);
  at += kLrhMaskBytes;
  at = flow.destination.family == AddressFamily::kIpv4 ? put_ipv4(flow, udp_bytes, at) : put_ipv6(flow, udp_bytes, at);
  store_be16(at, flow.source_port);
  store_be16(at + 2, flow.destination_port);
  store_be16(at + 4, udp_bytes);
  store_be16(at + 6, 0xFFFF);  // checksum
  at += kUdpBytes;
  return crc32_update(kCrc32Start, {bytes.data(), static_cast<std::size_t>(at - bytes.data())});
}

}  // namespace

std::uint32_t FlowIcrc::after_bth(std::span<const std::uint8_t> headers, std::size_t datagram_bytes) {
  MRC_ASSERT(headers.size() >= kBthBytes && datagram_bytes <= kDatagramBytesMax);
  if (datagram_bytes != datagram_bytes_) {
    prefix_ = pseudo_header(flow_, datagram_bytes);
    datagram_bytes_ = datagram_bytes;
  }
  std::uint32_t state = prefix_;
  for (std::size_t at = 0; at < kBthBytes; at += sizeof state) {
    std::uint32_t word;
    std::memcpy(&word, headers.data() + at, sizeof word);
    state = crc32_word((at == kBthMaskedWord ? word | kMasked : word) ^ state, 0);
  }
  return state;
}

// The headers were just written word by word: larger loads would stall on the store buffer.
std::uint32_t FlowIcrc::operator()(std::span<const std::uint8_t> headers, std::span<const std::uint8_t> payload,
                                   std::uint8_t pad_bytes) {
  static constexpr std::array<std::uint8_t, 3> kPad{};
  MRC_ASSERT(pad_bytes <= kPad.size());
  std::uint32_t state = after_bth(headers, headers.size() + payload.size() + pad_bytes + kIcrcBytes);
  state = crc32_table(state, headers.data() + kBthBytes, headers.size() - kBthBytes);
  state = crc32_update(state, payload);
  if (pad_bytes > 0) state = crc32_table(state, kPad.data(), pad_bytes);
  return ~state;
}

bool FlowIcrc::matches(std::span<const std::uint8_t> datagram) {
  if (datagram.size() < kBthBytes + kIcrcBytes || datagram.size() > kDatagramBytesMax) return false;
  const std::size_t covered = datagram.size() - kIcrcBytes;
  std::uint32_t received;
  std::memcpy(&received, datagram.data() + covered, sizeof received);
  const std::uint32_t state = after_bth(datagram.first(covered), datagram.size());
  return ~crc32_update(state, datagram.subspan(kBthBytes, covered - kBthBytes)) == received;
}

std::uint32_t icrc(const Flow& flow, std::span<const std::uint8_t> headers, std::span<const std::uint8_t> payload,
                   std::uint8_t pad_bytes) {
  return FlowIcrc(flow)(headers, payload, pad_bytes);
}

bool icrc_matches(const Flow& flow, std::span<const std::uint8_t> datagram) { return FlowIcrc(flow).matches(datagram); }

}  // namespace openmrc::wire
