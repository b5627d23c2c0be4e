// The nouns of the verbs layer as the engine knows them: statuses, work requests, completions, QP attributes, counters.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/address.hpp"
#include "engine/base/limits.hpp"
#include "engine/base/time.hpp"
#include "engine/base/traffic.hpp"
#include "engine/cc/controller.hpp"
#include "engine/paths/ev_set.hpp"
#include "engine/wire/ev.hpp"
#include "engine/wire/packet.hpp"

namespace openmrc {

// Outcome of a command. Peers never cause one of these: what peers do shows in counters, events and completions.
enum class Status : std::uint8_t {
  kOk = 0,
  kInvalidArgument,  // EINVAL
  kInvalidState,     // EINVAL: not in this QP state
  kQueueFull,        // ENOMEM: more work requests than the queue holds
  kLimit,            // E2BIG: over a limit of the device
  kBusy,             // EBUSY: still referenced
  kNotFound,         // ENOENT
};

enum class Transport : std::uint8_t { kMrc = 0, kRc = 1 };
enum class QpState : std::uint8_t { kReset = 0, kInit = 1, kRtr = 2, kRts = 3, kError = 4 };

// Why a QP went to ERR; travels in the kQpState event.
enum class QpErrorCause : std::uint8_t {
  kNone = 0,
  kRetryExceeded,
  kLocalProtection,    // a registered buffer of a posted request is gone
  kRemoteAccess,       // peer refused: key, bounds or permission
  kRemoteOperational,  // peer failed on its side (no receive posted, CQ overrun)
  kRemoteInvalid,      // peer refused the request
  kAccessViolation,    // we refused the peer's WRITE
  kNoReceivePosted,    // WRITE_IMM found no receive
  kWimmLimit,          // peer exceeded max_wimm_dest
  kUnexpectedEvent,    // NACK UNEXP_EVENT
  kProtocol,           // peer broke the message structure
  kCqOverrun,
  kFlushed,  // moved to ERR by command
};

enum class WrOpcode : std::uint8_t { kWrite = 0, kWriteImm = 1 };
enum class WcOpcode : std::uint8_t { kWrite = 0, kRecvWriteImm = 1 };

// ibv_wc_status values that MRC uses.
enum class WcStatus : std::uint8_t {
  kSuccess = 0,
  kLocalProtection = 4,
  kFlushed = 5,
  kRemoteInvalidRequest = 9,
  kRemoteAccess = 10,
  kRemoteOperational = 11,
  kRetryExceeded = 12,
};

enum Access : std::uint8_t { kLocalRead = 0, kRemoteWrite = 1 };

using CqId = std::uint32_t;
// Protection domain: a number that the driver chooses. Work of a QP reaches regions of the QP's own domain only.
using DomainId = std::uint32_t;
using PeerId = std::uint32_t;

struct SendWr {
  std::uint64_t wr_id = 0;
  WrOpcode opcode = WrOpcode::kWrite;
  std::uint32_t lkey = 0;
  std::uint64_t local_address = 0;  // virtual address inside the region of lkey
  std::uint64_t length_bytes = 0;   // 0 .. kMessageBytesMax; a WRITE of 0 bytes is one packet without payload
  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t immediate = 0;
  bool signaled = true;
};

struct Completion {
  std::uint64_t wr_id = 0;
  std::uint64_t bytes = 0;
  std::uint32_t qp = 0;
  std::uint32_t immediate = 0;
  WcStatus status{};
  WcOpcode opcode{};
};

// Capability bits exchanged between peers (F.1), and extensions of ours.
struct QpCapabilities {
  bool trim_nack = true;
  bool dynamic_mpr = false;
  bool service_time = true;
  bool plane_sacks = false;   // extension: SACKs are counted and merged by plane, and are sent after 1 ms at the latest
  bool sack_transit = false;  // extension: SACKs by plane carry the transit time in place of the OOO count
};

// How congestion shows on the planes of a QP.
enum class PathSignal : std::uint8_t {
  kMarks = 0,  // ECN and trimming: one controller for the QP, as published
  kDelay,      // extension: queueing delay and losses, plane by plane
  kDiscover,   // extension: by delay, until a plane is seen to mark
};

struct QpInitAttributes {
  Transport transport = Transport::kMrc;
  CqId send_cq = 0;
  CqId recv_cq = 0;
  std::uint32_t send_wr_max = 128;
  std::uint32_t recv_wr_max = 128;
  DomainId domain = 0;
};

// RST -> INIT: the profiles.
struct QpToInit {
  std::string ev_selector = "mrc";
  EvSetConfig ev_set;
  std::vector<Ev> ev_universe;  // of the EV profile; RC takes the first EV of a usable port
  std::string controller = "nscc";
  CcConfig cc;
  PathSignal path_signal = PathSignal::kMarks;
  std::uint64_t plane_buffer_bytes = 0;  // that the peer's socket holds of one plane; 0: unknown
};

// INIT -> RTR: what we need to receive.
struct QpToRtr {
  PeerId peer = 0;
  std::uint32_t destination_qp = 0;
  std::uint32_t rq_psn = 0;  // first PSN that the peer sends
  std::uint32_t payload_mtu = 4096;
  std::uint8_t mpr_units = 32;       // our receive window, x 128 PSNs
  std::uint16_t wimm_max_dest = 32;  // WRITE_IMM messages the peer may have in flight towards us
  QpCapabilities capabilities;       // both ends can
  std::uint32_t sack_bytes = 4096;   // byte trigger of the SACK (every packet counts at least 1,024)
  bool nack_out_of_window = true;    // Known conflicts, "PSN above the window": false drops silently
};

// RTR -> RTS: what we need to send.
struct QpToRts {
  std::uint32_t sq_psn = 0;
  std::uint8_t mpr_units = 32;            // the peer's receive window
  std::uint16_t wimm_max = 32;            // the peer's wimm_max_dest
  std::uint8_t timeout_exponent = 8;      // base timer 1.024 us x 2^exponent, 0..24
  std::uint8_t linear_retries = 7;        // 0..7
  std::uint8_t exponential_retries = 25;  // 0..25, 25 = for ever
  wire::TimestampResolution timestamp_resolution = wire::TimestampResolution::k128Ns;
  TrafficClass data_class = TrafficClass::kTrimmable;
  std::uint32_t rc_window_packets = 64;  // RC: packets in flight
};

struct QpStats {
  std::uint64_t sent_packets = 0, sent_bytes = 0, retransmitted_packets = 0;
  std::uint64_t received_packets = 0, received_bytes = 0, duplicate_packets = 0, placed_bytes = 0;
  std::uint64_t sacks_sent = 0, sacks_received = 0, nacks_sent = 0, nacks_received = 0, acks_sent = 0,
                acks_received = 0;
  std::uint64_t probes_sent = 0, probes_received = 0, timeouts = 0, losses_inferred = 0;
  std::uint64_t trimmed_packets = 0;  // arrived cut by a switch
  std::uint64_t trims_received = 0;   // TRIMMED and TRIMMED_LASTHOP NACKs for packets of ours
  std::uint64_t ecn_marks_received = 0, out_of_window_packets = 0, stale_packets = 0, refused_packets = 0;
  std::uint64_t contradictory_port_status = 0;  // in SACKs: the port that carried it is down, it says
  std::uint64_t completed_messages = 0, completed_bytes = 0, received_messages = 0;
  std::uint64_t inflight_packets = 0, inflight_bytes = 0, lost_pending = 0;
  TimePs smoothed_rtt = 0, last_rtt = 0;
};

// Of one plane of a QP whose planes are controlled one by one.
struct PlaneStats {
  std::uint64_t window_bytes = 0, in_flight_bytes = 0;
  std::uint64_t sent_packets = 0, sent_bytes = 0, lost_packets = 0, acked_packets = 0;
  std::uint64_t rate_bps = 0;  // delivered, smoothed
  TimePs base_rtt = 0, smoothed_rtt = 0, queue_delay = 0, target_delay = 0;
  std::uint32_t background_loss_ppm = 0;
  std::uint32_t burst_bytes = 0;
  bool marking = false;
  bool silent = false;
};

// Of all QPs of an engine together, those that were destroyed or reset included.
struct QpTotals {
  std::uint64_t sent_packets = 0, retransmitted_packets = 0, received_packets = 0;  // data and probes
  std::uint64_t completed_bytes = 0, placed_bytes = 0;
  std::uint64_t sacks_sent = 0, sacks_received = 0, nacks_sent = 0, nacks_received = 0, acks_sent = 0,
                acks_received = 0;

  void add(const QpStats& stats);
};

struct PortStats {
  std::uint64_t sent_packets = 0, sent_bytes = 0, received_packets = 0, received_bytes = 0;
};

// Datagrams that never reached a QP, by reason.
struct DropStats {
  std::array<std::uint64_t, static_cast<std::size_t>(wire::ParseError::kCount)> parse_errors{};
  std::uint64_t bad_icrc = 0, wrong_partition_key = 0, unknown_qp = 0, wrong_source = 0, qp_not_ready = 0;
  std::uint64_t wrong_context = 0, unknown_peer = 0, wrong_transport = 0, events_dropped = 0;
  std::uint64_t wrong_nonce = 0, contradictory_port_status = 0, unanswered_probes = 0;
};

}  // namespace openmrc
