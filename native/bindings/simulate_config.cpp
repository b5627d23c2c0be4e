#include "bindings/simulate_config.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/generated/profiles.hpp"
#include "bindings/netsim_config.hpp"
#include "engine/paths/ev_set.hpp"
#include "netsim/simulate/dctcp_endpoint.hpp"
#include "netsim/simulate/mrc_endpoint.hpp"
#include "netsim/simulate/roce_endpoint.hpp"

namespace nb = nanobind;

namespace openmrc::bindings {

using namespace netsim;

namespace {

// Takes values out of a dictionary and knows which keys nobody asked for.
class Reader {
 public:
  explicit Reader(const nb::dict& from) : from_(from) {}

  template <class T>
  void take(const char* name, T& value) {
    known_.insert(name);
    if (from_.contains(name)) value = nb::cast<T>(from_[name]);
  }
  void skip(const char* name) { known_.insert(name); }
  void finish() const {
    for (const auto [key, value] : from_) {
      const auto name = nb::cast<std::string>(key);
      if (!known_.contains(name)) raise_value_error("unknown setting: " + name);
    }
  }

 private:
  const nb::dict& from_;
  std::set<std::string> known_;
};

PathSignal signal_from(const std::string& name) {
  if (name == "marks") return PathSignal::kMarks;
  if (name == "delay") return PathSignal::kDelay;
  if (name == "discover") return PathSignal::kDiscover;
  raise_value_error("path_signal: marks, delay or discover");
}

EndpointFactory mrc_from(const nb::dict& from) {
  MrcSettings mrc;
  Reader reader(from);
  reader.skip("name");
  reader.skip("cc");
  reader.take("ev_selector", mrc.init.ev_selector);
  reader.take("controller", mrc.init.controller);
  std::string signal = "marks";
  reader.take("path_signal", signal);
  reader.take("evs_per_port", mrc.init.ev_set.active_per_port);
  reader.take("universe_per_port", mrc.universe_per_port);
  reader.take("min_active", mrc.init.ev_set.min_active);
  reader.take("probe_successes", mrc.init.ev_set.probe_successes);
  reader.take("probe_interval_ps", mrc.init.ev_set.probe_interval);
  reader.take("skip_lapse_ps", mrc.init.ev_set.skip_lapse);
  reader.take("half_marked_rule", mrc.init.ev_set.half_marked_rule);
  reader.take("marked_probe_revives_to_good", mrc.init.ev_set.marked_probe_revives_to_good);
  reader.take("mpr_units", mrc.rtr.mpr_units);
  reader.take("sack_bytes", mrc.rtr.sack_bytes);
  reader.take("wimm_max", mrc.rtr.wimm_max_dest);
  reader.take("trim_nack", mrc.rtr.capabilities.trim_nack);
  reader.take("dynamic_mpr", mrc.rtr.capabilities.dynamic_mpr);
  reader.take("nack_out_of_window", mrc.rtr.nack_out_of_window);
  reader.take("timeout_exponent", mrc.rts.timeout_exponent);
  reader.take("linear_retries", mrc.rts.linear_retries);
  reader.take("exponential_retries", mrc.rts.exponential_retries);
  reader.take("reverse_probe_interval_ps", mrc.reverse_probe_interval);
  reader.take("path_events", mrc.events);
  std::vector<std::tuple<std::uint32_t, std::uint16_t, std::uint16_t>> denied;
  reader.take("denied", denied);
  for (const auto& [plane, t0_uplink, t1_uplink] : denied) mrc.denied.push_back({plane, {t0_uplink, t1_uplink}});
  std::vector<std::uint32_t> watched;
  reader.take("watched", watched);
  reader.finish();
  if (from.contains("cc")) read(nb::cast<nb::dict>(from["cc"]), mrc.init.cc);
  if (make_ev_selector(mrc.init.ev_selector, Rng(0)) == nullptr) raise_value_error("unknown EV selector");
  mrc.init.signal = signal_from(signal);
  mrc.rtr.capabilities.plane_sacks = mrc.rtr.capabilities.sack_transit = mrc.init.signal != PathSignal::kMarks;
  if (make_controller(mrc.init.controller, {}) == nullptr) raise_value_error("unknown controller");
  return [mrc, watched](const Surroundings& surroundings, std::uint32_t host) {
    const bool watch =
        mrc.events && (watched.empty() || std::find(watched.begin(), watched.end(), host) != watched.end());
    return make_mrc_endpoint(surroundings, mrc, host, watch);
  };
}

EndpointFactory roce_from(const nb::dict& from) {
  RoceSettings roce;
  Reader reader(from);
  reader.skip("name");
  reader.take("dcqcn", roce.dcqcn);
  reader.take("ack_packets", roce.ack_packets);
  reader.take("timeout_ps", roce.timeout_ps);
  reader.take("timeout_max_ps", roce.timeout_max_ps);
  reader.take("retries", roce.retries);
  reader.take("window_bytes", roce.window_bytes);
  reader.take("failover", roce.failover);
  reader.take("cnp_interval_ps", roce.rate.cnp_interval_ps);
  reader.take("alpha_timer_ps", roce.rate.alpha_timer_ps);
  reader.take("increase_timer_ps", roce.rate.increase_timer_ps);
  reader.take("increase_bytes", roce.rate.increase_bytes);
  reader.take("gain_shift", roce.rate.gain_shift);
  reader.take("recovery_stages", roce.rate.recovery_stages);
  reader.take("clamp_target", roce.rate.clamp_target);
  reader.take("rate_ai_bps", roce.rate.rate_ai_bps);
  reader.take("rate_hai_bps", roce.rate.rate_hai_bps);
  reader.take("rate_min_bps", roce.rate.rate_min_bps);
  reader.finish();
  return [roce](const Surroundings& surroundings, std::uint32_t host) {
    return make_roce_endpoint(surroundings, roce, host);
  };
}

EndpointFactory dctcp_from(const nb::dict& from) {
  DctcpSettings dctcp;
  Reader reader(from);
  reader.skip("name");
  reader.take("gain_shift", dctcp.gain_shift);
  reader.take("initial_window", dctcp.initial_window);
  reader.take("min_window", dctcp.min_window);
  reader.take("window_bytes", dctcp.window_bytes);
  reader.take("reordering_packets", dctcp.reordering_packets);
  reader.take("ack_packets", dctcp.ack_packets);
  reader.take("ack_delay_ps", dctcp.ack_delay_ps);
  reader.take("rto_min_ps", dctcp.rto_min_ps);
  reader.take("rto_max_ps", dctcp.rto_max_ps);
  reader.take("retries", dctcp.retries);
  reader.take("tail_loss_probe", dctcp.tail_loss_probe);
  reader.take("failover", dctcp.failover);
  reader.finish();
  return [dctcp](const Surroundings& surroundings, std::uint32_t host) {
    return make_dctcp_endpoint(surroundings, dctcp, host);
  };
}

std::optional<SharedQueues> queues_from(const nb::object& from) {
  if (from.is_none()) return std::nullopt;
  SharedQueues queues;
  const auto dict = nb::cast<nb::dict>(from);
  Reader reader(dict);
  reader.take("buffer_bytes", queues.buffer_bytes);
  reader.take("alpha_permille", queues.alpha_permille);
  reader.take("pfc", queues.pfc);
  reader.take("pfc_xoff_bytes", queues.pfc_xoff_bytes);
  reader.take("pfc_xon_bytes", queues.pfc_xon_bytes);
  reader.finish();
  return queues;
}

Reconvergence reconvergence_from(const nb::object& from) {
  Reconvergence times;
  if (from.is_none()) return times;
  const auto dict = nb::cast<nb::dict>(from);
  Reader reader(dict);
  reader.take("down_ps", times.down);
  reader.take("blackhole_ps", times.blackhole);
  reader.finish();
  if (times.down < 0 || times.blackhole < 0) raise_value_error("reconvergence: 0 or more");
  return times;
}

}  // namespace

SimulationConfig simulation_config_from(const nb::dict& from) {
  SimulationConfig config;
  config.fabric.shape = shape_from(member<nb::dict>(from, "shape"));
  config.fabric.ports = ports_from(member<nb::list>(from, "ports"));
  config.fabric.unlike = unlike_from(from, config.fabric.shape.planes);
  config.fabric.seed = member<std::uint64_t>(from, "seed");
  if (from.contains("queued")) config.fabric.queued = queues_from(from["queued"]);
  if (from.contains("reconvergence")) config.fabric.reconvergence = reconvergence_from(from["reconvergence"]);
  Surroundings& surroundings = config.surroundings;
  surroundings.shape = config.fabric.shape;
  surroundings.seed = config.fabric.seed;
  surroundings.payload_mtu = member<std::uint32_t>(from, "payload_mtu");
  surroundings.header_bytes = member<std::uint32_t>(from, "header_bytes");
  surroundings.base_rtt = member<TimePs>(from, "base_rtt_ps");
  config.nic_latency = member<TimePs>(from, "nic_latency_ps");
  config.threads = member<std::uint32_t>(from, "threads");
  if (config.threads == 0 || config.threads > 256) raise_value_error("threads: 1 to 256");
  for (std::uint32_t plane = 0; plane < surroundings.shape.planes; ++plane) {
    const auto& ports = config.fabric.ports_of(plane);
    surroundings.port_rate_bps = std::max(surroundings.port_rate_bps, ports[0].rate_bps);
    if (config.nic_latency + std::min(ports[0].delay, ports[1].delay) <= 0) {
      raise_value_error("the way between NIC and T0 needs a delay");
    }
  }
  if (surroundings.payload_mtu < kPayloadMtuMin || surroundings.payload_mtu > kPayloadMtuMax) {
    raise_value_error("payload_mtu: 256 to 8192");
  }
  return config;
}

EndpointFactory transport_from(const nb::dict& from) {
  const auto name = member<std::string>(from, "name");
  if (name == "mrc") return mrc_from(from);
  if (name == "roce") return roce_from(from);
  if (name == "dctcp") return dctcp_from(from);
  raise_value_error("transport: mrc, roce or dctcp");
}

}  // namespace openmrc::bindings
