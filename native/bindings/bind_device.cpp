// The device: ports, completion queues, memory, events, counters.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "bindings/generated/completions.hpp"
#include "bindings/generated/event_records.hpp"
#include "bindings/generated/nic_statistics.hpp"
#include "bindings/generated/path_rules.hpp"
#include "bindings/generated/settings.hpp"
#include "bindings/generated/statistics.hpp"
#include "bindings/nic_objects.hpp"
#include "nic/device.hpp"

namespace openmrc::bindings {
namespace {

using nic::Device;
constexpr std::size_t kBatchMax = 1024;
using Release = nb::call_guard<nb::gil_scoped_release>;

// Holds a writable contiguous buffer of any Python object, so that it can be neither freed nor resized.
class Buffer {
 public:
  explicit Buffer(nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE | PyBUF_WRITABLE) != 0) throw nb::python_error();
  }
  ~Buffer() { release(); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void release() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
  }
  std::uint8_t* base() const { return static_cast<std::uint8_t*>(view_.buf); }
  std::uint64_t length_bytes() const { return static_cast<std::uint64_t>(view_.len); }

 private:
  Py_buffer view_{};
};

nic::PathRules path_rules_of(const std::vector<nb::dict>& from) {
  std::vector<nic::PathRule> rules;
  for (const nb::dict& rule : from) read(rule, rules.emplace_back());
  return nic::PathRules(rules);
}

std::optional<std::string> destination(const nic::PathRules& rules, const std::string& peer, std::uint16_t selector) {
  Address found;
  if (!rules.destination(address_of(peer), selector, found)) return std::nullopt;
  return nic::format_address(found);
}

// EV format SRV6: selectors of each port, and the path rules.
nic::Settings settings_of(const std::vector<nb::dict>& ports, const nb::dict& from,
                          const std::vector<std::vector<std::uint16_t>>& selectors,
                          const std::optional<nic::PathRules>& paths) {
  nic::Settings settings;
  read(from, settings);
  for (std::size_t i = 0; i < ports.size(); ++i) {
    nic::PortSettings& port = settings.ports.emplace_back();
    read(ports[i], port);
    if (i < selectors.size()) port.selectors = selectors[i];
  }
  if (paths) settings.paths = *paths;
  return settings;
}

nb::list to_list(const std::vector<Completion>& done, std::size_t count) {
  nb::list out;
  for (std::size_t i = 0; i < count; ++i) out.append(to_tuple(done[i]));
  return out;
}

nb::list poll_cq(Device& device, CqId cq, std::size_t count_max) {
  std::vector<Completion> done(std::min(count_max, kBatchMax));
  std::size_t count = 0;
  {
    const nb::gil_scoped_release release;
    count = device.poll_cq(cq, done);
  }
  return to_list(done, count);
}

nb::list wait_cq(Device& device, CqId cq, std::size_t count_max, std::int64_t timeout_ns) {
  std::vector<Completion> done(std::min(count_max, kBatchMax));
  std::size_t count = 0;
  {
    const nb::gil_scoped_release release;
    count = device.wait_cq(cq, done, timeout_ns);
  }
  return to_list(done, count);
}

nb::list poll_events(Device& device, std::size_t count_max) {
  std::vector<nic::TimedEvent> events(std::min(count_max, kBatchMax));
  std::size_t count = 0;
  {
    const nb::gil_scoped_release release;
    count = device.poll_events(events);
  }
  nb::list out;
  for (std::size_t i = 0; i < count; ++i) out.append(to_dict(events[i].event, events[i].time_ns));
  return out;
}

nb::dict statistics(Device& device) {
  const nic::DeviceStats own = device.stats();
  DropStats drops;
  PortMask ports_up = 0;
  QpTotals qps;
  std::vector<PortStats> ports;
  device.look([&](const Engine& engine) {
    drops = engine.drops();
    qps = engine.qp_totals();
    ports_up = engine.ports_up();
    for (PortId id = 0; id < engine.config().ports.size(); ++id) ports.push_back(engine.port_stats(id));
    return 0;
  });
  const std::vector<nic::SocketStats> sockets = device.socket_stats();
  nb::dict out = to_dict(own);
  out["waits"] = to_dict(device.wait_stats());
  out["qps"] = to_dict(qps);
  out["drops"] = to_dict(drops);
  out["drops"]["parse_errors"] = parse_errors(drops);
  nb::list per_port;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    nb::dict port = to_dict(ports[i]);
    port["up"] = (ports_up >> i & 1U) != 0;
    port["socket"] = to_dict(sockets[i]);
    per_port.append(port);
  }
  out["ports"] = per_port;
  return out;
}

nb::list endpoint_results(Device& device) {
  nb::list out;
  EndpointResult result;
  while (device.poll_endpoint_result(result)) out.append(to_dict(result));
  return out;
}

std::vector<std::tuple<std::uint32_t, unsigned>> evs(Device& device) {
  std::vector<std::tuple<std::uint32_t, unsigned>> out;
  for (const Ev& ev : device.evs()) out.emplace_back(ev.value, ev.port);
  return out;
}

void translate(const std::exception_ptr& pointer, void* /*payload*/) {
  try {
    std::rethrow_exception(pointer);
  } catch (const nic::NicError& error) {
    const nb::object type = nb::module_::import_("openmrc.errors").attr("DeviceError");
    const nb::object value = type(error.code(), error.what());
    PyErr_SetObject(type.ptr(), value.ptr());
  } catch (const nic::ForkedError& error) {
    const nb::object type = nb::module_::import_("openmrc.errors").attr("ForkedError");
    PyErr_SetString(type.ptr(), error.what());
  }
}

void bind_objects(nb::class_<Device>& device) {
  device
      .def("create_cq",
           [](Device& self, std::uint32_t capacity) {
             CqId cq = 0;
             const Status status = self.create_cq(capacity, cq);
             return nb::make_tuple(static_cast<unsigned>(status), cq);
           })
      .def("destroy_cq", [](Device& self, CqId cq) { return static_cast<unsigned>(self.destroy_cq(cq)); })
      .def("poll_cq", &poll_cq)
      .def("wait_cq", &wait_cq)
      .def("cq_fd", &Device::cq_fd, Release())
      .def("arm_cq", &Device::arm_cq, Release())
      .def("register_memory",
           [](Device& self, const Buffer& buffer, std::uint8_t access, DomainId domain) {
             std::uint32_t key = 0;
             const Status status = self.register_memory(buffer.base(), buffer.length_bytes(), access, key, domain);
             return nb::make_tuple(static_cast<unsigned>(status), key);
           })
      .def(
          "deregister_memory",
          [](Device& self, std::uint32_t key) { return static_cast<unsigned>(self.deregister_memory(key)); }, Release())
      .def(
          "add_peer",
          [](Device& self, const std::vector<std::string>& addresses, std::uint16_t udp_port, PortMask ports_up) {
            PeerConfig peer;
            for (const std::string& address : addresses) peer.ports.push_back(address_of(address));
            peer.udp_port = udp_port;
            peer.ports_up = ports_up;
            PeerId id = 0;
            const Status status = self.command([&](Engine& engine, TimePs) { return engine.add_peer(peer, id); });
            return std::make_tuple(static_cast<unsigned>(status), id);
          },
          Release())
      .def(
          "remove_peer",
          [](Device& self, PeerId peer) {
            return static_cast<unsigned>(
                self.command([&](Engine& engine, TimePs) { return engine.remove_peer(peer); }));
          },
          Release())
      .def(
          "peer_count",
          [](Device& self) { return self.look([](const Engine& engine) { return engine.peer_count(); }); }, Release())
      .def(
          "peer_ports_up",
          [](Device& self, PeerId peer) {
            return self.look([&](const Engine& engine) { return engine.peer_ports_up(peer); });
          },
          Release())
      .def(
          "send_ev_probe",
          [](Device& self, PeerId peer, PortId port, std::uint32_t ev, std::uint16_t request_id,
             std::int64_t timeout_ns, std::uint32_t padding_bytes) {
            return static_cast<unsigned>(self.command([&](Engine& engine, TimePs now) {
              return engine.send_ev_probe(now, peer, port, ev, request_id, timeout_ns * kPsPerNs, padding_bytes);
            }));
          },
          Release())
      .def("endpoint_results", &endpoint_results)
      .def(
          "path_mtu",
          [](Device& self, PortId port, const std::string& peer, std::uint16_t udp_port) {
            return self.path_mtu(port, address_of(peer), udp_port);
          },
          Release());
}

}  // namespace

void bind_device(nb::module_& m) {
  nb::register_exception_translator(translate);
  nb::class_<Buffer>(m, "Buffer")
      .def(nb::init<nb::handle>())
      .def("release", &Buffer::release)
      .def_prop_ro("address", [](const Buffer& self) { return reinterpret_cast<std::uintptr_t>(self.base()); })
      .def_prop_ro("length_bytes", &Buffer::length_bytes);

  nb::class_<nic::PathRules>(m, "PathRules")
      .def("__init__", [](nic::PathRules* self,
                          const std::vector<nb::dict>& rules) { new (self) nic::PathRules(path_rules_of(rules)); })
      .def("destination", &destination);

  auto device = nb::class_<Device>(m, "Device");
  device
      .def(
          "__init__",
          [](Device* self, const std::vector<nb::dict>& ports, const nb::dict& settings,
             const std::vector<std::vector<std::uint16_t>>& selectors, const std::optional<nic::PathRules>& paths) {
            new (self) Device(settings_of(ports, settings, selectors, paths));
          },
          nb::arg("ports"), nb::arg("settings"), nb::arg("selectors"), nb::arg("paths").none())
      .def("close", &Device::close, Release())
      .def_prop_ro("closed", &Device::closed)
      .def(
          "progress", [](Device& self) { return self.progress(); }, Release())
      .def(
          "set_port_state", [](Device& self, PortId port, bool up) { self.set_port_state(port, up); }, Release())
      .def(
          "ports_up", [](Device& self) { return self.look([](const Engine& engine) { return engine.ports_up(); }); },
          Release())
      .def("poll_events", &poll_events)
      .def("event_fd", &Device::event_fd)
      .def("arm_events", &Device::arm_events, Release())
      .def("evs", &evs)
      .def("statistics", &statistics);
  bind_objects(device);
}

}  // namespace openmrc::bindings
