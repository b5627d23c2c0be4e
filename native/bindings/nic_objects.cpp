#include "bindings/nic_objects.hpp"

namespace openmrc::bindings {
// One line per counter, with the counter's own name as the key.
#define MRC_FIELD(name) out[#name] = stats.name
// Times leave as nanoseconds.
#define MRC_TIME(name) out[#name "_ns"] = stats.name / kPsPerNs

nb::dict to_dict(const QpStats& stats) {
  nb::dict out;
  MRC_FIELD(sent_packets);
  MRC_FIELD(sent_bytes);
  MRC_FIELD(retransmitted_packets);
  MRC_FIELD(received_packets);
  MRC_FIELD(received_bytes);
  MRC_FIELD(duplicate_packets);
  MRC_FIELD(placed_bytes);
  MRC_FIELD(sacks_sent);
  MRC_FIELD(sacks_received);
  MRC_FIELD(nacks_sent);
  MRC_FIELD(nacks_received);
  MRC_FIELD(acks_sent);
  MRC_FIELD(acks_received);
  MRC_FIELD(probes_sent);
  MRC_FIELD(probes_received);
  MRC_FIELD(timeouts);
  MRC_FIELD(losses_inferred);
  MRC_FIELD(trimmed_packets);
  MRC_FIELD(trims_received);
  MRC_FIELD(ecn_marks_received);
  MRC_FIELD(out_of_window_packets);
  MRC_FIELD(stale_packets);
  MRC_FIELD(contradictory_port_status);
  MRC_FIELD(refused_packets);
  MRC_FIELD(completed_messages);
  MRC_FIELD(completed_bytes);
  MRC_FIELD(received_messages);
  MRC_FIELD(inflight_packets);
  MRC_FIELD(inflight_bytes);
  MRC_FIELD(lost_pending);
  MRC_TIME(smoothed_rtt);
  MRC_TIME(last_rtt);
  return out;
}

nb::dict to_dict(const PlaneStats& stats) {
  nb::dict out;
  MRC_FIELD(window_bytes);
  MRC_FIELD(in_flight_bytes);
  MRC_FIELD(sent_packets);
  MRC_FIELD(sent_bytes);
  MRC_FIELD(lost_packets);
  MRC_FIELD(acked_packets);
  MRC_FIELD(rate_bps);
  MRC_TIME(base_rtt);
  MRC_TIME(smoothed_rtt);
  MRC_TIME(queue_delay);
  MRC_TIME(target_delay);
  MRC_FIELD(background_loss_ppm);
  MRC_FIELD(burst_bytes);
  MRC_FIELD(marking);
  MRC_FIELD(silent);
  return out;
}

nb::dict to_dict(const CcStats& stats) {
  nb::dict out;
  MRC_FIELD(window_bytes);
  MRC_FIELD(max_window_bytes);
  MRC_TIME(base_rtt);
  MRC_TIME(average_delay);
  MRC_FIELD(proportional);
  MRC_FIELD(fair);
  MRC_FIELD(fast);
  MRC_FIELD(decreases);
  MRC_FIELD(quick_adapts);
  MRC_FIELD(trims);
  MRC_FIELD(losses);
  return out;
}

nb::dict to_dict(const PortStats& stats) {
  nb::dict out;
  MRC_FIELD(sent_packets);
  MRC_FIELD(sent_bytes);
  MRC_FIELD(received_packets);
  MRC_FIELD(received_bytes);
  return out;
}

nb::dict to_dict(const QpTotals& stats) {
  nb::dict out;
  MRC_FIELD(sent_packets);
  MRC_FIELD(retransmitted_packets);
  MRC_FIELD(received_packets);
  MRC_FIELD(completed_bytes);
  MRC_FIELD(placed_bytes);
  MRC_FIELD(sacks_sent);
  MRC_FIELD(sacks_received);
  MRC_FIELD(nacks_sent);
  MRC_FIELD(nacks_received);
  MRC_FIELD(acks_sent);
  MRC_FIELD(acks_received);
  return out;
}

nb::dict to_dict(const DropStats& stats) {
  nb::dict out;
  nb::list errors;
  for (const std::uint64_t count : stats.parse_errors) errors.append(count);
  out["parse_errors"] = errors;
  MRC_FIELD(bad_icrc);
  MRC_FIELD(wrong_partition_key);
  MRC_FIELD(unknown_qp);
  MRC_FIELD(wrong_source);
  MRC_FIELD(qp_not_ready);
  MRC_FIELD(wrong_context);
  MRC_FIELD(unknown_peer);
  MRC_FIELD(wrong_transport);
  MRC_FIELD(events_dropped);
  MRC_FIELD(wrong_nonce);
  MRC_FIELD(contradictory_port_status);
  MRC_FIELD(unanswered_probes);
  return out;
}

nb::dict to_dict(const EvSetStats& stats) {
  nb::dict out;
  MRC_FIELD(to_skip);
  MRC_FIELD(to_assumed_bad);
  MRC_FIELD(revived);
  MRC_FIELD(replaced);
  MRC_FIELD(floor_held);
  MRC_FIELD(probes);
  return out;
}

nb::dict to_dict(const nic::WaitStats& stats) {
  nb::dict out;
  MRC_FIELD(wait_calls);
  MRC_FIELD(wakeups);
  MRC_FIELD(eventfd_writes);
  MRC_FIELD(eventfd_reads);
  MRC_FIELD(yields);
  return out;
}

nb::dict to_dict(const nic::SocketStats& stats) {
  nb::dict out;
  MRC_FIELD(send_calls);
  MRC_FIELD(sent_datagrams);
  MRC_FIELD(sent_bytes);
  MRC_FIELD(segmented_sends);
  MRC_FIELD(receive_calls);
  MRC_FIELD(received_datagrams);
  MRC_FIELD(received_bytes);
  MRC_FIELD(coalesced_receives);
  MRC_FIELD(would_block);
  MRC_FIELD(send_errors);
  MRC_FIELD(dropped_datagrams);
  MRC_FIELD(too_long);
  MRC_FIELD(no_path);
  MRC_FIELD(receive_errors);
  MRC_FIELD(truncated);
  MRC_FIELD(kernel_drops);
  MRC_FIELD(endpoint_drops);
  MRC_FIELD(receive_buffer_bytes);
  MRC_FIELD(send_buffer_bytes);
  MRC_FIELD(last_send_error);
  MRC_FIELD(refusal);
  MRC_FIELD(segmentation_offload);
  MRC_FIELD(receive_offload);
  return out;
}

#undef MRC_FIELD
#undef MRC_TIME

}  // namespace openmrc::bindings
