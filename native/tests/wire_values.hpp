// Packets for tests: every opcode, random field values, equality of the opcode's fields.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "engine/wire/packet.hpp"

namespace openmrc::test {

inline constexpr std::array kAllOpcodes = {
    wire::Opcode::kRcSendFirst,
    wire::Opcode::kRcSendMiddle,
    wire::Opcode::kRcSendLast,
    wire::Opcode::kRcSendLastImm,
    wire::Opcode::kRcSendOnly,
    wire::Opcode::kRcSendOnlyImm,
    wire::Opcode::kRcWriteFirst,
    wire::Opcode::kRcWriteMiddle,
    wire::Opcode::kRcWriteLast,
    wire::Opcode::kRcWriteLastImm,
    wire::Opcode::kRcWriteOnly,
    wire::Opcode::kRcWriteOnlyImm,
    wire::Opcode::kRcReadRequest,
    wire::Opcode::kRcReadResponseFirst,
    wire::Opcode::kRcReadResponseMiddle,
    wire::Opcode::kRcReadResponseLast,
    wire::Opcode::kRcReadResponseOnly,
    wire::Opcode::kRcAck,
    wire::Opcode::kRcAtomicAck,
    wire::Opcode::kRcCompareSwap,
    wire::Opcode::kRcFetchAdd,
    wire::Opcode::kWriteFirst,
    wire::Opcode::kWriteMiddle,
    wire::Opcode::kWriteLast,
    wire::Opcode::kWriteLastImm,
    wire::Opcode::kWriteOnly,
    wire::Opcode::kWriteOnlyImm,
    wire::Opcode::kAck,
    wire::Opcode::kEndpointRequest,
    wire::Opcode::kEndpointResponse,
    wire::Opcode::kSack,
    wire::Opcode::kNack,
    wire::Opcode::kProbe,
};

// Equality of all headers in the opcode's stack. Length members are the caller's responsibility.
inline bool same_headers(const wire::Packet& a, const wire::Packet& b) {
  if (a.bth != b.bth) return false;
  switch (a.bth.opcode) {
    case wire::Opcode::kRcAck:
    case wire::Opcode::kAck:
    case wire::Opcode::kRcReadResponseFirst:
    case wire::Opcode::kRcReadResponseLast:
    case wire::Opcode::kRcReadResponseOnly:
      return a.aeth == b.aeth;
    case wire::Opcode::kRcReadRequest:
      return a.reth == b.reth;
    case wire::Opcode::kRcAtomicAck:
      return a.aeth == b.aeth && a.atomic_ack == b.atomic_ack;
    case wire::Opcode::kRcCompareSwap:
    case wire::Opcode::kRcFetchAdd:
      return a.atomic == b.atomic;
    case wire::Opcode::kEndpointRequest:
      return a.erth == b.erth;
    case wire::Opcode::kEndpointResponse:
      return a.eeth == b.eeth;
    case wire::Opcode::kSack:
      return a.seth == b.seth && a.cc_state == b.cc_state;
    case wire::Opcode::kNack:
      return a.neth == b.neth;
    case wire::Opcode::kProbe:
      return a.peth == b.peth;
    default:
      break;
  }
  if (wire::is_data(a.bth.opcode)) {
    if (a.meth != b.meth || (a.bth.ts && a.tseth != b.tseth) || a.reth != b.reth) return false;
  } else if (wire::is_first(a.bth.opcode) && !wire::is_rc_send(a.bth.opcode) && a.reth != b.reth) {
    return false;
  }
  return !wire::has_immediate(a.bth.opcode) || a.immdt == b.immdt;
}

constexpr bool carries_payload(wire::Opcode opcode) {
  return wire::is_data(opcode) || wire::is_rc_data(opcode) || wire::is_rc_read_response(opcode);
}

// A packet of `opcode` as parse would return it: every field in its range, drawn from `next` (64 random bits a call).
inline wire::Packet draw_packet(wire::Opcode opcode, const std::function<std::uint64_t()>& next) {
  const auto u8 = [&next] { return static_cast<std::uint8_t>(next()); };
  const auto u16 = [&next] { return static_cast<std::uint16_t>(next()); };
  const auto u24 = [&next] { return static_cast<std::uint32_t>(next() & 0xFFFFFFU); };
  const auto u32 = [&next] { return static_cast<std::uint32_t>(next()); };
  const auto flag = [&next] { return (next() & 1U) != 0; };
  const auto resolution = [&next] { return static_cast<wire::TimestampResolution>(next() & 1U); };
  constexpr std::array kReasons = {
      wire::NackReason::kTrimmed,         wire::NackReason::kTrimmedLastHop, wire::NackReason::kNoBitmap,
      wire::NackReason::kNoPacketBuffer,  wire::NackReason::kNoResource,     wire::NackReason::kPsnOutOfWindow,
      wire::NackReason::kUnexpectedEvent,
  };
  constexpr std::array kSyndromes = {
      wire::AethSyndrome::kAck,
      wire::AethSyndrome::kNakPsnSequence,
      wire::AethSyndrome::kNakInvalidRequest,
      wire::AethSyndrome::kNakRemoteAccess,
      wire::AethSyndrome::kNakRemoteOperational,
  };

  wire::Packet p;
  p.bth = {opcode, flag(), flag(), 0, u16(), u24(), flag(), flag(), flag(), u24()};
  if (!wire::is_data(opcode)) p.bth.ts = false;
  if (wire::is_rc(opcode)) p.bth.rtx = false;
  if (carries_payload(opcode)) p.bth.pad_bytes = u8() & 3U;
  p.meth = {u16(), u16()};
  p.tseth = {u16(), resolution()};
  p.reth = {next(), u32(), u32()};
  p.immdt = {u32()};
  p.seth = {static_cast<wire::SackMark>(next() % 3),
            flag(),
            static_cast<std::int16_t>(next()),
            u32(),
            u16(),
            u16(),
            u8(),
            u24(),
            u8(),
            static_cast<std::int16_t>(next()),
            next()};
  p.cc_state = {u16(), static_cast<std::uint16_t>(next() & 0x7FFFU), flag(), static_cast<std::uint8_t>(next() & 0x7FU),
                u24()};
  p.neth = {kReasons[next() % kReasons.size()], u8(), u32(), u16(), u16(), u24(), u16()};
  p.peth = {u8(), u16(), u16(), u16(), u16(), resolution()};
  p.erth = {static_cast<wire::EndpointOp>(next() % 3), u16(), u32(), u32(), u16(), resolution()};
  p.eeth = {static_cast<wire::EndpointOp>(next() % 3), u32(), u32(), u32(), u16(), flag(), flag()};
  p.aeth = {kSyndromes[next() % kSyndromes.size()], u24()};
  p.atomic = {next(), u32(), next(), next()};
  p.atomic_ack = {next()};
  if (opcode == wire::Opcode::kRcAtomicAck || wire::is_rc_read_response(opcode)) {
    p.aeth.syndrome = wire::AethSyndrome::kAck;
  } else if (opcode == wire::Opcode::kRcAck && flag()) {
    p.aeth.syndrome = wire::AethSyndrome::kRnrNak;
    p.aeth.rnr_timer = u8() & 0x1FU;
  }
  if (opcode == wire::Opcode::kSack) p.bth.psn = p.seth.cack_psn;
  if (opcode == wire::Opcode::kNack) p.bth.psn = p.neth.nack_psn;
  if (opcode == wire::Opcode::kProbe) p.bth.psn = 0;
  if (opcode == wire::Opcode::kEndpointRequest || opcode == wire::Opcode::kEndpointResponse) p.bth.psn &= 0xFFFFU;
  p.bth.joined = wire::is_data(opcode) && flag();
  p.bth.accepts_joined = opcode == wire::Opcode::kAck && flag();
  return p;
}

}  // namespace openmrc::test
