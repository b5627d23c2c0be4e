// A whole transport packet: the stack of headers of each opcode, and the conversions between bytes and values.
//
// A datagram is `headers | payload | pad | ICRC`. Encoding writes the headers only: the payload stays in registered
// memory and the driver gathers it, so sending copies no byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/generated/enums.hpp"
#include "engine/wire/headers.hpp"

namespace openmrc::wire {

using openmrc::ParseError;

// Headers of data packets, MRC's and RC's.
struct DataHeaders {
  Bth bth;
  Meth meth;
  Tseth tseth;
  Reth reth;
  ImmDt immdt;
};

// Headers of ACKs, MRC's and RC's.
struct AckHeaders {
  Bth bth;
  Aeth aeth;
};

// Only the members of the opcode's stack are valid; `bth.ts` says whether `tseth` is.
struct Packet : DataHeaders {
  Seth seth;
  CcState cc_state;
  Neth neth;
  Peth peth;
  Erth erth;
  Eeth eeth;
  Aeth aeth;
  AtomicEth atomic;
  AtomicAckEth atomic_ack;
  std::uint16_t header_bytes = 0;   // offset of the payload in the datagram
  std::uint16_t payload_bytes = 0;  // without pad and ICRC
};

// Part of the datagram that must be present.
enum class Extent : std::uint8_t {
  kWhole,    // headers, payload, pad, ICRC
  kTrimmed,  // data may be cut by a switch: headers at least through METH (+ TSETH); payload and ICRC gone, later
             // headers maybe too. Other packets are whole.
};

constexpr bool is_data(Opcode opcode) {
  const auto code = static_cast<std::uint8_t>(opcode);
  return code >= 0xC6 && code <= 0xCB;
}
constexpr bool is_rc(Opcode opcode) { return static_cast<std::uint8_t>(opcode) <= 0x14; }
constexpr bool is_rc_send(Opcode opcode) { return static_cast<std::uint8_t>(opcode) <= 0x05; }
// Packets of SEND and WRITE.
constexpr bool is_rc_data(Opcode opcode) { return static_cast<std::uint8_t>(opcode) <= 0x0B; }
constexpr bool is_rc_atomic(Opcode opcode) { return opcode == Opcode::kRcCompareSwap || opcode == Opcode::kRcFetchAdd; }
// Packets to the responder.
constexpr bool is_rc_request(Opcode opcode) {
  return static_cast<std::uint8_t>(opcode) <= 0x0C || is_rc_atomic(opcode);
}
constexpr bool is_rc_read_response(Opcode opcode) {
  const auto code = static_cast<std::uint8_t>(opcode);
  return code >= 0x0D && code <= 0x10;
}
// Set of the data opcodes of RC (0x00 to 0x0B) or MRC (0xC0 to 0xCB), by the lower four bits.
constexpr bool is_data_among(Opcode opcode, std::uint32_t set) {
  const auto code = static_cast<std::uint8_t>(opcode);
  return ((code & 0xF0U) == 0xC0 || code <= 0x0B) && (set >> (code & 0x0FU) & 1U) != 0;
}
constexpr bool has_immediate(Opcode opcode) { return is_data_among(opcode, 0b1010'0010'1000); }
constexpr bool is_first(Opcode opcode) { return is_data_among(opcode, 0b1100'0111'0001); }
constexpr bool is_last(Opcode opcode) { return is_data_among(opcode, 0b1111'0011'1100); }

// Bytes -> values. `datagram` is the UDP payload including the ICRC, which is not checked here (see icrc.hpp). Never
// reads outside `datagram`; on error `packet` is unspecified, and `packet` may be reused. In a trimmed data packet,
// RETH and ImmDt are zero if cut off and `payload_bytes` is 0.
ParseError parse(std::span<const std::uint8_t> datagram, Extent extent, Packet& packet);

// An ACK of MRC in a datagram.
inline constexpr std::size_t kAckBytes = kBthBytes + kAethBytes + kIcrcBytes;

// Length of the first packet of a datagram: all of it, unless the packet announces an ACK behind it (X.4.9), which then
// occupies the last kAckBytes. The result is above 0 unless the datagram is empty.
std::size_t first_packet_bytes(std::span<const std::uint8_t> datagram);
// True for a packet with zeros in place of the ICRC (X.4.10).
bool lacks_icrc(std::span<const std::uint8_t> packet);
// Makes the encoded headers of a packet announce an ACK behind it. False, without effect: it is no MRC data, or repeated.
bool announce_ack(std::span<std::uint8_t> headers);

// True for the opcodes that parse and encode_headers support.
bool is_known(Opcode opcode);

// Values -> bytes: writes the header stack of `packet.bth.opcode` to `out` (at least kHeaderBytesMax bytes) and returns
// its length. Fields that the opcode determines are set here: the BTH's PSN of SACK and NACK equals the one in SETH and
// NETH, that of a probe is 0, that of an endpoint operation 16 bits wide; only MRC data packets have a TSETH; RC
// packets have no rtx bit; reserved bits are 0. Payload length, pad and ICRC are the caller's: pad = (4 - payload % 4)
// % 4, set in the BTH.
std::size_t encode_headers(const Packet& packet, std::span<std::uint8_t> out);
// The same for the opcodes of data packets.
std::size_t encode_data_headers(const DataHeaders& headers, std::span<std::uint8_t> out);
// The same for the opcodes of ACKs.
std::size_t encode_ack_headers(const AckHeaders& headers, std::span<std::uint8_t> out);

}  // namespace openmrc::wire
