// Written by tools/spec.py from spec/results.toml: edit that, then `make spec`.
#pragma once

#include <utility>
#include <vector>

#include "bindings/column.hpp"
#include "bindings/record.hpp"
#include "netsim/generated/results.hpp"

namespace openmrc::bindings {

// Every field by its name.
inline nb::dict to_dict(const netsim::SimulationCounters& of) {
  nb::dict out;
  out["data_packets"] = of.data_packets;
  out["events"] = of.events;
  out["windows"] = of.windows;
  out["ops_finished"] = of.ops_finished;
  out["ops_failed"] = of.ops_failed;
  out["corrupted"] = of.corrupted;
  return out;
}

// Columns of netsim::PathEventRow, by name.
class PathEventColumns {
 public:
  void add(const netsim::PathEventRow& row) {
    time_ps_.push_back(row.time);
    host_.push_back(row.host);
    connection_.push_back(row.connection);
    ev_.push_back(row.ev);
    port_.push_back(row.port);
    state_.push_back(row.state);
    cause_.push_back(row.cause);
    replacement_.push_back(row.replacement);
    t0_uplink_.push_back(row.t0_uplink);
    t1_uplink_.push_back(row.t1_uplink);
  }
  nb::dict take() {
    nb::dict out;
    out["time_ps"] = column(std::move(time_ps_));
    out["host"] = column(std::move(host_));
    out["connection"] = column(std::move(connection_));
    out["ev"] = column(std::move(ev_));
    out["port"] = column(std::move(port_));
    out["state"] = column(std::move(state_));
    out["cause"] = column(std::move(cause_));
    out["replacement"] = column(std::move(replacement_));
    out["t0_uplink"] = column(std::move(t0_uplink_));
    out["t1_uplink"] = column(std::move(t1_uplink_));
    return out;
  }

 private:
  std::vector<TimePs> time_ps_;
  std::vector<std::uint32_t> host_;
  std::vector<std::uint32_t> connection_;
  std::vector<std::uint32_t> ev_;
  std::vector<std::uint8_t> port_;
  std::vector<std::uint8_t> state_;
  std::vector<std::uint8_t> cause_;
  std::vector<std::uint32_t> replacement_;
  std::vector<std::uint16_t> t0_uplink_;
  std::vector<std::uint16_t> t1_uplink_;
};

// Columns of netsim::OpTimeRow, by name.
class OpTimeColumns {
 public:
  void add(const netsim::OpTimeRow& row) {
    started_ps_.push_back(row.started);
    received_ps_.push_back(row.received);
    completed_ps_.push_back(row.completed);
    failed_.push_back(row.failed);
  }
  nb::dict take() {
    nb::dict out;
    out["started_ps"] = column(std::move(started_ps_));
    out["received_ps"] = column(std::move(received_ps_));
    out["completed_ps"] = column(std::move(completed_ps_));
    out["failed"] = column(std::move(failed_));
    return out;
  }

 private:
  std::vector<TimePs> started_ps_;
  std::vector<TimePs> received_ps_;
  std::vector<TimePs> completed_ps_;
  std::vector<std::uint8_t> failed_;
};

// Columns of netsim::LinkRow, by name.
class LinkColumns {
 public:
  void add(const netsim::LinkRow& row) {
    packets_.push_back(row.packets);
    bytes_.push_back(row.bytes);
    marks_.push_back(row.marks);
    trims_.push_back(row.trims);
    drop_queue_.push_back(row.drop_queue);
    drop_control_queue_.push_back(row.drop_control_queue);
    drop_down_.push_back(row.drop_down);
    drop_blackhole_.push_back(row.drop_blackhole);
    drop_loss_.push_back(row.drop_loss);
    queue_peak_bytes_.push_back(row.queue_peak_bytes);
    queue_bytes_.push_back(row.queue_bytes);
    pauses_.push_back(row.pauses);
    paused_ps_.push_back(row.paused);
  }
  nb::dict take() {
    nb::dict out;
    out["packets"] = column(std::move(packets_));
    out["bytes"] = column(std::move(bytes_));
    out["marks"] = column(std::move(marks_));
    out["trims"] = column(std::move(trims_));
    out["drop_queue"] = column(std::move(drop_queue_));
    out["drop_control_queue"] = column(std::move(drop_control_queue_));
    out["drop_down"] = column(std::move(drop_down_));
    out["drop_blackhole"] = column(std::move(drop_blackhole_));
    out["drop_loss"] = column(std::move(drop_loss_));
    out["queue_peak_bytes"] = column(std::move(queue_peak_bytes_));
    out["queue_bytes"] = column(std::move(queue_bytes_));
    out["pauses"] = column(std::move(pauses_));
    out["paused_ps"] = column(std::move(paused_ps_));
    return out;
  }

 private:
  std::vector<std::uint64_t> packets_;
  std::vector<std::uint64_t> bytes_;
  std::vector<std::uint64_t> marks_;
  std::vector<std::uint64_t> trims_;
  std::vector<std::uint64_t> drop_queue_;
  std::vector<std::uint64_t> drop_control_queue_;
  std::vector<std::uint64_t> drop_down_;
  std::vector<std::uint64_t> drop_blackhole_;
  std::vector<std::uint64_t> drop_loss_;
  std::vector<std::uint64_t> queue_peak_bytes_;
  std::vector<std::uint64_t> queue_bytes_;
  std::vector<std::uint64_t> pauses_;
  std::vector<TimePs> paused_ps_;
};

// Columns of netsim::PortRow, by name.
class PortColumns {
 public:
  void add(const netsim::PortRow& row) {
    tx_bytes_.push_back(row.tx_bytes);
    rx_bytes_.push_back(row.rx_bytes);
    tx_packets_.push_back(row.tx_packets);
    rx_packets_.push_back(row.rx_packets);
  }
  nb::dict take() {
    nb::dict out;
    out["tx_bytes"] = column(std::move(tx_bytes_));
    out["rx_bytes"] = column(std::move(rx_bytes_));
    out["tx_packets"] = column(std::move(tx_packets_));
    out["rx_packets"] = column(std::move(rx_packets_));
    return out;
  }

 private:
  std::vector<std::uint64_t> tx_bytes_;
  std::vector<std::uint64_t> rx_bytes_;
  std::vector<std::uint64_t> tx_packets_;
  std::vector<std::uint64_t> rx_packets_;
};

// Columns of netsim::HostRow, by name.
class HostColumns {
 public:
  void add(const netsim::HostRow& row) { goodput_bytes_.push_back(row.goodput_bytes); }
  nb::dict take() {
    nb::dict out;
    out["goodput_bytes"] = column(std::move(goodput_bytes_));
    return out;
  }

 private:
  std::vector<std::uint64_t> goodput_bytes_;
};

// Columns of netsim::ConnectionRow, by name.
class ConnectionColumns {
 public:
  void add(const netsim::ConnectionRow& row) {
    host_.push_back(row.host);
    peer_.push_back(row.peer);
    lane_.push_back(row.lane);
    sent_packets_.push_back(row.sent_packets);
    sent_bytes_.push_back(row.sent_bytes);
    retransmitted_packets_.push_back(row.retransmitted_packets);
    received_bytes_.push_back(row.received_bytes);
    duplicate_packets_.push_back(row.duplicate_packets);
    marks_.push_back(row.marks);
    trims_.push_back(row.trims);
    losses_inferred_.push_back(row.losses_inferred);
    timeouts_.push_back(row.timeouts);
    window_bytes_.push_back(row.window_bytes);
    rate_bps_.push_back(row.rate_bps);
    smoothed_rtt_ps_.push_back(row.smoothed_rtt);
  }
  nb::dict take() {
    nb::dict out;
    out["host"] = column(std::move(host_));
    out["peer"] = column(std::move(peer_));
    out["lane"] = column(std::move(lane_));
    out["sent_packets"] = column(std::move(sent_packets_));
    out["sent_bytes"] = column(std::move(sent_bytes_));
    out["retransmitted_packets"] = column(std::move(retransmitted_packets_));
    out["received_bytes"] = column(std::move(received_bytes_));
    out["duplicate_packets"] = column(std::move(duplicate_packets_));
    out["marks"] = column(std::move(marks_));
    out["trims"] = column(std::move(trims_));
    out["losses_inferred"] = column(std::move(losses_inferred_));
    out["timeouts"] = column(std::move(timeouts_));
    out["window_bytes"] = column(std::move(window_bytes_));
    out["rate_bps"] = column(std::move(rate_bps_));
    out["smoothed_rtt_ps"] = column(std::move(smoothed_rtt_ps_));
    return out;
  }

 private:
  std::vector<std::uint32_t> host_;
  std::vector<std::uint32_t> peer_;
  std::vector<std::uint32_t> lane_;
  std::vector<std::uint64_t> sent_packets_;
  std::vector<std::uint64_t> sent_bytes_;
  std::vector<std::uint64_t> retransmitted_packets_;
  std::vector<std::uint64_t> received_bytes_;
  std::vector<std::uint64_t> duplicate_packets_;
  std::vector<std::uint64_t> marks_;
  std::vector<std::uint64_t> trims_;
  std::vector<std::uint64_t> losses_inferred_;
  std::vector<std::uint64_t> timeouts_;
  std::vector<std::uint64_t> window_bytes_;
  std::vector<std::uint64_t> rate_bps_;
  std::vector<TimePs> smoothed_rtt_ps_;
};

}  // namespace openmrc::bindings
