// MRC and RoCEv2 headers as values (protocol A.2, A.3). Layouts live in layout.hpp, nowhere else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace openmrc::wire {

enum class Opcode : std::uint8_t {
  // RoCEv2 RC.
  kRcSendFirst = 0x00,
  kRcSendMiddle = 0x01,
  kRcSendLast = 0x02,
  kRcSendLastImm = 0x03,
  kRcSendOnly = 0x04,
  kRcSendOnlyImm = 0x05,
  kRcWriteFirst = 0x06,
  kRcWriteMiddle = 0x07,
  kRcWriteLast = 0x08,
  kRcWriteLastImm = 0x09,
  kRcWriteOnly = 0x0A,
  kRcWriteOnlyImm = 0x0B,
  kRcReadRequest = 0x0C,
  kRcReadResponseFirst = 0x0D,
  kRcReadResponseMiddle = 0x0E,
  kRcReadResponseLast = 0x0F,
  kRcReadResponseOnly = 0x10,
  kRcAck = 0x11,
  kRcAtomicAck = 0x12,
  kRcCompareSwap = 0x13,
  kRcFetchAdd = 0x14,
  // MRC.
  kWriteFirst = 0xC6,
  kWriteMiddle = 0xC7,
  kWriteLast = 0xC8,
  kWriteLastImm = 0xC9,
  kWriteOnly = 0xCA,
  kWriteOnlyImm = 0xCB,
  kAck = 0xD1,
  kEndpointRequest = 0xD8,
  kEndpointResponse = 0xD9,
  kSack = 0xDC,
  kNack = 0xDD,
  kProbe = 0xDE,
};

inline constexpr std::size_t kBthBytes = 12;
inline constexpr std::size_t kMethBytes = 4;
inline constexpr std::size_t kTsethBytes = 4;
inline constexpr std::size_t kRethBytes = 16;
inline constexpr std::size_t kImmDtBytes = 4;
inline constexpr std::size_t kSethBytes = 28;
inline constexpr std::size_t kCcStateBytes = 8;
inline constexpr std::size_t kNethBytes = 20;
inline constexpr std::size_t kPethBytes = 16;
inline constexpr std::size_t kErthBytes = 16;
inline constexpr std::size_t kEethBytes = 36;
inline constexpr std::size_t kAethBytes = 4;
inline constexpr std::size_t kAtomicEthBytes = 28;
inline constexpr std::size_t kAtomicAckEthBytes = 8;
inline constexpr std::size_t kIcrcBytes = 4;
inline constexpr std::size_t kDatagramBytesMax = 65'535;  // UDP payload: its length has 16 bits

struct Bth {
  Opcode opcode{0xFF};  // none
  bool solicited_event = false;
  bool m = false;
  std::uint8_t pad_bytes = 0;  // 0..3
  std::uint16_t partition_key = 0;
  std::uint32_t destination_qp = 0;  // 24 bits
  bool ack_request = false;
  bool rtx = false;             // retransmission
  bool ts = false;              // TSETH present
  std::uint32_t psn = 0;        // 24 bits
  bool joined = false;          // MRC data: an ACK follows in the datagram
  bool accepts_joined = false;  // MRC ACK: its sender accepts such datagrams
  bool no_icrc = false;         // zeros in place of the ICRC, as both ends agreed

  friend bool operator==(const Bth&, const Bth&) = default;
};

struct Meth {
  std::uint16_t rqmsn = 0;
  std::uint16_t msn = 0;

  friend bool operator==(const Meth&, const Meth&) = default;
};

enum class TimestampResolution : std::uint8_t { k128Ns = 0, k1Us = 1 };

struct Tseth {
  std::uint16_t timestamp = 0;
  TimestampResolution resolution = TimestampResolution::k128Ns;

  friend bool operator==(const Tseth&, const Tseth&) = default;
};

struct Reth {
  std::uint64_t virtual_address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t dma_length = 0;  // bytes of the whole message

  friend bool operator==(const Reth&, const Reth&) = default;
};

struct ImmDt {
  std::uint32_t immediate = 0;

  friend bool operator==(const ImmDt&, const ImmDt&) = default;
};

enum class SackMark : std::uint8_t { kNone = 0, kSkipOnce = 1, kAlwaysSkip = 2 };

struct Seth {
  SackMark mark = SackMark::kNone;
  bool probe_response = false;
  std::int16_t ack_psn_offset = 0;  // PSN of the trigger relative to cack_psn; the probe id when probe_response
  std::uint32_t entropy = 0;
  std::uint16_t source_context = 0;
  std::uint16_t destination_context = 0;
  std::uint8_t port_status = 0;  // byte 12: the sender's reachable ports 0..7, bit = 1 reachable; 0: not carried
  std::uint32_t cack_psn = 0;    // 24 bits
  std::uint8_t mpr_units = 0;    // 0: dynamic MPR off
  std::int16_t sack_offset = 0;
  std::uint64_t bitmap = 0;  // bit i stands for PSN cack_psn + sack_offset + i

  friend bool operator==(const Seth&, const Seth&) = default;
};

struct CcState {
  std::uint16_t timestamp = 0;  // echoed
  std::uint16_t ooo_count = 0;  // 15 bits; with `sack_transit` the transit time of the trigger
  bool restore_cwnd = false;
  std::uint8_t rcv_cwnd_pen = 0;     // 0..127
  std::uint32_t rcvd_256_bytes = 0;  // 24 bits, units of 256 bytes, rounded up

  friend bool operator==(const CcState&, const CcState&) = default;
};

enum class NackReason : std::uint8_t {
  kTrimmed = 0x01,
  kTrimmedLastHop = 0x02,
  kNoBitmap = 0x06,
  kNoPacketBuffer = 0x07,
  kNoResource = 0x0A,
  kPsnOutOfWindow = 0x0B,
  kUnexpectedEvent = 0x19,
};

struct Neth {
  NackReason reason{};
  std::uint8_t vendor = 0;
  std::uint32_t entropy = 0;
  std::uint16_t source_context = 0;
  std::uint16_t destination_context = 0;
  std::uint32_t nack_psn = 0;   // 24 bits
  std::uint16_t timestamp = 0;  // echoed

  friend bool operator==(const Neth&, const Neth&) = default;
};

struct Peth {
  std::uint8_t vendor = 0;
  std::uint16_t probe_id = 0;
  std::uint16_t source_context = 0;
  std::uint16_t destination_context = 0;
  std::uint16_t timestamp = 0;
  TimestampResolution resolution = TimestampResolution::k128Ns;

  friend bool operator==(const Peth&, const Peth&) = default;
};

enum class EndpointOp : std::uint8_t { kPortStatusUpdate = 0, kEvProbe = 1, kKernelCheck = 2 };

struct Erth {
  EndpointOp op{};
  std::uint16_t udp_port = 0;          // port on which the sender receives; 0: the receiver's own
  std::uint32_t port_status_mask = 0;  // bit = 1: reachable; of a kernel check: the sender's proof
  std::uint32_t nonce = 0;             // of the connection that a status or check belongs to, or drawn for this probe
  std::uint16_t timestamp = 0;
  TimestampResolution resolution = TimestampResolution::k128Ns;

  friend bool operator==(const Erth&, const Erth&) = default;
};

struct Eeth {
  EndpointOp op{};
  std::uint32_t port_status_mask = 0;  // of a kernel check: the responder's proof, 0: it is on another kernel
  std::uint32_t entropy = 0;           // of the request, as received
  std::uint32_t nonce = 0;             // of the request
  std::uint16_t timestamp = 0;         // echoed, moved forward by the responder's service time
  bool service_time_removed = false;
  bool marked = false;  // the request arrived with ECN CE

  friend bool operator==(const Eeth&, const Eeth&) = default;
};

// AETH syndromes used here (IB spec 9.7.5.2): ACK with the invalid credit count, RNR NAK without its timer, and the NAK
// codes.
enum class AethSyndrome : std::uint8_t {
  kAck = 0x1F,
  kRnrNak = 0x20,
  kNakPsnSequence = 0x60,
  kNakInvalidRequest = 0x61,
  kNakRemoteAccess = 0x62,
  kNakRemoteOperational = 0x63,
};

struct Aeth {
  AethSyndrome syndrome = AethSyndrome::kAck;
  std::uint32_t msn = 0;       // 24 bits
  std::uint8_t rnr_timer = 0;  // 5 bits, of an RNR NAK

  friend bool operator==(const Aeth&, const Aeth&) = default;
};

struct AtomicEth {
  std::uint64_t virtual_address = 0;
  std::uint32_t rkey = 0;
  std::uint64_t swap_add = 0;
  std::uint64_t compare = 0;

  friend bool operator==(const AtomicEth&, const AtomicEth&) = default;
};

struct AtomicAckEth {
  std::uint64_t original = 0;  // value before the operation

  friend bool operator==(const AtomicAckEth&, const AtomicAckEth&) = default;
};

}  // namespace openmrc::wire
