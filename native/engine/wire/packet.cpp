#include "engine/wire/packet.hpp"

#include <array>

#include "engine/base/assert.hpp"
#include "engine/base/limits.hpp"
#include "engine/wire/layout.hpp"

namespace openmrc::wire {

namespace {

using layout::get;
using layout::put;

enum class Kind : std::uint8_t {
  kUnknown = 0,
  kData,
  kRcData,
  kRcReadRequest,
  kRcReadResponse,
  kRcAtomic,
  kRcAtomicAck,
  kAck,
  kEndpointRequest,
  kEndpointResponse,
  kSack,
  kNack,
  kProbe,
};

// Headers behind the BTH, without the optional TSETH: the stack of each opcode (A.2.1), none for all others (A.1.1).
struct Stack {
  Kind kind = Kind::kUnknown;
  std::uint8_t bytes = 0;
  bool reth = false;
  bool immdt = false;
};

constexpr std::array<Stack, 256> make_stacks() {
  std::array<Stack, 256> stacks{};
  for (unsigned code = 0; code < stacks.size(); ++code) {
    const auto opcode = static_cast<Opcode>(code);
    Stack& stack = stacks[code];
    if (!is_data(opcode) && !is_rc_data(opcode)) continue;
    stack.kind = is_data(opcode) ? Kind::kData : Kind::kRcData;
    stack.reth = is_data(opcode) || (is_first(opcode) && !is_rc_send(opcode));
    stack.immdt = has_immediate(opcode);
    stack.bytes = static_cast<std::uint8_t>((is_data(opcode) ? kMethBytes : 0) + (stack.reth ? kRethBytes : 0) +
                                            (stack.immdt ? kImmDtBytes : 0));
  }
  const auto set = [&stacks](Opcode opcode, Kind kind, std::size_t bytes) {
    stacks[static_cast<std::uint8_t>(opcode)] = {.kind = kind, .bytes = static_cast<std::uint8_t>(bytes)};
  };
  set(Opcode::kRcReadRequest, Kind::kRcReadRequest, kRethBytes);
  set(Opcode::kRcReadResponseFirst, Kind::kRcReadResponse, kAethBytes);
  set(Opcode::kRcReadResponseMiddle, Kind::kRcReadResponse, 0);
  set(Opcode::kRcReadResponseLast, Kind::kRcReadResponse, kAethBytes);
  set(Opcode::kRcReadResponseOnly, Kind::kRcReadResponse, kAethBytes);
  set(Opcode::kRcAck, Kind::kAck, kAethBytes);
  set(Opcode::kRcAtomicAck, Kind::kRcAtomicAck, kAethBytes + kAtomicAckEthBytes);
  set(Opcode::kRcCompareSwap, Kind::kRcAtomic, kAtomicEthBytes);
  set(Opcode::kRcFetchAdd, Kind::kRcAtomic, kAtomicEthBytes);
  set(Opcode::kAck, Kind::kAck, kAethBytes);
  set(Opcode::kEndpointRequest, Kind::kEndpointRequest, kErthBytes);
  set(Opcode::kEndpointResponse, Kind::kEndpointResponse, kEethBytes);
  set(Opcode::kSack, Kind::kSack, kSethBytes + kCcStateBytes);
  set(Opcode::kNack, Kind::kNack, kNethBytes);
  set(Opcode::kProbe, Kind::kProbe, kPethBytes);
  return stacks;
}

constexpr std::array<Stack, 256> kStacks = make_stacks();

static_assert(kAckBytes > kBthBytes);
static_assert(kBthBytes + kSethBytes + kCcStateBytes <= kHeaderBytesMax);
static_assert(kBthBytes + kEethBytes <= kHeaderBytesMax);
static_assert(kBthBytes + kMethBytes + kTsethBytes + kRethBytes + kImmDtBytes <= kHeaderBytesMax);

// Reads RETH, then ImmDt, of a data packet, as far as they are present (A.6.9); returns the offset behind them.
std::size_t get_placement(std::span<const std::uint8_t> datagram, Stack stack, std::size_t offset, Packet& packet) {
  if (stack.reth) {
    if (datagram.size() - offset < kRethBytes) {
      packet.reth = {};
      packet.immdt = {};
      return offset;
    }
    get(datagram.data() + offset, packet.reth);
    offset += kRethBytes;
  }
  if (stack.immdt) {
    if (datagram.size() - offset < kImmDtBytes) {
      packet.immdt = {};
      return offset;
    }
    get(datagram.data() + offset, packet.immdt);
    offset += kImmDtBytes;
  }
  return offset;
}

ParseError get_data(std::span<const std::uint8_t> datagram, Stack stack, Extent extent, Packet& packet) {
  const bool mrc = stack.kind == Kind::kData;
  const std::size_t leading = mrc ? kMethBytes + (packet.bth.ts ? kTsethBytes : 0) : 0;
  const std::size_t whole = kBthBytes + stack.bytes + (packet.bth.ts ? kTsethBytes : 0);
  const std::size_t needed = extent == Extent::kWhole ? whole + kIcrcBytes : kBthBytes + leading;
  if (datagram.size() < needed) return ParseError::kTooShort;
  if (mrc) {
    get(datagram.data() + kBthBytes, packet.meth);
    if (packet.bth.ts) {
      const ParseError error = get(datagram.data() + kBthBytes + kMethBytes, packet.tseth);
      if (error != ParseError::kNone) return error;
    }
  }
  packet.header_bytes = static_cast<std::uint16_t>(get_placement(datagram, stack, kBthBytes + leading, packet));
  packet.payload_bytes = 0;
  if (extent == Extent::kTrimmed) return ParseError::kNone;
  const std::size_t rest = datagram.size() - whole - kIcrcBytes;
  if (packet.bth.pad_bytes > rest) return ParseError::kBadPad;
  packet.payload_bytes = static_cast<std::uint16_t>(rest - packet.bth.pad_bytes);
  return ParseError::kNone;
}

// AETH of a response that carries a result.
ParseError get_positive(const std::uint8_t* in, Aeth& aeth) {
  const ParseError error = get(in, true, aeth);
  return error == ParseError::kNone && aeth.syndrome != AethSyndrome::kAck ? ParseError::kBadSyndrome : error;
}

ParseError get_read_response(std::span<const std::uint8_t> datagram, Stack stack, Packet& packet) {
  const std::size_t headers = kBthBytes + stack.bytes;
  if (datagram.size() < headers + kIcrcBytes) return ParseError::kTooShort;
  packet.aeth = {};
  if (stack.bytes > 0) {
    const ParseError error = get_positive(datagram.data() + kBthBytes, packet.aeth);
    if (error != ParseError::kNone) return error;
  }
  const std::size_t rest = datagram.size() - headers - kIcrcBytes;
  if (packet.bth.pad_bytes > rest) return ParseError::kBadPad;
  packet.header_bytes = static_cast<std::uint16_t>(headers);
  packet.payload_bytes = static_cast<std::uint16_t>(rest - packet.bth.pad_bytes);
  return ParseError::kNone;
}

ParseError get_control_headers(const std::uint8_t* in, Kind kind, Packet& packet) {
  switch (kind) {
    case Kind::kAck:
      return get(in, packet.bth.opcode == Opcode::kRcAck, packet.aeth);
    case Kind::kRcReadRequest:
      get(in, packet.reth);
      return ParseError::kNone;
    case Kind::kRcAtomic:
      get(in, packet.atomic);
      return ParseError::kNone;
    case Kind::kRcAtomicAck:
      get(in + kAethBytes, packet.atomic_ack);
      return get_positive(in, packet.aeth);
    case Kind::kEndpointRequest:
      packet.bth.psn &= 0xFFFFU;
      return get(in, packet.erth);
    case Kind::kEndpointResponse:
      packet.bth.psn &= 0xFFFFU;
      return get(in, packet.eeth);
    case Kind::kSack:
      get(in + kSethBytes, packet.cc_state);
      if (const ParseError error = get(in, packet.seth); error != ParseError::kNone) return error;
      packet.bth.psn = packet.seth.cack_psn;
      return ParseError::kNone;
    case Kind::kNack:
      if (const ParseError error = get(in, packet.neth); error != ParseError::kNone) return error;
      packet.bth.psn = packet.neth.nack_psn;
      return ParseError::kNone;
    case Kind::kProbe:
      packet.bth.psn = 0;
      return get(in, packet.peth);
    case Kind::kUnknown:
    case Kind::kData:
    case Kind::kRcData:
    case Kind::kRcReadResponse:
      break;
  }
  return ParseError::kUnknownOpcode;
}

// EV probes and their answers may be padded to the size of data packets.
bool may_be_padded(Kind kind, const Packet& packet) {
  if (kind == Kind::kEndpointRequest) return packet.erth.op == EndpointOp::kEvProbe;
  return kind == Kind::kEndpointResponse && packet.eeth.op == EndpointOp::kEvProbe;
}

// Never trimmed, so always whole: smaller than any trim size, or padded and in a class that is not trimmed.
ParseError get_control(std::span<const std::uint8_t> datagram, Stack stack, Packet& packet) {
  const std::size_t headers = kBthBytes + stack.bytes;
  const std::size_t needed = headers + kIcrcBytes;
  if (datagram.size() < needed) return ParseError::kTooShort;
  const ParseError error = get_control_headers(datagram.data() + kBthBytes, stack.kind, packet);
  if (error != ParseError::kNone) return error;
  packet.header_bytes = static_cast<std::uint16_t>(headers);
  const std::size_t padding = datagram.size() - needed;
  if (padding > 0 && (!may_be_padded(stack.kind, packet) || padding % 4 != 0)) return ParseError::kUnexpectedPayload;
  packet.payload_bytes = static_cast<std::uint16_t>(padding);
  return packet.bth.pad_bytes == 0 ? ParseError::kNone : ParseError::kBadPad;
}

// The BTH with the bits and the PSN that the opcode determines.
Bth settled_bth(const Packet& packet, Kind kind) {
  Bth bth = packet.bth;
  bth.ts = false;
  if (is_rc(bth.opcode)) bth.rtx = false;
  if (kind == Kind::kSack) bth.psn = packet.seth.cack_psn;
  if (kind == Kind::kNack) bth.psn = packet.neth.nack_psn;
  if (kind == Kind::kProbe) bth.psn = 0;
  if (kind == Kind::kEndpointRequest || kind == Kind::kEndpointResponse) bth.psn &= 0xFFFFU;
  return bth;
}

void put_control_headers(const Packet& packet, Kind kind, std::uint8_t* out) {
  switch (kind) {
    case Kind::kRcReadResponse:
      if (packet.bth.opcode != Opcode::kRcReadResponseMiddle) put(packet.aeth, out);
      return;
    case Kind::kRcReadRequest:
      return put(packet.reth, out);
    case Kind::kRcAtomic:
      return put(packet.atomic, out);
    case Kind::kRcAtomicAck:
      put(packet.aeth, out);
      return put(packet.atomic_ack, out + kAethBytes);
    case Kind::kEndpointRequest:
      return put(packet.erth, out);
    case Kind::kEndpointResponse:
      return put(packet.eeth, out);
    case Kind::kSack:
      put(packet.seth, out);
      return put(packet.cc_state, out + kSethBytes);
    case Kind::kNack:
      return put(packet.neth, out);
    case Kind::kProbe:
      return put(packet.peth, out);
    case Kind::kUnknown:
    case Kind::kData:
    case Kind::kRcData:
    case Kind::kAck:
      break;
  }
}

}  // namespace

std::size_t first_packet_bytes(std::span<const std::uint8_t> datagram) {
  const bool joined =
      datagram.size() > kAckBytes && is_data(static_cast<Opcode>(datagram[0])) && layout::is_joined(datagram.data());
  return joined ? datagram.size() - kAckBytes : datagram.size();
}

bool lacks_icrc(std::span<const std::uint8_t> packet) {
  return packet.size() >= kBthBytes && layout::lacks_icrc(packet.data());
}

bool announce_ack(std::span<std::uint8_t> headers) {
  MRC_ASSERT(headers.size() >= kBthBytes);
  if (!is_data(static_cast<Opcode>(headers[0])) || layout::is_repeated(headers.data())) return false;
  layout::set_joined(headers.data());
  return true;
}

bool is_known(Opcode opcode) { return kStacks[static_cast<std::uint8_t>(opcode)].kind != Kind::kUnknown; }

ParseError parse(std::span<const std::uint8_t> datagram, Extent extent, Packet& packet) {
  if (datagram.size() < kBthBytes) return ParseError::kTooShort;
  const Stack stack = kStacks[datagram[0]];
  if (stack.kind == Kind::kUnknown) return ParseError::kUnknownOpcode;
  if (datagram.size() > kDatagramBytesMax) return ParseError::kUnexpectedPayload;
  static_cast<DataHeaders&>(packet) = {};
  const ParseError error = get(datagram.data(), packet.bth);
  if (error != ParseError::kNone) return error;
  if (stack.kind == Kind::kData) return get_data(datagram, stack, extent, packet);
  packet.bth.ts = false;
  if (is_rc(packet.bth.opcode)) packet.bth.rtx = false;
  if (stack.kind == Kind::kRcData) return get_data(datagram, stack, extent, packet);
  if (stack.kind == Kind::kRcReadResponse) return get_read_response(datagram, stack, packet);
  return get_control(datagram, stack, packet);
}

std::size_t encode_headers(const Packet& packet, std::span<std::uint8_t> out) {
  const Stack stack = kStacks[static_cast<std::uint8_t>(packet.bth.opcode)];
  MRC_ASSERT(stack.kind != Kind::kUnknown);
  if (stack.kind == Kind::kData || stack.kind == Kind::kRcData) return encode_data_headers(packet, out);
  if (stack.kind == Kind::kAck) return encode_ack_headers({packet.bth, packet.aeth}, out);
  MRC_ASSERT(out.size() >= kHeaderBytesMax);
  put(settled_bth(packet, stack.kind), out.data());
  put_control_headers(packet, stack.kind, out.data() + kBthBytes);
  return kBthBytes + stack.bytes;
}

std::size_t encode_data_headers(const DataHeaders& headers, std::span<std::uint8_t> out) {
  const Stack stack = kStacks[static_cast<std::uint8_t>(headers.bth.opcode)];
  MRC_ASSERT(stack.kind == Kind::kData || stack.kind == Kind::kRcData);
  MRC_ASSERT(out.size() >= kHeaderBytesMax);
  std::uint8_t* const start = out.data();
  std::uint8_t* at = start + kBthBytes;
  if (stack.kind == Kind::kData) {
    put(headers.bth, start);
    put(headers.meth, at);
    at += kMethBytes;
    if (headers.bth.ts) {
      put(headers.tseth, at);
      at += kTsethBytes;
    }
  } else {
    Bth bth = headers.bth;
    bth.ts = bth.rtx = false;
    put(bth, start);
  }
  if (stack.reth) {
    put(headers.reth, at);
    at += kRethBytes;
  }
  if (stack.immdt) {
    put(headers.immdt, at);
    at += kImmDtBytes;
  }
  return static_cast<std::size_t>(at - start);
}

std::size_t encode_ack_headers(const AckHeaders& headers, std::span<std::uint8_t> out) {
  MRC_ASSERT(kStacks[static_cast<std::uint8_t>(headers.bth.opcode)].kind == Kind::kAck);
  MRC_ASSERT(out.size() >= kHeaderBytesMax);
  Bth bth = headers.bth;
  bth.ts = false;
  if (is_rc(bth.opcode)) bth.rtx = false;
  put(bth, out.data());
  put(headers.aeth, out.data() + kBthBytes);
  return kBthBytes + kAethBytes;
}

}  // namespace openmrc::wire
