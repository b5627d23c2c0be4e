// The nouns of the verbs layer as the engine knows them: statuses, work requests, completions, QP attributes, counters.
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/ids.hpp"
#include "engine/base/limits.hpp"
#include "engine/base/time.hpp"
#include "engine/generated/enums.hpp"
#include "engine/generated/qp_attributes.hpp"
#include "engine/wire/packet.hpp"

namespace openmrc {

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
