// Written by tools/spec.py from spec/statistics.toml: edit that, then `make spec`.
#pragma once

#include "bindings/record.hpp"
#include "engine/generated/statistics.hpp"

namespace openmrc::bindings {

// Every counter by its name.
inline nb::dict to_dict(const QpStats& stats) {
  nb::dict out;
  out["sent_packets"] = stats.sent_packets;
  out["sent_bytes"] = stats.sent_bytes;
  out["retransmitted_packets"] = stats.retransmitted_packets;
  out["received_packets"] = stats.received_packets;
  out["received_bytes"] = stats.received_bytes;
  out["duplicate_packets"] = stats.duplicate_packets;
  out["placed_bytes"] = stats.placed_bytes;
  out["sacks_sent"] = stats.sacks_sent;
  out["sacks_received"] = stats.sacks_received;
  out["nacks_sent"] = stats.nacks_sent;
  out["nacks_received"] = stats.nacks_received;
  out["acks_sent"] = stats.acks_sent;
  out["acks_received"] = stats.acks_received;
  out["probes_sent"] = stats.probes_sent;
  out["probes_received"] = stats.probes_received;
  out["timeouts"] = stats.timeouts;
  out["losses_inferred"] = stats.losses_inferred;
  out["trimmed_packets"] = stats.trimmed_packets;
  out["trims_received"] = stats.trims_received;
  out["ecn_marks_received"] = stats.ecn_marks_received;
  out["out_of_window_packets"] = stats.out_of_window_packets;
  out["stale_packets"] = stats.stale_packets;
  out["refused_packets"] = stats.refused_packets;
  out["contradictory_port_status"] = stats.contradictory_port_status;
  out["completed_messages"] = stats.completed_messages;
  out["completed_bytes"] = stats.completed_bytes;
  out["received_messages"] = stats.received_messages;
  out["inflight_packets"] = stats.inflight_packets;
  out["inflight_bytes"] = stats.inflight_bytes;
  out["lost_pending"] = stats.lost_pending;
  out["smoothed_rtt_ns"] = stats.smoothed_rtt / kPsPerNs;
  out["last_rtt_ns"] = stats.last_rtt / kPsPerNs;
  return out;
}

// Every counter by its name.
inline nb::dict to_dict(const PlaneStats& stats) {
  nb::dict out;
  out["window_bytes"] = stats.window_bytes;
  out["in_flight_bytes"] = stats.in_flight_bytes;
  out["sent_packets"] = stats.sent_packets;
  out["sent_bytes"] = stats.sent_bytes;
  out["lost_packets"] = stats.lost_packets;
  out["acked_packets"] = stats.acked_packets;
  out["rate_bps"] = stats.rate_bps;
  out["base_rtt_ns"] = stats.base_rtt / kPsPerNs;
  out["smoothed_rtt_ns"] = stats.smoothed_rtt / kPsPerNs;
  out["queue_delay_ns"] = stats.queue_delay / kPsPerNs;
  out["target_delay_ns"] = stats.target_delay / kPsPerNs;
  out["background_loss_ppm"] = stats.background_loss_ppm;
  out["burst_bytes"] = stats.burst_bytes;
  out["marking"] = stats.marking;
  out["silent"] = stats.silent;
  return out;
}

// Every counter by its name.
inline nb::dict to_dict(const CcStats& stats) {
  nb::dict out;
  out["window_bytes"] = stats.window_bytes;
  out["max_window_bytes"] = stats.max_window_bytes;
  out["base_rtt_ns"] = stats.base_rtt / kPsPerNs;
  out["average_delay_ns"] = stats.average_delay / kPsPerNs;
  out["proportional"] = stats.proportional;
  out["fair"] = stats.fair;
  out["fast"] = stats.fast;
  out["decreases"] = stats.decreases;
  out["quick_adapts"] = stats.quick_adapts;
  out["trims"] = stats.trims;
  out["losses"] = stats.losses;
  return out;
}

// Every counter by its name.
inline nb::dict to_dict(const EvSetStats& stats) {
  nb::dict out;
  out["to_skip"] = stats.to_skip;
  out["to_assumed_bad"] = stats.to_assumed_bad;
  out["revived"] = stats.revived;
  out["replaced"] = stats.replaced;
  out["floor_held"] = stats.floor_held;
  out["probes"] = stats.probes;
  return out;
}

// Every counter by its name.
inline nb::dict to_dict(const QpTotals& stats) {
  nb::dict out;
  out["sent_packets"] = stats.sent_packets;
  out["retransmitted_packets"] = stats.retransmitted_packets;
  out["received_packets"] = stats.received_packets;
  out["completed_bytes"] = stats.completed_bytes;
  out["placed_bytes"] = stats.placed_bytes;
  out["sacks_sent"] = stats.sacks_sent;
  out["sacks_received"] = stats.sacks_received;
  out["nacks_sent"] = stats.nacks_sent;
  out["nacks_received"] = stats.nacks_received;
  out["acks_sent"] = stats.acks_sent;
  out["acks_received"] = stats.acks_received;
  return out;
}

// Every counter by its name.
inline nb::dict to_dict(const PortStats& stats) {
  nb::dict out;
  out["sent_packets"] = stats.sent_packets;
  out["sent_bytes"] = stats.sent_bytes;
  out["received_packets"] = stats.received_packets;
  out["received_bytes"] = stats.received_bytes;
  return out;
}

// Every counter by its name.
inline nb::dict to_dict(const DropStats& stats) {
  nb::dict out;
  out["bad_icrc"] = stats.bad_icrc;
  out["wrong_partition_key"] = stats.wrong_partition_key;
  out["unknown_qp"] = stats.unknown_qp;
  out["wrong_source"] = stats.wrong_source;
  out["qp_not_ready"] = stats.qp_not_ready;
  out["unknown_peer"] = stats.unknown_peer;
  out["wrong_transport"] = stats.wrong_transport;
  out["events_dropped"] = stats.events_dropped;
  out["wrong_nonce"] = stats.wrong_nonce;
  out["contradictory_port_status"] = stats.contradictory_port_status;
  out["unanswered_probes"] = stats.unanswered_probes;
  return out;
}

}  // namespace openmrc::bindings
