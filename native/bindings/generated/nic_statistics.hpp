// Written by tools/spec.py from spec/nic-statistics.toml: edit that, then `make spec`.
#pragma once

#include "bindings/record.hpp"
#include "nic/generated/statistics.hpp"

namespace openmrc::bindings {

// Every field by its name.
inline nb::dict to_dict(const nic::SocketStats& of) {
  nb::dict out;
  out["send_calls"] = of.send_calls;
  out["sent_datagrams"] = of.sent_datagrams;
  out["sent_bytes"] = of.sent_bytes;
  out["segmented_sends"] = of.segmented_sends;
  out["receive_calls"] = of.receive_calls;
  out["received_datagrams"] = of.received_datagrams;
  out["received_bytes"] = of.received_bytes;
  out["coalesced_receives"] = of.coalesced_receives;
  out["would_block"] = of.would_block;
  out["send_errors"] = of.send_errors;
  out["dropped_datagrams"] = of.dropped_datagrams;
  out["too_long"] = of.too_long;
  out["no_path"] = of.no_path;
  out["receive_errors"] = of.receive_errors;
  out["truncated"] = of.truncated;
  out["kernel_drops"] = of.kernel_drops;
  out["endpoint_drops"] = of.endpoint_drops;
  out["receive_buffer_bytes"] = of.receive_buffer_bytes;
  out["send_buffer_bytes"] = of.send_buffer_bytes;
  out["last_send_error"] = of.last_send_error;
  out["refusal"] = of.refusal;
  out["segmentation_offload"] = of.segmentation_offload;
  out["receive_offload"] = of.receive_offload;
  return out;
}

// Every field by its name.
inline nb::dict to_dict(const nic::WaitStats& of) {
  nb::dict out;
  out["wait_calls"] = of.wait_calls;
  out["wakeups"] = of.wakeups;
  out["eventfd_writes"] = of.eventfd_writes;
  out["eventfd_reads"] = of.eventfd_reads;
  out["timer_calls"] = of.timer_calls;
  out["yields"] = of.yields;
  return out;
}

// Every field by its name.
inline nb::dict to_dict(const nic::DeviceStats& of) {
  nb::dict out;
  out["turns"] = of.turns;
  out["progress_calls"] = of.progress_calls;
  out["pauses"] = of.pauses;
  out["timer_runs"] = of.timer_runs;
  out["events_dropped"] = of.events_dropped;
  out["clock_rebases"] = of.clock_rebases;
  out["io_threads"] = of.io_threads;
  out["io_threads_peak"] = of.io_threads_peak;
  return out;
}

}  // namespace openmrc::bindings
