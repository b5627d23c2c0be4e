// Position of every field of every header (A.3.1). The bit tables are in docs/reference/wire.md; no other file encodes
// them.
//
// `put` writes all bytes of a header (reserved bits zero, values cut to the width of their field); `get` reads fields
// and ignores reserved bits. A `get` that can meet a value outside its enum returns the ParseError; the caller has
// checked the length. 32-bit words are handled whole: fields of one word share one load or store.
#pragma once

#include <cstdint>
#include <cstring>

#include "engine/wire/bytes.hpp"
#include "engine/wire/headers.hpp"
#include "engine/wire/packet.hpp"

namespace openmrc::wire::layout {

inline constexpr std::uint32_t kMask24 = 0xFFFFFF;
inline constexpr std::uint8_t kTimestampFormat = 1;  // TSETH format type: 16-bit transmit timestamp
inline constexpr std::uint8_t kCcTypeNscc = 0;       // SETH cc_type: CC_STATE follows
inline constexpr std::uint8_t kCcTypeNack = 2;       // NETH cc_type: echoed timestamp only
inline constexpr std::uint8_t kAckCreditMask = 0x1F;
inline constexpr std::uint8_t kRnrTimerMask = 0x1F;

constexpr std::uint32_t bit(bool value, unsigned position) { return static_cast<std::uint32_t>(value) << position; }

// --- BTH

inline void put(const Bth& bth, std::uint8_t* out) {
  store_be32(out, (static_cast<std::uint32_t>(bth.opcode) << 24) | bit(bth.solicited_event, 23) | bit(bth.m, 22) |
                      ((bth.pad_bytes & 3U) << 20) | bth.partition_key);
  store_be32(out + 4, bth.destination_qp & kMask24);
  store_be32(out + 8, bit(bth.ack_request, 31) | bit(bth.rtx, 29) | bit(bth.ts, 28) | bit(bth.no_icrc, 26) |
                          bit(bth.accepts_joined && bth.opcode == Opcode::kAck, 25) |
                          bit(bth.joined && is_data(bth.opcode), 24) | (bth.psn & kMask24));
}

// Bits of an encoded BTH.
inline bool is_joined(const std::uint8_t* bth) { return (bth[8] & 1U) != 0; }
inline bool lacks_icrc(const std::uint8_t* bth) { return (bth[8] & 4U) != 0; }
inline void set_joined(std::uint8_t* bth) { bth[8] |= 1U; }
inline bool is_repeated(const std::uint8_t* bth) { return (bth[8] & 0x20U) != 0; }
inline bool has_timestamp(const std::uint8_t* bth) { return (bth[8] & 0x10U) != 0; }
inline bool requests_ack(const std::uint8_t* bth) { return (bth[8] & 0x80U) != 0; }
// Its last word: flags, then the PSN.
inline constexpr std::size_t kPsnWordAt = 8;

inline ParseError get(const std::uint8_t* in, Bth& bth) {
  const std::uint32_t first = load_be32(in);
  const std::uint32_t last = load_be32(in + 8);
  bth.opcode = static_cast<Opcode>(first >> 24);
  bth.solicited_event = ((first >> 23) & 1U) != 0;
  bth.m = ((first >> 22) & 1U) != 0;
  bth.pad_bytes = static_cast<std::uint8_t>((first >> 20) & 3U);
  bth.partition_key = static_cast<std::uint16_t>(first);
  bth.destination_qp = load_be32(in + 4) & kMask24;
  bth.ack_request = (last >> 31) != 0;
  bth.rtx = ((last >> 29) & 1U) != 0;
  bth.ts = ((last >> 28) & 1U) != 0;
  bth.no_icrc = ((last >> 26) & 1U) != 0;
  bth.accepts_joined = ((last >> 25) & 1U) != 0 && bth.opcode == Opcode::kAck;
  bth.joined = ((last >> 24) & 1U) != 0 && is_data(bth.opcode);
  bth.psn = last & kMask24;
  return (first & 0x000F0000U) == 0 ? ParseError::kNone : ParseError::kBadVersion;
}

// --- METH

inline void put(const Meth& meth, std::uint8_t* out) { store_be32(out, (std::uint32_t{meth.rqmsn} << 16) | meth.msn); }

inline void get(const std::uint8_t* in, Meth& meth) {
  const std::uint32_t word = load_be32(in);
  meth.rqmsn = static_cast<std::uint16_t>(word >> 16);
  meth.msn = static_cast<std::uint16_t>(word);
}

// --- TSETH; PETH and ERTH end in the same four bytes

inline void put_timestamp(std::uint16_t timestamp, TimestampResolution resolution, std::uint8_t* out) {
  store_be32(out,
             (std::uint32_t{timestamp} << 16) | bit(resolution == TimestampResolution::k1Us, 15) | kTimestampFormat);
}

inline ParseError get_timestamp(const std::uint8_t* in, std::uint16_t& timestamp, TimestampResolution& resolution) {
  const std::uint32_t word = load_be32(in);
  timestamp = static_cast<std::uint16_t>(word >> 16);
  resolution = static_cast<TimestampResolution>((word >> 15) & 1U);
  return (word & 0xFU) == kTimestampFormat ? ParseError::kNone : ParseError::kBadTimestampFormat;
}

inline void put(const Tseth& tseth, std::uint8_t* out) { put_timestamp(tseth.timestamp, tseth.resolution, out); }

inline ParseError get(const std::uint8_t* in, Tseth& tseth) {
  return get_timestamp(in, tseth.timestamp, tseth.resolution);
}

// --- RETH, ImmDt

inline void put(const Reth& reth, std::uint8_t* out) {
  store_be64(out, reth.virtual_address);
  store_be32(out + 8, reth.rkey);
  store_be32(out + 12, reth.dma_length);
}

inline void get(const std::uint8_t* in, Reth& reth) {
  reth.virtual_address = load_be64(in);
  reth.rkey = load_be32(in + 8);
  reth.dma_length = load_be32(in + 12);
}

inline void put(const ImmDt& immdt, std::uint8_t* out) { store_be32(out, immdt.immediate); }
inline void get(const std::uint8_t* in, ImmDt& immdt) { immdt.immediate = load_be32(in); }

// --- SETH, CC_STATE

inline void put(const Seth& seth, std::uint8_t* out) {
  store_be16(out, static_cast<std::uint16_t>(((static_cast<std::uint32_t>(seth.mark) & 3U) << 5) |
                                             bit(seth.probe_response, 1)));
  store_be16(out + 2, static_cast<std::uint16_t>(seth.ack_psn_offset));
  store_be32(out + 4, seth.entropy);
  store_be16(out + 8, seth.source_context);
  store_be16(out + 10, seth.destination_context);
  store_be32(out + 12, (std::uint32_t{seth.port_status} << 24) | (seth.cack_psn & kMask24));
  store_be32(out + 16, (std::uint32_t{kCcTypeNscc} << 28) | (std::uint32_t{seth.mpr_units} << 16) |
                           static_cast<std::uint16_t>(seth.sack_offset));
  store_be64(out + 20, seth.bitmap);
}

inline ParseError get(const std::uint8_t* in, Seth& seth) {
  const std::uint32_t prologue = load_be16(in);
  const std::uint32_t cc = load_be32(in + 16);
  const std::uint32_t mark = (prologue >> 5) & 3U;
  if ((prologue >> 12) != 0 || mark > static_cast<std::uint32_t>(SackMark::kAlwaysSkip))
    return ParseError::kBadSackType;
  if ((cc >> 28) != kCcTypeNscc) return ParseError::kBadCcType;
  seth.mark = static_cast<SackMark>(mark);
  seth.probe_response = ((prologue >> 1) & 1U) != 0;
  seth.ack_psn_offset = static_cast<std::int16_t>(load_be16(in + 2));
  seth.entropy = load_be32(in + 4);
  seth.source_context = load_be16(in + 8);
  seth.destination_context = load_be16(in + 10);
  seth.port_status = in[12];
  seth.cack_psn = load_be32(in + 12) & kMask24;
  seth.mpr_units = static_cast<std::uint8_t>(cc >> 16);
  seth.sack_offset = static_cast<std::int16_t>(cc);
  seth.bitmap = load_be64(in + 20);
  return ParseError::kNone;
}

inline void put(const CcState& state, std::uint8_t* out) {
  store_be32(out, (std::uint32_t{state.timestamp} << 16) | (state.ooo_count & 0x7FFFU));
  store_be32(out + 4,
             bit(state.restore_cwnd, 31) | ((state.rcv_cwnd_pen & 0x7FU) << 24) | (state.rcvd_256_bytes & kMask24));
}

inline void get(const std::uint8_t* in, CcState& state) {
  const std::uint32_t first = load_be32(in);
  const std::uint32_t last = load_be32(in + 4);
  state.timestamp = static_cast<std::uint16_t>(first >> 16);
  state.ooo_count = static_cast<std::uint16_t>(first & 0x7FFFU);
  state.restore_cwnd = (last >> 31) != 0;
  state.rcv_cwnd_pen = static_cast<std::uint8_t>((last >> 24) & 0x7FU);
  state.rcvd_256_bytes = last & kMask24;
}

// --- NETH

constexpr bool is_known(NackReason reason) {
  switch (reason) {
    case NackReason::kTrimmed:
    case NackReason::kTrimmedLastHop:
    case NackReason::kNoBitmap:
    case NackReason::kNoPacketBuffer:
    case NackReason::kNoResource:
    case NackReason::kPsnOutOfWindow:
    case NackReason::kUnexpectedEvent:
      return true;
  }
  return false;
}

inline void put(const Neth& neth, std::uint8_t* out) {
  store_be32(out, (static_cast<std::uint32_t>(neth.reason) << 8) | neth.vendor);
  store_be32(out + 4, neth.entropy);
  store_be16(out + 8, neth.source_context);
  store_be16(out + 10, neth.destination_context);
  store_be32(out + 12, neth.nack_psn & kMask24);
  store_be32(out + 16, (std::uint32_t{kCcTypeNack} << 28) | neth.timestamp);
}

inline ParseError get(const std::uint8_t* in, Neth& neth) {
  const std::uint32_t first = load_be32(in);
  const std::uint32_t cc = load_be32(in + 16);
  const auto reason = static_cast<NackReason>((first >> 8) & 0xFFU);
  if ((first >> 28) != 0) return ParseError::kBadNackType;
  if (!is_known(reason)) return ParseError::kBadNackReason;
  if ((cc >> 28) != kCcTypeNack) return ParseError::kBadCcType;
  neth.reason = reason;
  neth.vendor = static_cast<std::uint8_t>(first);
  neth.entropy = load_be32(in + 4);
  neth.source_context = load_be16(in + 8);
  neth.destination_context = load_be16(in + 10);
  neth.nack_psn = load_be32(in + 12) & kMask24;
  neth.timestamp = static_cast<std::uint16_t>(cc);
  return ParseError::kNone;
}

// --- PETH

inline void put(const Peth& peth, std::uint8_t* out) {
  store_be32(out, peth.vendor);
  store_be32(out + 4, std::uint32_t{peth.probe_id} << 16);
  store_be16(out + 8, peth.source_context);
  store_be16(out + 10, peth.destination_context);
  put_timestamp(peth.timestamp, peth.resolution, out + 12);
}

inline ParseError get(const std::uint8_t* in, Peth& peth) {
  peth.vendor = in[3];
  peth.probe_id = load_be16(in + 4);
  peth.source_context = load_be16(in + 8);
  peth.destination_context = load_be16(in + 10);
  return get_timestamp(in + 12, peth.timestamp, peth.resolution);
}

// --- ERTH, EETH

inline void put(const Erth& erth, std::uint8_t* out) {
  store_be32(out, (static_cast<std::uint32_t>(erth.op) & 3U) << 16 | erth.udp_port);
  store_be32(out + 4, erth.port_status_mask);
  store_be32(out + 8, erth.nonce);
  put_timestamp(erth.timestamp, erth.resolution, out + 12);
}

inline ParseError get(const std::uint8_t* in, Erth& erth) {
  const std::uint32_t op = in[1] & 3U;
  if (op > static_cast<std::uint32_t>(EndpointOp::kKernelCheck)) return ParseError::kBadEndpointOp;
  erth.op = static_cast<EndpointOp>(op);
  erth.udp_port = load_be16(in + 2);
  erth.port_status_mask = load_be32(in + 4);
  erth.nonce = load_be32(in + 8);
  return get_timestamp(in + 12, erth.timestamp, erth.resolution);
}

inline void put(const Eeth& eeth, std::uint8_t* out) {
  store_be32(out, ((static_cast<std::uint32_t>(eeth.op) & 3U) << 18) | bit(eeth.service_time_removed, 1) |
                      bit(eeth.marked, 0));
  store_be32(out + 4, eeth.port_status_mask);
  store_be32(out + 8, eeth.entropy);
  store_be32(out + 12, eeth.nonce);
  std::memset(out + 16, 0, 12);
  store_be32(out + 28, std::uint32_t{eeth.timestamp} << 16);
  store_be32(out + 32, 0);
}

inline ParseError get(const std::uint8_t* in, Eeth& eeth) {
  const std::uint32_t op = (in[1] >> 2) & 3U;
  if (op > static_cast<std::uint32_t>(EndpointOp::kKernelCheck)) return ParseError::kBadEndpointOp;
  eeth.op = static_cast<EndpointOp>(op);
  eeth.service_time_removed = ((in[3] >> 1) & 1U) != 0;
  eeth.marked = (in[3] & 1U) != 0;
  eeth.port_status_mask = load_be32(in + 4);
  eeth.entropy = load_be32(in + 8);
  eeth.nonce = load_be32(in + 12);
  eeth.timestamp = load_be16(in + 28);
  return ParseError::kNone;
}

// --- AETH

inline void put(const Aeth& aeth, std::uint8_t* out) {
  const auto syndrome = static_cast<std::uint32_t>(aeth.syndrome);
  const std::uint32_t timer = aeth.syndrome == AethSyndrome::kRnrNak ? aeth.rnr_timer & kRnrTimerMask : 0U;
  store_be32(out, ((syndrome | timer) << 24) | (aeth.msn & kMask24));
}

// `rc`: an RC peer may advertise end-to-end credits in an ACK, which mean nothing here and count as kAck, and it may
// send an RNR NAK.
inline ParseError get(const std::uint8_t* in, bool rc, Aeth& aeth) {
  const std::uint32_t word = load_be32(in);
  auto syndrome = static_cast<AethSyndrome>(word >> 24);
  aeth.rnr_timer = 0;
  // A.1.3: credits mean nothing here; RC peers send them.
  if (rc && (word >> 24) <= kAckCreditMask) syndrome = AethSyndrome::kAck;
  if (rc && (word >> 29) == 1) {
    syndrome = AethSyndrome::kRnrNak;
    aeth.rnr_timer = static_cast<std::uint8_t>((word >> 24) & kRnrTimerMask);
  } else if (syndrome == AethSyndrome::kRnrNak) {
    return ParseError::kBadSyndrome;
  }
  switch (syndrome) {
    case AethSyndrome::kAck:
    case AethSyndrome::kRnrNak:
    case AethSyndrome::kNakPsnSequence:
    case AethSyndrome::kNakInvalidRequest:
    case AethSyndrome::kNakRemoteAccess:
    case AethSyndrome::kNakRemoteOperational:
      break;
    default:
      return ParseError::kBadSyndrome;
  }
  aeth.syndrome = syndrome;
  aeth.msn = word & kMask24;
  return ParseError::kNone;
}

// --- AtomicETH, AtomicAckETH

inline void put(const AtomicEth& atomic, std::uint8_t* out) {
  store_be64(out, atomic.virtual_address);
  store_be32(out + 8, atomic.rkey);
  store_be64(out + 12, atomic.swap_add);
  store_be64(out + 20, atomic.compare);
}

inline void get(const std::uint8_t* in, AtomicEth& atomic) {
  atomic.virtual_address = load_be64(in);
  atomic.rkey = load_be32(in + 8);
  atomic.swap_add = load_be64(in + 12);
  atomic.compare = load_be64(in + 20);
}

inline void put(const AtomicAckEth& ack, std::uint8_t* out) { store_be64(out, ack.original); }
inline void get(const std::uint8_t* in, AtomicAckEth& ack) { ack.original = load_be64(in); }

}  // namespace openmrc::wire::layout
