// Packets: round trips, every length of every opcode, and every malformed field that a peer can send.
#include <cstring>
#include <vector>

#include "engine/base/limits.hpp"
#include "engine/base/rng.hpp"
#include "engine/wire/names.hpp"
#include "engine/wire/packet.hpp"
#include "tests/check.hpp"
#include "tests/wire_values.hpp"

namespace openmrc {
namespace {

using wire::Extent;
using wire::Opcode;
using wire::Packet;
using wire::ParseError;

constexpr int kRounds = 200;

using test::carries_payload;

// A buffer of exactly the datagram's size, so that the sanitizer sees any read behind it.
std::vector<std::uint8_t> datagram_of(const Packet& packet, std::size_t payload_bytes) {
  std::vector<std::uint8_t> bytes(kHeaderBytesMax);
  bytes.resize(wire::encode_headers(packet, bytes));
  if (carries_payload(packet.bth.opcode)) bytes.resize(bytes.size() + payload_bytes + packet.bth.pad_bytes, 0xA5);
  bytes.resize(bytes.size() + wire::kIcrcBytes, 0xCC);
  bytes.shrink_to_fit();
  return bytes;
}

ParseError parse_copy(std::span<const std::uint8_t> bytes, Extent extent, Packet& packet) {
  const std::vector<std::uint8_t> exact(bytes.begin(), bytes.end());
  return wire::parse(exact, extent, packet);
}

Packet draw(Opcode opcode, std::uint64_t seed) {
  Rng rng(seed);
  return test::draw_packet(opcode, [&rng] { return rng.next(); });
}

// Headers of `opcode` with chosen bytes, to corrupt them.
std::vector<std::uint8_t> valid(Opcode opcode) { return datagram_of(draw(opcode, 7), 0); }

ParseError error_of(const std::vector<std::uint8_t>& bytes) {
  Packet packet;
  return wire::parse(bytes, Extent::kWhole, packet);
}

}  // namespace

TEST_CASE(wire_values_survive_encode_and_parse) {
  for (const Opcode opcode : test::kAllOpcodes) {
    for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
      const Packet sent = draw(opcode, seed);
      const std::size_t payload_bytes = carries_payload(opcode) ? seed * 21 : 0;
      const auto bytes = datagram_of(sent, payload_bytes);
      Packet received;
      CHECK(wire::parse(bytes, Extent::kWhole, received) == ParseError::kNone);
      CHECK(test::same_headers(sent, received));
      CHECK(received.payload_bytes == payload_bytes);
      CHECK(received.header_bytes + payload_bytes + sent.bth.pad_bytes + wire::kIcrcBytes == bytes.size());
    }
  }
}

TEST_CASE(wire_every_shorter_length_is_too_short) {
  for (const Opcode opcode : test::kAllOpcodes) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      Packet sent = draw(opcode, seed);
      sent.bth.pad_bytes = 0;
      const auto bytes = datagram_of(sent, 0);
      for (std::size_t length = 0; length < bytes.size(); ++length) {
        Packet received;
        CHECK(parse_copy({bytes.data(), length}, Extent::kWhole, received) == ParseError::kTooShort);
      }
    }
  }
}

TEST_CASE(wire_longer_control_packets_are_refused) {
  for (const Opcode opcode : test::kAllOpcodes) {
    if (carries_payload(opcode)) continue;
    Packet packet = draw(opcode, 3);
    packet.erth.op = packet.eeth.op = wire::EndpointOp::kPortStatusUpdate;
    auto bytes = datagram_of(packet, 0);
    for (int extra = 0; extra < 70; ++extra) {
      bytes.push_back(0);
      CHECK(error_of(bytes) == ParseError::kUnexpectedPayload);
    }
  }
}

TEST_CASE(wire_ev_probes_may_be_padded_by_words) {
  for (const Opcode opcode : {Opcode::kEndpointRequest, Opcode::kEndpointResponse}) {
    Packet packet = draw(opcode, 3);
    packet.erth.op = packet.eeth.op = wire::EndpointOp::kEvProbe;
    packet.bth.pad_bytes = 0;
    auto bytes = datagram_of(packet, 0);
    for (std::size_t padding = 0; padding < 70; ++padding, bytes.push_back(0)) {
      Packet received;
      const ParseError error = parse_copy(bytes, Extent::kWhole, received);
      CHECK(error == (padding % 4 == 0 ? ParseError::kNone : ParseError::kUnexpectedPayload));
      if (error == ParseError::kNone) CHECK(received.payload_bytes == padding);
    }
  }
}

// proves A.6.9
TEST_CASE(wire_trimmed_data_keeps_what_survived) {
  for (const Opcode opcode : test::kAllOpcodes) {
    if (!wire::is_data(opcode) && !wire::is_rc_data(opcode)) continue;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const Packet sent = draw(opcode, seed);
      const auto bytes = datagram_of(sent, 100);
      const bool mrc = wire::is_data(opcode);
      const bool reth = mrc || (wire::is_first(opcode) && !wire::is_rc_send(opcode));
      const std::size_t least = wire::kBthBytes + (mrc ? wire::kMethBytes : 0) + (sent.bth.ts ? wire::kTsethBytes : 0);
      const std::size_t reth_end = least + (reth ? wire::kRethBytes : 0);
      const std::size_t imm_end = reth_end + (wire::has_immediate(opcode) ? wire::kImmDtBytes : 0);
      for (std::size_t length = 0; length <= bytes.size(); ++length) {
        Packet received;
        received.reth.rkey = 0xDEAD;
        received.immdt.immediate = 0xDEAD;
        const ParseError error = parse_copy({bytes.data(), length}, Extent::kTrimmed, received);
        CHECK(error == (length < least ? ParseError::kTooShort : ParseError::kNone));
        if (length < least) continue;
        Packet expected = sent;
        if (length < reth_end) expected.reth = {};
        if (length < imm_end) expected.immdt = {};
        CHECK(test::same_headers(expected, received));
        CHECK(received.payload_bytes == 0);
        CHECK(received.header_bytes == (length < reth_end ? least : length < imm_end ? reth_end : imm_end));
      }
    }
  }
}

TEST_CASE(wire_control_is_whole_in_a_trimmed_class_too) {
  for (const Opcode opcode : test::kAllOpcodes) {
    if (carries_payload(opcode)) continue;
    const auto bytes = valid(opcode);
    for (std::size_t length = 0; length <= bytes.size(); ++length) {
      Packet received;
      CHECK(parse_copy({bytes.data(), length}, Extent::kTrimmed, received) ==
            (length == bytes.size() ? ParseError::kNone : ParseError::kTooShort));
    }
  }
}

// proves A.1.1
TEST_CASE(wire_unknown_opcodes_are_refused) {
  for (unsigned code = 0; code < 256; ++code) {
    const auto opcode = static_cast<Opcode>(code);
    bool expected = false;
    for (const Opcode known : test::kAllOpcodes) expected = expected || known == opcode;
    CHECK(wire::is_known(opcode) == expected);
    CHECK((std::strcmp(wire::name_of(opcode), "unknown") != 0) == expected);
    std::vector<std::uint8_t> bytes(200, 0);
    bytes[0] = static_cast<std::uint8_t>(code);
    CHECK((error_of(bytes) == ParseError::kUnknownOpcode) == !expected);
  }
}

TEST_CASE(wire_bad_version_is_refused) {
  for (const Opcode opcode : test::kAllOpcodes) {
    for (std::uint8_t version = 1; version < 16; ++version) {
      auto bytes = valid(opcode);
      bytes[1] = static_cast<std::uint8_t>(bytes[1] | version);
      CHECK(error_of(bytes) == ParseError::kBadVersion);
    }
  }
}

TEST_CASE(wire_timestamp_format_other_than_one_is_refused) {
  Packet data = draw(Opcode::kWriteOnly, 1);
  data.bth.ts = true;
  const struct {
    std::vector<std::uint8_t> bytes;
    std::size_t position;
  } cases[] = {
      {datagram_of(data, 8), 12 + 4 + 3}, {valid(Opcode::kProbe), 12 + 15}, {valid(Opcode::kEndpointRequest), 12 + 15}};
  for (const auto& item : cases) {
    for (std::uint8_t format = 0; format < 16; ++format) {
      auto bytes = item.bytes;
      bytes[item.position] = format;
      CHECK(error_of(bytes) == (format == 1 ? ParseError::kNone : ParseError::kBadTimestampFormat));
    }
  }
}

TEST_CASE(wire_bad_sack_and_nack_fields_are_refused) {
  auto bytes = valid(Opcode::kSack);
  bytes[12] |= 0x10;
  CHECK(error_of(bytes) == ParseError::kBadSackType);
  bytes = valid(Opcode::kSack);
  bytes[13] |= 0x60;  // M = 3 means nothing
  CHECK(error_of(bytes) == ParseError::kBadSackType);
  for (std::uint8_t cc_type = 1; cc_type < 16; ++cc_type) {
    bytes = valid(Opcode::kSack);
    bytes[12 + 16] = static_cast<std::uint8_t>(cc_type << 4);
    CHECK(error_of(bytes) == ParseError::kBadCcType);
  }
  bytes = valid(Opcode::kNack);
  bytes[12] |= 0x10;
  CHECK(error_of(bytes) == ParseError::kBadNackType);
  for (std::uint8_t cc_type = 0; cc_type < 16; ++cc_type) {
    bytes = valid(Opcode::kNack);
    bytes[12 + 16] = static_cast<std::uint8_t>(cc_type << 4);
    CHECK(error_of(bytes) == (cc_type == 2 ? ParseError::kNone : ParseError::kBadCcType));
  }
}

TEST_CASE(wire_only_listed_nack_reasons_are_accepted) {
  int accepted = 0;
  for (unsigned reason = 0; reason < 256; ++reason) {
    auto bytes = valid(Opcode::kNack);
    bytes[12 + 2] = static_cast<std::uint8_t>(reason);
    const ParseError error = error_of(bytes);
    CHECK(error == ParseError::kNone || error == ParseError::kBadNackReason);
    accepted += error == ParseError::kNone ? 1 : 0;
  }
  CHECK(accepted == 7);
}

TEST_CASE(wire_bad_endpoint_operations_are_refused) {
  for (std::uint8_t op = 0; op < 4; ++op) {
    auto request = valid(Opcode::kEndpointRequest);
    request[12 + 1] = op;
    CHECK(error_of(request) == (op < 3 ? ParseError::kNone : ParseError::kBadEndpointOp));
    auto response = valid(Opcode::kEndpointResponse);
    response[12 + 1] = static_cast<std::uint8_t>(op << 2);
    CHECK(error_of(response) == (op < 3 ? ParseError::kNone : ParseError::kBadEndpointOp));
  }
}

// proves A.1.3
TEST_CASE(wire_credits_count_only_in_rc_acknowledgements) {
  for (unsigned syndrome = 0; syndrome < 256; ++syndrome) {
    const bool nak = syndrome >= 0x60 && syndrome <= 0x63;
    for (const Opcode opcode : {Opcode::kAck, Opcode::kRcAck}) {
      auto bytes = valid(opcode);
      bytes[12] = static_cast<std::uint8_t>(syndrome);
      Packet packet;
      const ParseError error = wire::parse(bytes, Extent::kWhole, packet);
      const bool ack = opcode == Opcode::kAck ? syndrome == 0x1F : syndrome <= 0x1F;
      const bool rnr = opcode == Opcode::kRcAck && syndrome >= 0x20 && syndrome <= 0x3F;
      CHECK(error == (ack || nak || rnr ? ParseError::kNone : ParseError::kBadSyndrome));
      if (rnr) CHECK(packet.aeth.syndrome == wire::AethSyndrome::kRnrNak && packet.aeth.rnr_timer == syndrome - 0x20);
      if (ack && error == ParseError::kNone) CHECK(packet.aeth.syndrome == wire::AethSyndrome::kAck);
    }
  }
}

TEST_CASE(wire_pad_has_to_fit) {
  for (const Opcode opcode : test::kAllOpcodes) {
    for (std::uint8_t pad = 0; pad < 4; ++pad) {
      for (std::size_t after = 0; after < 5; ++after) {
        Packet packet = draw(opcode, 11);
        packet.bth.pad_bytes = 0;
        auto bytes = datagram_of(packet, after);
        bytes[1] = static_cast<std::uint8_t>(bytes[1] | (pad << 4));
        const std::size_t room = carries_payload(opcode) ? after : 0;
        CHECK(error_of(bytes) == (pad <= room ? ParseError::kNone : ParseError::kBadPad));
      }
    }
  }
}

TEST_CASE(wire_oversized_datagram_is_refused) {
  auto bytes = valid(Opcode::kWriteOnly);
  bytes[1] &= 0xCF;
  bytes.resize(65'535);
  CHECK(error_of(bytes) == ParseError::kNone);
  bytes.resize(65'536);
  CHECK(error_of(bytes) == ParseError::kUnexpectedPayload);
}

// proves A.3.10
TEST_CASE(wire_encode_settles_what_the_opcode_fixes) {
  std::uint8_t out[kHeaderBytesMax + wire::kIcrcBytes] = {};
  Packet received;
  for (const Opcode opcode : test::kAllOpcodes) {
    Packet sent = draw(opcode, 5);
    const Packet plain = sent;
    if (opcode == Opcode::kSack || opcode == Opcode::kNack || opcode == Opcode::kProbe) sent.bth.psn ^= 0x5A5A5A;
    if (opcode == Opcode::kEndpointRequest || opcode == Opcode::kEndpointResponse) sent.bth.psn |= 0xAB0000;
    if (!wire::is_data(opcode)) sent.bth.ts = true;
    if (wire::is_rc(opcode)) sent.bth.rtx = true;
    sent.bth.pad_bytes = 0;
    const std::size_t length = wire::encode_headers(sent, out) + wire::kIcrcBytes;
    CHECK(wire::parse({out, length}, Extent::kWhole, received) == ParseError::kNone);
    received.bth.pad_bytes = plain.bth.pad_bytes;
    CHECK(test::same_headers(plain, received));
  }
}

TEST_CASE(wire_fields_wider_than_their_place_do_not_spill) {
  std::uint8_t out[kHeaderBytesMax + wire::kIcrcBytes] = {};
  Packet sent = draw(Opcode::kSack, 9);
  const Packet plain = sent;
  sent.bth.destination_qp |= 0xFF000000;
  sent.seth.cack_psn |= 0xFF000000;
  sent.cc_state.ooo_count |= 0x8000;
  sent.cc_state.rcv_cwnd_pen |= 0x80;
  sent.cc_state.rcvd_256_bytes |= 0xFF000000;
  Packet received;
  const std::size_t length = wire::encode_headers(sent, out) + wire::kIcrcBytes;
  CHECK(wire::parse({out, length}, Extent::kWhole, received) == ParseError::kNone);
  CHECK(test::same_headers(plain, received));
}

// proves A.3.1
TEST_CASE(wire_reserved_bits_are_ignored) {
  auto bytes = valid(Opcode::kWriteFirst);
  Packet before;
  Packet after;
  CHECK(wire::parse(bytes, Extent::kWhole, before) == ParseError::kNone);
  bytes[4] = 0xFF;   // resv8a: FECN, BECN and reserved
  bytes[8] |= 0x4A;  // R and bits 3 and 1; the others have a meaning
  CHECK(wire::parse(bytes, Extent::kWhole, after) == ParseError::kNone);
  CHECK(test::same_headers(before, after));
}

TEST_CASE(wire_every_parse_error_has_a_name) {
  for (std::uint8_t i = 0; i < static_cast<std::uint8_t>(ParseError::kCount); ++i) {
    CHECK(std::strcmp(wire::name_of(static_cast<ParseError>(i)), "unknown") != 0);
  }
  CHECK(std::strcmp(wire::name_of(ParseError::kCount), "unknown") == 0);
}

}  // namespace openmrc
