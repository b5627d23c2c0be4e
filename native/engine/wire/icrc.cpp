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

// The length fields of IP and UDP include the ICRC.
std::uint16_t udp_bytes_of(std::size_t datagram_bytes) {
  return static_cast<std::uint16_t>(kUdpBytes + datagram_bytes);
}

// Register after the IP header.
std::uint32_t after_ip(const Flow& flow, std::size_t datagram_bytes) {
  std::array<std::uint8_t, kLrhMaskBytes + kIpv6Bytes> bytes;
  const std::uint16_t udp_bytes = udp_bytes_of(datagram_bytes);
  std::uint8_t* at = bytes.data();
  std::memset(at, kMasked, kLrhMaskBytes);
  at += kLrhMaskBytes;
  at = flow.destination.family == AddressFamily::kIpv4 ? put_ipv4(flow, udp_bytes, at) : put_ipv6(flow, udp_bytes, at);
  return crc32_update(kCrc32Start, {bytes.data(), static_cast<std::size_t>(at - bytes.data())});
}

// Register after the UDP header behind it.
std::uint32_t after_udp(std::uint32_t state, const Flow& flow, std::size_t datagram_bytes) {
  std::array<std::uint8_t, kUdpBytes> bytes;
  store_be32(bytes.data(), std::uint32_t{flow.source_port} << 16 | flow.destination_port);
  store_be32(bytes.data() + 4, std::uint32_t{udp_bytes_of(datagram_bytes)} << 16 | 0xFFFF);  // and the checksum
  for (std::size_t at = 0; at < kUdpBytes; at += sizeof state) {
    std::uint32_t word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    state = crc32_word(word ^ state, 0);
  }
  return state;
}

}  // namespace

std::uint32_t FlowIcrc::prefix(std::size_t datagram_bytes) {
  for (const Prefix& known : prefixes_) {
    if (known.datagram_bytes == datagram_bytes) return known.state;
  }
  replaced_ = 1 - replaced_;
  prefixes_[replaced_] = {datagram_bytes, after_ip(flow_, datagram_bytes)};
  return prefixes_[replaced_].state;
}

std::uint32_t FlowIcrc::after_bth(std::span<const std::uint8_t> headers, std::size_t datagram_bytes) {
  MRC_ASSERT(headers.size() >= kBthBytes && datagram_bytes <= kDatagramBytesMax);
  std::uint32_t state = after_udp(prefix(datagram_bytes), flow_, datagram_bytes);
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
