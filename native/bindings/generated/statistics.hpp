// Written by tools/spec.py from spec/statistics.toml: edit that, then `make spec`.
#pragma once

#include "bindings/record.hpp"
#include "engine/generated/statistics.hpp"

namespace openmrc::bindings {

// Every field by its name.
inline nb::dict to_dict(const QpStats& of) {
  nb::dict out;
  out["sent_packets"] = of.sent_packets;
  out["sent_bytes"] = of.sent_bytes;
  out["retransmitted_packets"] = of.retransmitted_packets;
  out["received_packets"] = of.received_packets;
  out["received_bytes"] = of.received_bytes;
  out["duplicate_packets"] = of.duplicate_packets;
  out["placed_bytes"] = of.placed_bytes;
  out["sacks_sent"] = of.sacks_sent;
  out["sacks_received"] = of.sacks_received;
  out["nacks_sent"] = of.nacks_sent;
  out["nacks_received"] = of.nacks_received;
  out["acks_sent"] = of.acks_sent;
  out["acks_received"] = of.acks_received;
  out["rnr_naks_sent"] = of.rnr_naks_sent;
  out["rnr_naks_received"] = of.rnr_naks_received;
  out["plane_moves"] = of.plane_moves;
  out["probes_sent"] = of.probes_sent;
  out["probes_received"] = of.probes_received;
  out["timeouts"] = of.timeouts;
  out["losses_inferred"] = of.losses_inferred;
  out["trimmed_packets"] = of.trimmed_packets;
  out["trims_received"] = of.trims_received;
  out["ecn_marks_received"] = of.ecn_marks_received;
  out["out_of_window_packets"] = of.out_of_window_packets;
  out["stale_packets"] = of.stale_packets;
  out["refused_packets"] = of.refused_packets;
  out["contradictory_port_status"] = of.contradictory_port_status;
  out["completed_messages"] = of.completed_messages;
  out["completed_bytes"] = of.completed_bytes;
  out["received_messages"] = of.received_messages;
  out["in_flight_packets"] = of.in_flight_packets;
  out["in_flight_bytes"] = of.in_flight_bytes;
  out["lost_pending"] = of.lost_pending;
  out["smoothed_rtt_ns"] = of.smoothed_rtt / kPsPerNs;
  out["last_rtt_ns"] = of.last_rtt / kPsPerNs;
  return out;
}

// Every field by its name.
inline nb::dict to_dict(const PlaneStats& of) {
  nb::dict out;
  out["window_bytes"] = of.window_bytes;
  out["in_flight_bytes"] = of.in_flight_bytes;
  out["sent_packets"] = of.sent_packets;
  out["sent_bytes"] = of.sent_bytes;
  out["lost_packets"] = of.lost_packets;
  out["acked_packets"] = of.acked_packets;
  out["rate_bps"] = of.rate_bps;
  out["base_rtt_ns"] = of.base_rtt / kPsPerNs;
  out["smoothed_rtt_ns"] = of.smoothed_rtt / kPsPerNs;
  out["queue_delay_ns"] = of.queue_delay / kPsPerNs;
  out["target_delay_ns"] = of.target_delay / kPsPerNs;
  out["background_loss_ppm"] = of.background_loss_ppm;
  out["burst_bytes"] = of.burst_bytes;
  out["marking"] = of.marking;
  out["silent"] = of.silent;
  out["competing"] = of.competing;
  return out;
}

// Every field by its name.
inline nb::dict to_dict(const CcStats& of) {
  nb::dict out;
  out["window_bytes"] = of.window_bytes;
  out["max_window_bytes"] = of.max_window_bytes;
  out["base_rtt_ns"] = of.base_rtt / kPsPerNs;
  out["average_delay_ns"] = of.average_delay / kPsPerNs;
  out["proportional"] = of.proportional;
  out["fair"] = of.fair;
  out["fast"] = of.fast;
  out["decreases"] = of.decreases;
  out["quick_adapts"] = of.quick_adapts;
  out["trims"] = of.trims;
  out["losses"] = of.losses;
  return out;
}

// Every field by its name.
inline nb::dict to_dict(const EvSetStats& of) {
  nb::dict out;
  out["to_skip"] = of.to_skip;
  out["to_assumed_bad"] = of.to_assumed_bad;
  out["revived"] = of.revived;
  out["replaced"] = of.replaced;
  out["floor_held"] = of.floor_held;
  out["probes"] = of.probes;
  return out;
}

// Every field by its name.
inline nb::dict to_dict(const QpTotals& of) {
  nb::dict out;
  out["sent_packets"] = of.sent_packets;
  out["retransmitted_packets"] = of.retransmitted_packets;
  out["received_packets"] = of.received_packets;
  out["completed_bytes"] = of.completed_bytes;
  out["placed_bytes"] = of.placed_bytes;
  out["sacks_sent"] = of.sacks_sent;
  out["sacks_received"] = of.sacks_received;
  out["nacks_sent"] = of.nacks_sent;
  out["nacks_received"] = of.nacks_received;
  out["acks_sent"] = of.acks_sent;
  out["acks_received"] = of.acks_received;
  return out;
}

// Every field by its name.
inline nb::dict to_dict(const PortStats& of) {
  nb::dict out;
  out["sent_packets"] = of.sent_packets;
  out["sent_bytes"] = of.sent_bytes;
  out["received_packets"] = of.received_packets;
  out["received_bytes"] = of.received_bytes;
  return out;
}

// Every field by its name.
inline nb::dict to_dict(const DropStats& of) {
  nb::dict out;
  out["bad_icrc"] = of.bad_icrc;
  out["missing_icrc"] = of.missing_icrc;
  out["wrong_partition_key"] = of.wrong_partition_key;
  out["unknown_qp"] = of.unknown_qp;
  out["wrong_source"] = of.wrong_source;
  out["qp_not_ready"] = of.qp_not_ready;
  out["unknown_peer"] = of.unknown_peer;
  out["wrong_transport"] = of.wrong_transport;
  out["events_dropped"] = of.events_dropped;
  out["wrong_nonce"] = of.wrong_nonce;
  out["contradictory_port_status"] = of.contradictory_port_status;
  out["unanswered_probes"] = of.unanswered_probes;
  return out;
}

}  // namespace openmrc::bindings
