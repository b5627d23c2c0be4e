// Written by tools/spec.py from spec/nic-statistics.toml: edit that, then `make spec`.
#pragma once

#include "bindings/record.hpp"
#include "nic/generated/statistics.hpp"

namespace openmrc::bindings {

// Every counter by its name.
inline nb::dict to_dict(const nic::SocketStats& stats) {
  nb::dict out;
  out["send_calls"] = stats.send_calls;
  out["sent_datagrams"] = stats.sent_datagrams;
  out["sent_bytes"] = stats.sent_bytes;
  out["segmented_sends"] = stats.segmented_sends;
  out["receive_calls"] = stats.receive_calls;
  out["received_datagrams"] = stats.received_datagrams;
  out["received_bytes"] = stats.received_bytes;
  out["coalesced_receives"] = stats.coalesced_receives;
  out["would_block"] = stats.would_block;
  out["send_errors"] = stats.send_errors;
  out["dropped_datagrams"] = stats.dropped_datagrams;
  out["too_long"] = stats.too_long;
  out["no_path"] = stats.no_path;
  out["receive_errors"] = stats.receive_errors;
  out["truncated"] = stats.truncated;
  out["kernel_drops"] = stats.kernel_drops;
  out["endpoint_drops"] = stats.endpoint_drops;
  out["receive_buffer_bytes"] = stats.receive_buffer_bytes;
  out["send_buffer_bytes"] = stats.send_buffer_bytes;
  out["last_send_error"] = stats.last_send_error;
  out["refusal"] = stats.refusal;
  out["segmentation_offload"] = stats.segmentation_offload;
  out["receive_offload"] = stats.receive_offload;
  return out;
}

// Every counter by its name.
inline nb::dict to_dict(const nic::WaitStats& stats) {
  nb::dict out;
  out["wait_calls"] = stats.wait_calls;
  out["wakeups"] = stats.wakeups;
  out["eventfd_writes"] = stats.eventfd_writes;
  out["eventfd_reads"] = stats.eventfd_reads;
  out["yields"] = stats.yields;
  return out;
}

// Every counter by its name.
inline nb::dict to_dict(const nic::DeviceStats& stats) {
  nb::dict out;
  out["turns"] = stats.turns;
  out["progress_calls"] = stats.progress_calls;
  out["pauses"] = stats.pauses;
  out["timer_runs"] = stats.timer_runs;
  out["events_dropped"] = stats.events_dropped;
  out["clock_rebases"] = stats.clock_rebases;
  out["io_threads"] = stats.io_threads;
  out["io_threads_peak"] = stats.io_threads_peak;
  return out;
}

}  // namespace openmrc::bindings
