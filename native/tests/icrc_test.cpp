// CRC-32 engines against each other and a bit-by-bit definition; ICRC against packets of other implementations.
#include <algorithm>
#include <array>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/wire/crc32.hpp"
#include "engine/wire/icrc.hpp"
#include "engine/wire/packet.hpp"
#include "tests/check.hpp"

namespace openmrc {
namespace {

std::vector<wire::Crc32Engine> engines() {
  std::array<wire::Crc32Engine, wire::kCrc32EnginesMax> all;
  const std::size_t count = wire::crc32_engines(all);
  return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::vector<std::uint8_t> random_bytes(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::uint8_t> bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(rng.next() >> 56);
  return bytes;
}

// The definition: one bit at a time.
std::uint32_t crc32_by_bits(std::uint32_t state, std::span<const std::uint8_t> bytes) {
  for (const std::uint8_t byte : bytes) {
    state ^= byte;
    for (int i = 0; i < 8; ++i) state = (state >> 1) ^ ((state & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  return state;
}

Address ipv4(std::array<std::uint8_t, 4> bytes) {
  Address address;
  address.family = AddressFamily::kIpv4;
  std::copy(bytes.begin(), bytes.end(), address.bytes.begin());
  return address;
}

Address ipv6(std::uint8_t last) {
  Address address;
  address.family = AddressFamily::kIpv6;
  address.bytes = {0x20, 0x01, 0x0d, 0xb8};
  address.bytes[15] = last;
  return address;
}

// ICRC of a captured IPv4 packet (from the first byte of the IP header, ICRC included), written from the rules alone:
// unlike icrc() it uses the identification and the flags of the packet.
std::uint32_t icrc_of_ipv4_packet(std::vector<std::uint8_t> packet) {
  packet[1] = 0xFF;
  packet[8] = 0xFF;
  packet[10] = packet[11] = 0xFF;
  packet[26] = packet[27] = 0xFF;
  packet[32] = 0xFF;
  std::vector<std::uint8_t> masked(8, 0xFF);
  masked.insert(masked.end(), packet.begin(), packet.end() - 4);
  return ~crc32_by_bits(wire::kCrc32Start, masked);
}

std::uint32_t little_endian_at(const std::vector<std::uint8_t>& bytes, std::size_t at) {
  return bytes[at] | (std::uint32_t{bytes[at + 1]} << 8) | (std::uint32_t{bytes[at + 2]} << 16) |
         (std::uint32_t{bytes[at + 3]} << 24);
}

}  // namespace

TEST_CASE(crc32_check_value) {
  constexpr std::uint8_t kDigits[] = {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
  CHECK(~wire::crc32_update(wire::kCrc32Start, kDigits) == 0xCBF43926);
  for (const auto& engine : engines()) CHECK(~engine.update(wire::kCrc32Start, kDigits, sizeof kDigits) == 0xCBF43926);
}

TEST_CASE(crc32_engines_agree_at_every_length_and_alignment) {
  const auto bytes = random_bytes(1200, 1);
  for (const auto& engine : engines()) {
    for (std::size_t length = 0; length <= 1100; ++length) {
      const std::size_t offset = length % 17;
      const std::vector<std::uint8_t> exact(bytes.begin() + static_cast<std::ptrdiff_t>(offset),
                                            bytes.begin() + static_cast<std::ptrdiff_t>(offset + length));
      const auto state = static_cast<std::uint32_t>(length * 0x9E3779B9U);
      CHECK(engine.update(state, exact.data(), exact.size()) == crc32_by_bits(state, exact));
    }
  }
}

TEST_CASE(crc32_of_pieces_is_crc32_of_the_whole) {
  const auto bytes = random_bytes(8192, 2);
  Rng rng(3);
  for (const auto& engine : engines()) {
    const std::uint32_t whole = crc32_by_bits(wire::kCrc32Start, bytes);
    for (int round = 0; round < 100; ++round) {
      std::uint32_t state = wire::kCrc32Start;
      for (std::size_t at = 0; at < bytes.size();) {
        const std::size_t piece = std::min<std::size_t>(bytes.size() - at, rng.below(900));
        state = engine.update(state, bytes.data() + at, piece);
        at += piece;
      }
      CHECK(state == whole);
    }
  }
}

// A congestion notification packet captured on a ConnectX-4 Lx, as published with scapy's RoCE tests.
// proves A.3.8
TEST_CASE(icrc_rules_hold_for_a_packet_of_a_hardware_nic) {
  const std::vector<std::uint8_t> packet = {0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61,
                                            0x0a, 0x00, 0x11, 0x01, 0x0a, 0x00, 0x12, 0x01, 0x00, 0x00, 0x12, 0xb7,
                                            0x00, 0x28, 0x00, 0x00, 0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18,
                                            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                            0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x82, 0xfd, 0x00, 0x2a};
  CHECK(icrc_of_ipv4_packet(packet) == little_endian_at(packet, packet.size() - 4));
}

// A UC SEND ONLY packet of the same tests; its ICRC is 78 f3 53 f3 in wire order.
TEST_CASE(icrc_rules_hold_for_a_packet_with_payload) {
  const std::vector<std::uint8_t> packet = {
      0x45, 0x01, 0x00, 0x40, 0x04, 0x78, 0x40, 0x00, 0x40, 0x11, 0xb4, 0xd5, 0xc0, 0xa8, 0x00, 0x07,
      0xc0, 0xa8, 0x00, 0x07, 0xc0, 0x00, 0x12, 0xb7, 0x00, 0x2c, 0xac, 0xa2, 0x24, 0x60, 0xff, 0xff,
      0x00, 0x00, 0x00, 0xd3, 0x00, 0xcf, 0x17, 0x10, 'F',  '0',  0x81, 0x8b, 0xe2, 0x89, '5',  0xd9,
      0x0e, 0x9a, 0x95, 'P',  'T',  0x01, 0xbe, 0x88, '^',  'P',  0x00, 0x00, 0x78, 0xf3, 0x53, 0xf3};
  CHECK(icrc_of_ipv4_packet(packet) == little_endian_at(packet, packet.size() - 4));
}

TEST_CASE(icrc_follows_the_rules_for_ipv4) {
  for (std::uint8_t pad = 0; pad < 4; ++pad) {
    auto datagram = random_bytes(12 + 16 + 57, pad);
    datagram.insert(datagram.end(), std::size_t{pad} + wire::kIcrcBytes, 0);
    const auto udp_bytes = static_cast<std::uint8_t>(8 + datagram.size());
    const wire::Flow flow{ipv4({10, 1, 2, 3}), ipv4({10, 4, 5, 6}), 0xC123, 4791};
    std::vector<std::uint8_t> packet = {0x45, 0x02,      0,    static_cast<std::uint8_t>(20 + udp_bytes),
                                        0,    0,         0x40, 0,
                                        64,   17,        0xAB, 0xCD,
                                        10,   1,         2,    3,
                                        10,   4,         5,    6,
                                        0xC1, 0x23,      0x12, 0xB7,
                                        0,    udp_bytes, 0x12, 0x34};
    packet.insert(packet.end(), datagram.begin(), datagram.end());
    const std::span<const std::uint8_t> bytes = datagram;
    CHECK(wire::icrc(flow, bytes.first(28), bytes.subspan(28, 57), pad) == icrc_of_ipv4_packet(packet));
  }
}

TEST_CASE(icrc_follows_the_rules_for_ipv6) {
  auto datagram = random_bytes(12 + 24 + 300, 5);
  datagram.insert(datagram.end(), wire::kIcrcBytes, 0);
  const wire::Flow flow{ipv6(1), ipv6(2), 0xC123, 4791};
  const std::size_t udp_bytes = 8 + datagram.size();
  std::vector<std::uint8_t> masked(8, 0xFF);
  const std::uint8_t high = static_cast<std::uint8_t>(udp_bytes >> 8);
  const std::uint8_t low = static_cast<std::uint8_t>(udp_bytes);
  for (const std::uint8_t byte : {std::uint8_t{0x6F}, std::uint8_t{0xFF}, std::uint8_t{0xFF}, std::uint8_t{0xFF}, high,
                                  low, std::uint8_t{17}, std::uint8_t{0xFF}}) {
    masked.push_back(byte);
  }
  masked.insert(masked.end(), flow.source.bytes.begin(), flow.source.bytes.end());
  masked.insert(masked.end(), flow.destination.bytes.begin(), flow.destination.bytes.end());
  for (const std::uint8_t byte : {std::uint8_t{0xC1}, std::uint8_t{0x23}, std::uint8_t{0x12}, std::uint8_t{0xB7}, high,
                                  low, std::uint8_t{0xFF}, std::uint8_t{0xFF}}) {
    masked.push_back(byte);
  }
  const std::size_t bth_at = masked.size();
  masked.insert(masked.end(), datagram.begin(), datagram.end() - 4);
  masked[bth_at + 4] = 0xFF;
  const std::span<const std::uint8_t> bytes = datagram;
  CHECK(wire::icrc(flow, bytes.first(36), bytes.subspan(36, 300), 0) == ~crc32_by_bits(wire::kCrc32Start, masked));
}

// proves A.3.8
TEST_CASE(icrc_matches_only_the_untouched_datagram) {
  const wire::Flow flow{ipv6(1), ipv6(2), 50'000, 4791};
  for (const std::size_t payload_bytes : {0U, 1U, 5U, 60U, 700U}) {
    auto datagram = random_bytes(36 + payload_bytes, payload_bytes);
    const std::span<const std::uint8_t> bytes = datagram;
    const std::uint32_t value = wire::icrc(flow, bytes.first(36), bytes.subspan(36), 0);
    for (int i = 0; i < 4; ++i) datagram.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
    CHECK(wire::icrc_matches(flow, datagram));
    for (std::size_t at = 0; at < datagram.size(); ++at) {
      datagram[at] ^= 0x10;
      CHECK(wire::icrc_matches(flow, datagram) == (at == 4));  // resv8a is not covered
      datagram[at] ^= 0x10;
    }
    wire::Flow other = flow;
    other.source_port = 50'001;
    CHECK(!wire::icrc_matches(other, datagram));
    other = flow;
    other.source = ipv6(3);
    CHECK(!wire::icrc_matches(other, datagram));
  }
}

TEST_CASE(icrc_of_a_flow_follows_every_change_of_length_and_flow) {
  const std::array<wire::Flow, 3> flows{{{ipv4({10, 0, 0, 1}), ipv4({10, 0, 0, 2}), 50'000, 4791},
                                         {ipv4({10, 0, 0, 1}), ipv4({10, 0, 0, 2}), 50'001, 4791},
                                         {ipv6(1), ipv6(2), 50'000, 4791}}};
  wire::FlowIcrc kept;
  for (std::size_t turn = 0; turn < 60; ++turn) {
    const wire::Flow& flow = flows[turn / 2 % 3];
    kept.set_flow(flow.source, flow.destination, flow.source_port, flow.destination_port);
    const auto bytes = random_bytes(36 + turn / 4 % 5, turn);
    const std::span<const std::uint8_t> all = bytes;
    const std::uint32_t value = kept(all.first(16 + turn % 20), all.subspan(16 + turn % 20), 0);
    CHECK(value == wire::icrc(flow, all.first(16 + turn % 20), all.subspan(16 + turn % 20), 0));
    auto datagram = bytes;
    for (int i = 0; i < 4; ++i) datagram.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
    CHECK(kept.matches(datagram));
    datagram[8] ^= 1;
    CHECK(!kept.matches(datagram));
  }
}

TEST_CASE(icrc_of_a_short_datagram_never_matches) {
  const wire::Flow flow{ipv4({127, 0, 0, 1}), ipv4({127, 0, 0, 1}), 50'000, 4791};
  for (std::size_t length = 0; length < 16; ++length) CHECK(!wire::icrc_matches(flow, random_bytes(length, length)));
}

}  // namespace openmrc
