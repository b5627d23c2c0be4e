// Queue pairs: life, work requests, the controller's operations, counters.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "bindings/cc_config.hpp"
#include "bindings/nic_objects.hpp"
#include "nic/device.hpp"

namespace openmrc::bindings {
namespace {

using nic::Device;
using Release = nb::call_guard<nb::gil_scoped_release>;

unsigned number(Status status) { return static_cast<unsigned>(status); }

template <typename T>
void take(const nb::dict& from, const char* name, T& value) {
  if (from.contains(name)) value = nb::cast<T>(from[name]);
}

void take_ns(const nb::dict& from, const char* name, TimePs& value) {
  if (from.contains(name)) value = nb::cast<std::int64_t>(from[name]) * kPsPerNs;
}

}  // namespace

CcConfig cc_of(const nb::dict& from) {
  CcConfig cc;
  take(from, "mtu_bytes", cc.mtu_bytes);
  take(from, "link_rate_bps", cc.link_rate_bps);
  take_ns(from, "base_rtt_ns", cc.base_rtt);
  take(from, "trimming", cc.trimming);
  take(from, "max_cwnd_bytes", cc.max_cwnd_bytes);
  take_ns(from, "target_qdelay_ns", cc.target_qdelay);
  take_ns(from, "qa_threshold_ns", cc.qa_threshold);
  take_ns(from, "adjust_period_ns", cc.adjust_period);
  take(from, "adjust_bytes", cc.adjust_bytes);
  take(from, "fi_permille", cc.fi_permille);
  take(from, "eta_permille", cc.eta_permille);
  take(from, "fi_scale_permille", cc.fi_scale_permille);
  take(from, "gamma_permille", cc.gamma_permille);
  take(from, "max_md_jump_permille", cc.max_md_jump_permille);
  take(from, "qa_gate_shift", cc.qa_gate_shift);
  take(from, "disable_qa", cc.disable_qa);
  take(from, "ignore_rcv_penalty", cc.ignore_rcv_penalty);
  take_ns(from, "no_delay_tolerance_ns", cc.no_delay_tolerance);
  take(from, "proportional_cap_permille", cc.proportional_cap_permille);
  take(from, "max_cwnd_packets_min", cc.max_cwnd_packets_min);
  take(from, "incast_degree", cc.incast_degree);
  take(from, "ignore_last_hop_trims", cc.ignore_last_hop_trims);
  return cc;
}

namespace {

EvSetConfig ev_set_of(const nb::dict& from) {
  EvSetConfig ev_set;
  take(from, "active_per_port", ev_set.active_per_port);
  take(from, "min_active", ev_set.min_active);
  take(from, "probe_successes", ev_set.probe_successes);
  take_ns(from, "probe_interval_ns", ev_set.probe_interval);
  take_ns(from, "skip_lapse_ns", ev_set.skip_lapse);
  take(from, "marked_probe_revives_to_good", ev_set.marked_probe_revives_to_good);
  take(from, "half_marked_rule", ev_set.half_marked_rule);
  return ev_set;
}

nb::tuple create_qp(Device& device, std::uint8_t transport, CqId send_cq, CqId recv_cq, std::uint32_t send_wr_max,
                    std::uint32_t recv_wr_max, DomainId domain) {
  const QpInitAttributes attributes{
      static_cast<Transport>(transport), send_cq, recv_cq, send_wr_max, recv_wr_max, domain};
  std::uint32_t qp = 0;
  const Status status = device.command([&](Engine& engine, TimePs) { return engine.create_qp(attributes, qp); });
  return nb::make_tuple(number(status), qp);
}

template <typename Attributes>
unsigned modify(Device& device, std::uint32_t qp, const Attributes& attributes) {
  const nb::gil_scoped_release release;
  return number(device.command([&](Engine& engine, TimePs now) { return engine.modify_qp(now, qp, attributes); }));
}

unsigned to_init(Device& device, std::uint32_t qp, const std::string& selector, const nb::dict& ev_set,
                 const std::vector<std::tuple<std::uint32_t, PortId>>& universe, const std::string& controller,
                 const nb::dict& cc, std::uint8_t path_signal, std::uint64_t plane_buffer_bytes) {
  QpToInit attributes;
  attributes.path_signal = static_cast<PathSignal>(path_signal);
  attributes.plane_buffer_bytes = plane_buffer_bytes;
  attributes.ev_selector = selector;
  attributes.ev_set = ev_set_of(ev_set);
  for (const auto& [value, port] : universe) attributes.ev_universe.push_back({value, port});
  attributes.controller = controller;
  attributes.cc = cc_of(cc);
  return modify(device, qp, attributes);
}

unsigned to_rtr(Device& device, std::uint32_t qp, const nb::dict& from) {
  QpToRtr attributes;
  take(from, "peer", attributes.peer);
  take(from, "destination_qp", attributes.destination_qp);
  take(from, "rq_psn", attributes.rq_psn);
  take(from, "payload_mtu", attributes.payload_mtu);
  take(from, "mpr_units", attributes.mpr_units);
  take(from, "wimm_max_dest", attributes.wimm_max_dest);
  take(from, "trim_nack", attributes.capabilities.trim_nack);
  take(from, "dynamic_mpr", attributes.capabilities.dynamic_mpr);
  take(from, "service_time", attributes.capabilities.service_time);
  take(from, "plane_sacks", attributes.capabilities.plane_sacks);
  take(from, "sack_transit", attributes.capabilities.sack_transit);
  take(from, "sack_bytes", attributes.sack_bytes);
  take(from, "nack_out_of_window", attributes.nack_out_of_window);
  return modify(device, qp, attributes);
}

unsigned to_rts(Device& device, std::uint32_t qp, const nb::dict& from) {
  QpToRts attributes;
  take(from, "sq_psn", attributes.sq_psn);
  take(from, "mpr_units", attributes.mpr_units);
  take(from, "wimm_max", attributes.wimm_max);
  take(from, "timeout_exponent", attributes.timeout_exponent);
  take(from, "linear_retries", attributes.linear_retries);
  take(from, "exponential_retries", attributes.exponential_retries);
  std::uint8_t resolution = 0;
  take(from, "timestamp_resolution", resolution);
  attributes.timestamp_resolution = static_cast<wire::TimestampResolution>(resolution);
  bool trimmable = true;
  take(from, "trimmable", trimmable);
  attributes.data_class = trimmable ? TrafficClass::kTrimmable : TrafficClass::kNoTrim;
  take(from, "rc_window_packets", attributes.rc_window_packets);
  return modify(device, qp, attributes);
}

unsigned post_send(Device& device, std::uint32_t qp, std::uint64_t wr_id, std::uint8_t opcode, std::uint32_t lkey,
                   std::uint64_t local_address, std::uint64_t length_bytes, std::uint64_t remote_address,
                   std::uint32_t rkey, std::uint32_t immediate, bool signaled) {
  SendWr wr;
  wr.wr_id = wr_id;
  wr.opcode = static_cast<WrOpcode>(opcode);
  wr.lkey = lkey;
  wr.local_address = local_address;
  wr.length_bytes = length_bytes;
  wr.remote_address = remote_address;
  wr.rkey = rkey;
  wr.immediate = immediate;
  wr.signaled = signaled;
  return number(device.post_send(qp, wr));
}

nb::object statistics(Device& device, std::uint32_t qp) {
  QpStats stats;
  CcStats cc;
  EvSetStats ev_stats;
  bool found = false, has_cc = false, has_evs = false;
  std::uint32_t outstanding = 0;
  device.look([&](const Engine& engine) {
    found = engine.qp_stats(qp, stats);
    has_cc = engine.cc_stats(qp, cc);
    if (const EvSet* set = engine.ev_set(qp)) {
      has_evs = true;
      ev_stats = set->stats();
    }
    outstanding = found ? engine.sends_outstanding(qp) : 0;
    return 0;
  });
  if (!found) return nb::none();
  nb::dict out = to_dict(stats);
  out["sends_outstanding"] = outstanding;
  out["cc"] = has_cc ? nb::object(to_dict(cc)) : nb::none();
  out["ev"] = has_evs ? nb::object(to_dict(ev_stats)) : nb::none();
  return out;
}

// One dictionary a plane; empty: planes are not controlled one by one.
nb::list plane_statistics(Device& device, std::uint32_t qp) {
  std::vector<PlaneStats> planes;
  device.look([&](const Engine& engine) {
    PlaneStats stats;
    for (PortId plane = 0; engine.plane_stats(qp, plane, stats); ++plane) planes.push_back(stats);
    return 0;
  });
  nb::list out;
  for (const PlaneStats& stats : planes) out.append(to_dict(stats));
  return out;
}

// (EV value, port, state, active) for the whole universe of the QP.
nb::list ev_states(Device& device, std::uint32_t qp) {
  struct Row {
    Ev ev;
    EvState state;
    bool active;
  };
  std::vector<Row> rows;
  device.look([&](const Engine& engine) {
    if (const EvSet* set = engine.ev_set(qp)) {
      for (std::uint32_t i = 0; i < set->size(); ++i) {
        const auto index = static_cast<EvIndex>(i);
        rows.push_back({set->ev(index), set->state(index), set->is_active(index)});
      }
    }
    return 0;
  });
  nb::list out;
  for (const Row& row : rows) {
    out.append(nb::make_tuple(row.ev.value, row.ev.port, static_cast<unsigned>(row.state), row.active));
  }
  return out;
}

template <typename Command>
auto qp_command(Command command) {
  return [command](Device& device, std::uint32_t qp) {
    return number(device.command([&](Engine& engine, TimePs now) { return command(engine, now, qp); }));
  };
}

void bind_control(nb::class_<Device>& device) {
  device
      .def(
          "deny_ev",
          [](Device& self, std::uint32_t qp, std::uint32_t ev) {
            return number(self.command([&](Engine& engine, TimePs now) { return engine.deny_ev(now, qp, ev); }));
          },
          Release())
      .def(
          "enable_ev",
          [](Device& self, std::uint32_t qp, std::uint32_t ev) {
            return number(self.command([&](Engine& engine, TimePs now) { return engine.enable_ev(now, qp, ev); }));
          },
          Release())
      .def(
          "set_receive_penalty",
          [](Device& self, std::uint32_t qp, std::uint8_t penalty, bool restore) {
            return number(
                self.command([&](Engine& engine, TimePs) { return engine.set_receive_penalty(qp, penalty, restore); }));
          },
          Release())
      .def(
          "set_receive_window",
          [](Device& self, std::uint32_t qp, std::uint8_t mpr_units) {
            return number(
                self.command([&](Engine& engine, TimePs) { return engine.set_receive_window(qp, mpr_units); }));
          },
          Release())
      .def("qp_plane_statistics", &plane_statistics)
      .def("qp_statistics", &statistics)
      .def("ev_states", &ev_states);
}

}  // namespace

void bind_qp(nb::module_& m) {
  auto device = nb::borrow<nb::class_<Device>>(m.attr("Device"));
  device.def("create_qp", &create_qp)
      .def("qp_to_init", &to_init)
      .def("qp_to_rtr", &to_rtr)
      .def("qp_to_rts", &to_rts)
      .def("qp_to_error", qp_command([](Engine& e, TimePs now, std::uint32_t qp) { return e.move_to_error(now, qp); }),
           Release())
      .def("qp_to_reset", qp_command([](Engine& e, TimePs now, std::uint32_t qp) { return e.reset_qp(now, qp); }),
           Release())
      .def("destroy_qp", qp_command([](Engine& e, TimePs now, std::uint32_t qp) { return e.destroy_qp(now, qp); }),
           Release())
      .def("post_send", &post_send, Release())
      .def(
          "post_recv",
          [](Device& self, std::uint32_t qp, std::uint64_t wr_id) {
            return number(self.command([&](Engine& engine, TimePs) { return engine.post_recv(qp, wr_id); }));
          },
          Release())
      .def("ask_peer", qp_command([](Engine& e, TimePs, std::uint32_t qp) { return e.ask_peer(qp); }), Release())
      .def(
          "qp_liveness",  // ns since the peer was heard, and since the latest question was asked that got an answer
          [](Device& self, std::uint32_t qp) {
            return self.command([&](Engine& engine, TimePs now) {
              return std::pair((now - engine.qp_heard(qp)) / kPsPerNs, (now - engine.qp_answered(qp)) / kPsPerNs);
            });
          },
          Release())
      .def(
          "qp_state",
          [](Device& self, std::uint32_t qp) {
            return static_cast<unsigned>(self.look([&](const Engine& engine) { return engine.qp_state(qp); }));
          },
          Release())
      .def(
          "qp_error",
          [](Device& self, std::uint32_t qp) {
            return static_cast<unsigned>(self.look([&](const Engine& engine) { return engine.qp_error(qp); }));
          },
          Release());
  bind_control(device);
  m.def("ev_selector_names", [] {
    std::vector<std::string> names;
    for (const std::string_view name : ev_selector_names()) names.emplace_back(name);
    return names;
  });
  m.def("controller_names", [] {
    std::vector<std::string> names;
    for (const std::string_view name : controller_names()) names.emplace_back(name);
    return names;
  });
}

}  // namespace openmrc::bindings
