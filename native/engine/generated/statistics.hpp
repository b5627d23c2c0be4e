// Written by tools/spec.py from spec/statistics.toml: edit that, then `make spec`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/base/time.hpp"
#include "engine/generated/enums.hpp"

namespace openmrc {

// One QP.
struct QpStats {
  // Data packets and probes sent.
  std::uint64_t sent_packets = 0;
  // Payload of these.
  std::uint64_t sent_bytes = 0;
  // Sent again.
  std::uint64_t retransmitted_packets = 0;
  // Data packets and probes received.
  std::uint64_t received_packets = 0;
  // Payload of these.
  std::uint64_t received_bytes = 0;
  // Received again.
  std::uint64_t duplicate_packets = 0;
  // Payload written into registered memory.
  std::uint64_t placed_bytes = 0;
  // Selective acknowledgements sent.
  std::uint64_t sacks_sent = 0;
  // Selective acknowledgements received.
  std::uint64_t sacks_received = 0;
  // Negative acknowledgements sent.
  std::uint64_t nacks_sent = 0;
  // Negative acknowledgements received.
  std::uint64_t nacks_received = 0;
  // Transport acknowledgements sent.
  std::uint64_t acks_sent = 0;
  // Transport acknowledgements received.
  std::uint64_t acks_received = 0;
  // RC: reports that no receive was posted, sent.
  std::uint64_t rnr_naks_sent = 0;
  // RC: the same, received.
  std::uint64_t rnr_naks_received = 0;
  // RC: changes of the plane.
  std::uint64_t plane_moves = 0;
  // Probes sent.
  std::uint64_t probes_sent = 0;
  // Probes received.
  std::uint64_t probes_received = 0;
  // Expiries of the retransmission timer.
  std::uint64_t timeouts = 0;
  // Taken for lost because later ones arrived.
  std::uint64_t losses_inferred = 0;
  // Arrived cut by a switch.
  std::uint64_t trimmed_packets = 0;
  // Packets of this QP that a NACK reports as trimmed.
  std::uint64_t trims_received = 0;
  // SACKs that report a mark.
  std::uint64_t ecn_marks_received = 0;
  // Received above the window.
  std::uint64_t out_of_window_packets = 0;
  // Packets about nothing that is in flight: late, repeated, or about what was never sent.
  std::uint64_t stale_packets = 0;
  // Requests that this side refused.
  std::uint64_t refused_packets = 0;
  // SACKs that report the port that carried them as down.
  std::uint64_t contradictory_port_status = 0;
  // Sends completed.
  std::uint64_t completed_messages = 0;
  // Payload of these.
  std::uint64_t completed_bytes = 0;
  // Messages received to the end.
  std::uint64_t received_messages = 0;
  // In flight now.
  std::uint64_t in_flight_packets = 0;
  // In flight now, headers included.
  std::uint64_t in_flight_bytes = 0;
  // Lost and not sent again yet.
  std::uint64_t lost_pending = 0;
  // Smoothed round trip.
  TimePs smoothed_rtt = 0;
  // Latest round trip.
  TimePs last_rtt = 0;
};

// One plane of a QP whose planes are controlled one by one.
struct PlaneStats {
  // Limit of the bytes in flight. A plane that marks is limited by the controller instead, and this window does not
  // change.
  std::uint64_t window_bytes = 0;
  // In flight now.
  std::uint64_t in_flight_bytes = 0;
  // Packets sent.
  std::uint64_t sent_packets = 0;
  // Bytes of these with headers, those of IP as 40.
  std::uint64_t sent_bytes = 0;
  // Taken for lost; some of them may have been late.
  std::uint64_t lost_packets = 0;
  // Packets acknowledged.
  std::uint64_t acked_packets = 0;
  // Delivered, smoothed over some ten milliseconds; 0: not known yet. Not measured while the plane marks.
  std::uint64_t rate_bps = 0;
  // Idle round trip, the least of the latest ones.
  TimePs base_rtt = 0;
  // Smoothed round trip.
  TimePs smoothed_rtt = 0;
  // Least queueing delay of the latest eight samples, beyond `base_rtt_ns`.
  TimePs queue_delay = 0;
  // Queueing delay that is aimed at.
  TimePs target_delay = 0;
  // Packets lost whatever the rate.
  std::uint32_t background_loss_ppm = 0;
  // Sent at once at most.
  std::uint32_t burst_bytes = 0;
  // The plane marks, and the controller of the QP controls it.
  bool marking = false;
  // Packets get no answer while other planes answer.
  bool silent = false;
  // Others keep the buffer of the plane full, as TCP does, and the window grows until packets are lost.
  bool competing = false;
};

// Congestion control of one QP.
struct CcStats {
  // Window.
  std::uint64_t window_bytes = 0;
  // Largest window.
  std::uint64_t max_window_bytes = 0;
  // Idle round trip: the smallest sample.
  TimePs base_rtt = 0;
  // Average queueing delay.
  TimePs average_delay = 0;
  // Proportional increases.
  std::uint64_t proportional = 0;
  // Fair increases.
  std::uint64_t fair = 0;
  // Fast increases.
  std::uint64_t fast = 0;
  // Multiplicative decreases.
  std::uint64_t decreases = 0;
  // Quick adaptations.
  std::uint64_t quick_adapts = 0;
  // Trimmed packets reported to it.
  std::uint64_t trims = 0;
  // Lost packets reported to it.
  std::uint64_t losses = 0;
};

// Changes of the EVs of one QP.
struct EvSetStats {
  // Changes to SKIP.
  std::uint64_t to_skip = 0;
  // Changes to ASSUMED_BAD.
  std::uint64_t to_assumed_bad = 0;
  // EVs that probes revived.
  std::uint64_t revived = 0;
  // EVs that left the active set for another one.
  std::uint64_t replaced = 0;
  // Changes to ASSUMED_BAD that `min_active` forbade.
  std::uint64_t floor_held = 0;
  // Probes of EVs.
  std::uint64_t probes = 0;
};

// All QPs of a device together, those that were closed or reset included.
struct QpTotals {
  // Data packets and probes sent.
  std::uint64_t sent_packets = 0;
  // Sent again.
  std::uint64_t retransmitted_packets = 0;
  // Data packets and probes received.
  std::uint64_t received_packets = 0;
  // Payload of these.
  std::uint64_t completed_bytes = 0;
  // Payload written into registered memory.
  std::uint64_t placed_bytes = 0;
  // Selective acknowledgements sent.
  std::uint64_t sacks_sent = 0;
  // Selective acknowledgements received.
  std::uint64_t sacks_received = 0;
  // Negative acknowledgements sent.
  std::uint64_t nacks_sent = 0;
  // Negative acknowledgements received.
  std::uint64_t nacks_received = 0;
  // Transport acknowledgements sent.
  std::uint64_t acks_sent = 0;
  // Transport acknowledgements received.
  std::uint64_t acks_received = 0;
};

// Packets of one port, as the engine counts them.
struct PortStats {
  // Packets sent.
  std::uint64_t sent_packets = 0;
  // Bytes of these.
  std::uint64_t sent_bytes = 0;
  // Packets received.
  std::uint64_t received_packets = 0;
  // Bytes of these.
  std::uint64_t received_bytes = 0;
};

// Datagrams that never reached a QP, by reason.
struct DropStats {
  // Malformed, by `ParseError`.
  std::array<std::uint64_t, static_cast<std::size_t>(ParseError::kCount)> parse_errors = {};
  // Wrong checksum.
  std::uint64_t bad_icrc = 0;
  // Without an ICRC, to a QP that requires one.
  std::uint64_t missing_icrc = 0;
  // Another partition key.
  std::uint64_t wrong_partition_key = 0;
  // To a QP that does not exist.
  std::uint64_t unknown_qp = 0;
  // Not from an address of the QP's peer.
  std::uint64_t wrong_source = 0;
  // To a QP that is not in RTR or RTS.
  std::uint64_t qp_not_ready = 0;
  // Endpoint operations of senders that are no peer.
  std::uint64_t unknown_peer = 0;
  // MRC to an RC QP, or the reverse.
  std::uint64_t wrong_transport = 0;
  // Events that did not fit the engine's queue.
  std::uint64_t events_dropped = 0;
  // Endpoint operations without proof of their origin.
  std::uint64_t wrong_nonce = 0;
  // Port status that reports the port that carried it as down.
  std::uint64_t contradictory_port_status = 0;
  // EV probes beyond the rate that is answered.
  std::uint64_t unanswered_probes = 0;
};

// Adds the counters that a QpTotals has.
inline void add(QpTotals& to, const QpStats& of) {
  to.sent_packets += of.sent_packets;
  to.retransmitted_packets += of.retransmitted_packets;
  to.received_packets += of.received_packets;
  to.completed_bytes += of.completed_bytes;
  to.placed_bytes += of.placed_bytes;
  to.sacks_sent += of.sacks_sent;
  to.sacks_received += of.sacks_received;
  to.nacks_sent += of.nacks_sent;
  to.nacks_received += of.nacks_received;
  to.acks_sent += of.acks_sent;
  to.acks_received += of.acks_received;
}

}  // namespace openmrc
