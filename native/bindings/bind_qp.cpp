// Queue pairs: creation and states, work requests, the controller's operations, counters.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "bindings/generated/completions.hpp"
#include "bindings/generated/profiles.hpp"
#include "bindings/generated/qp_attributes.hpp"
#include "bindings/generated/statistics.hpp"
#include "bindings/nic_objects.hpp"
#include "nic/device.hpp"

namespace openmrc::bindings {
namespace {

using nic::Device;
using Release = nb::call_guard<nb::gil_scoped_release>;

unsigned number(Status status) { return static_cast<unsigned>(status); }

nb::tuple create_qp(Device& device, const nb::dict& from, CqId send_cq, CqId recv_cq, DomainId domain, SrqId srq) {
  QpInitAttributes attributes;
  read(from, attributes);
  attributes.send_cq = send_cq;
  attributes.recv_cq = recv_cq;
  attributes.domain = domain;
  attributes.srq = srq;
  std::uint32_t qp = 0;
  const Status status = device.command([&](Engine& engine, TimePs) { return engine.create_qp(attributes, qp); });
  return nb::make_tuple(number(status), qp);
}

template <typename Attributes>
unsigned modify(Device& device, std::uint32_t qp, const Attributes& attributes) {
  const nb::gil_scoped_release release;
  return number(device.command([&](Engine& engine, TimePs now) { return engine.modify_qp(now, qp, attributes); }));
}

// The profiles: rules of the EV set, EVs by value and port, name and parameters of the controller.
unsigned to_init(Device& device, std::uint32_t qp, const nb::dict& from, const nb::dict& ev_set,
                 const std::vector<std::tuple<std::uint32_t, PortId>>& universe, const std::string& controller,
                 const nb::dict& cc) {
  QpToInit attributes;
  read(from, attributes);
  read(ev_set, attributes.ev_set);
  for (const auto& [value, port] : universe) attributes.ev_universe.push_back({value, port});
  attributes.controller = controller;
  read(cc, attributes.cc);
  return modify(device, qp, attributes);
}

unsigned to_rtr(Device& device, std::uint32_t qp, const nb::dict& from, PeerId peer) {
  QpToRtr attributes;
  read(from, attributes);
  attributes.peer = peer;
  return modify(device, qp, attributes);
}

unsigned to_rts(Device& device, std::uint32_t qp, const nb::dict& from) {
  QpToRts attributes;
  read(from, attributes);
  return modify(device, qp, attributes);
}

// Address, length in bytes and key of each part.
using Parts = std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>>;

std::vector<Sge> sges_of(const Parts& parts) {
  std::vector<Sge> sges;
  for (const auto& [address, length_bytes, lkey] : parts) sges.push_back({address, length_bytes, lkey});
  return sges;
}

unsigned post_send(Device& device, std::uint32_t qp, std::uint64_t wr_id, std::uint8_t opcode, const Parts& parts,
                   std::uint64_t remote_address, std::uint32_t rkey, std::uint32_t immediate,
                   std::tuple<std::uint64_t, std::uint64_t> operands, bool signaled, bool fence) {
  const std::vector<Sge> sges = sges_of(parts);
  SendWr wr;
  wr.wr_id = wr_id;
  wr.opcode = static_cast<WrOpcode>(opcode);
  wr.sges = sges;
  wr.remote_address = remote_address;
  wr.rkey = rkey;
  wr.immediate = immediate;
  std::tie(wr.compare, wr.swap_add) = operands;
  wr.signaled = signaled;
  wr.fence = fence;
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

// One dictionary per plane; empty if planes are not controlled one by one.
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
  std::vector<EvStatus> evs;
  device.look([&](const Engine& engine) {
    if (const EvSet* set = engine.ev_set(qp)) {
      for (std::uint32_t i = 0; i < set->size(); ++i) {
        const auto index = static_cast<EvIndex>(i);
        evs.push_back({set->ev(index), set->state(index), set->is_active(index)});
      }
    }
    return 0;
  });
  nb::list out;
  for (const EvStatus& ev : evs) out.append(to_tuple(ev));
  return out;
}

nb::tuple create_srq(Device& device, std::uint32_t wr_max, DomainId domain) {
  SrqId srq = 0;
  const SrqAttributes attributes{.wr_max = wr_max, .domain = domain};
  const Status status = device.command([&](Engine& engine, TimePs) { return engine.create_srq(attributes, srq); });
  return nb::make_tuple(number(status), srq);
}

// (posted, limit); None: no such queue.
nb::object srq_statistics(Device& device, SrqId srq) {
  SrqStats stats;
  const bool found = device.look([&](const Engine& engine) { return engine.srq_stats(srq, stats); });
  return found ? nb::object(nb::make_tuple(stats.posted, stats.limit)) : nb::none();
}

void bind_srq(nb::class_<Device>& device) {
  device.def("create_srq", &create_srq)
      .def(
          "destroy_srq",
          [](Device& self, SrqId srq) {
            return number(self.command([&](Engine& engine, TimePs) { return engine.destroy_srq(srq); }));
          },
          Release())
      .def(
          "set_srq_limit",
          [](Device& self, SrqId srq, std::uint32_t limit) {
            return number(self.command([&](Engine& engine, TimePs) { return engine.set_srq_limit(srq, limit); }));
          },
          Release())
      .def(
          "post_srq_recv",
          [](Device& self, SrqId srq, std::uint64_t wr_id, const Parts& parts) {
            return number(self.post_srq_recv(srq, wr_id, sges_of(parts)));
          },
          Release())
      .def("srq_statistics", &srq_statistics);
}

template <typename Command>
auto qp_command(Command command) {
  return [command](Device& device, std::uint32_t qp) {
    return number(device.command([&](Engine& engine, TimePs now) { return command(engine, now, qp); }));
  };
}

template <typename Command>
auto qp_end(Command command) {
  return [command](Device& device, std::uint32_t qp) {
    return number(device.end_qps({&qp, 1}, [&](Engine& engine, TimePs now) { return command(engine, now, qp); }));
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
      .def("qp_to_reset", qp_end([](Engine& e, TimePs now, std::uint32_t qp) { return e.reset_qp(now, qp); }),
           Release())
      .def("destroy_qp", qp_end([](Engine& e, TimePs now, std::uint32_t qp) { return e.destroy_qp(now, qp); }),
           Release())
      .def("post_send", &post_send, Release())
      .def(
          "post_recv",
          [](Device& self, std::uint32_t qp, std::uint64_t wr_id, const Parts& parts) {
            return number(self.post_recv(qp, wr_id, sges_of(parts)));
          },
          Release())
      .def("ask_peer", qp_command([](Engine& e, TimePs, std::uint32_t qp) { return e.ask_peer(qp); }), Release())
      .def(
          "qp_liveness",  // ns since the peer's latest packet, and since the latest answered question was asked
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
  bind_srq(device);
}

}  // namespace openmrc::bindings
