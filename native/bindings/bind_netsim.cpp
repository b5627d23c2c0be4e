// The emulated fabric of native/netsim: settings and faults go in, notices and counters come out in batches.
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/netsim_config.hpp"
#include "netsim/emulate/emulator.hpp"

namespace nb = nanobind;

namespace openmrc::bindings {
namespace {

using namespace netsim;

using NoticeRow = std::tuple<TimePs, std::uint8_t, std::uint32_t, std::uint32_t, std::uint32_t, bool>;

// Columns of Emulator.link_counters(), in this order.
constexpr const char* kLinkColumns[] = {"plane",
                                        "kind",
                                        "host",
                                        "t0",
                                        "t1",
                                        "packets",
                                        "bytes",
                                        "marks",
                                        "trims",
                                        "corrupted",
                                        "duplicated",
                                        "reordered",
                                        "drop_queue",
                                        "drop_control_queue",
                                        "drop_down",
                                        "drop_blackhole",
                                        "drop_loss",
                                        "drop_crowded",
                                        "queue_peak_bytes"};
constexpr std::size_t kLinkColumnCount = std::size(kLinkColumns);
constexpr std::uint32_t kPacketsMax = 1U << 15;  // inside one plane

EmulatorConfig config_from(const nb::dict& from) {
  EmulatorSettings settings;
  read(from, settings);
  EmulatorConfig config;
  config.fabric.shape = shape_of(settings.shape);
  config.fabric.packets_max = kPacketsMax;
  config.fabric.ports = ports_of(settings.ports);
  config.fabric.unlike = ports_of(settings.unlike, settings.shape.planes);
  config.fabric.seed = settings.seed;
  config.udp_port = settings.udp_port;
  config.header_bytes = settings.header_bytes;
  config.tick = settings.tick;
  config.local = std::move(settings.local);
  config.advertised = std::move(settings.advertised);
  const std::size_t slots = std::size_t{settings.shape.planes} * settings.shape.hosts;
  if (config.local.size() != slots || config.advertised.size() != slots) {
    raise_value_error("one local and one advertised address per plane and host");
  }
  return config;
}

void construct_emulator(Emulator* self, const nb::dict& from) {
  const EmulatorConfig config = config_from(from);
  try {
    new (self) Emulator(config);
  } catch (const std::system_error& error) {
    // OSError with the errno and the address, as Python's own sockets would raise it.
    PyErr_SetObject(PyExc_OSError, nb::make_tuple(error.code().value(), error.what()).ptr());
    throw nb::python_error();
  }
}

std::uint32_t add_fault(Emulator& emulator, const nb::dict& from) {
  const FaultSpec spec = fault_from(from);
  const ClosShape shape = emulator.inspect([](const Fabric& fabric) { return fabric.shape(); });
  if (!exists(spec.target, shape)) raise_value_error("the fault names a place that the fabric does not have");
  if (spec.duration != kNever && spec.duration > kNever - emulator.now() - spec.start - kPsPerSecond) {
    raise_value_error("times of a fault are finite");
  }
  return emulator.add_fault(spec);
}

std::vector<NoticeRow> wait_notices(Emulator& emulator, int timeout_ms) {
  std::vector<Notice> notices;
  {
    const nb::gil_scoped_release release;
    notices = emulator.wait_notices(timeout_ms);
  }
  std::vector<NoticeRow> rows;
  rows.reserve(notices.size());
  for (const Notice& n : notices) {
    rows.emplace_back(n.time, static_cast<std::uint8_t>(n.kind), n.fault, n.host, n.plane, n.up);
  }
  return rows;
}

nb::dict counters(Emulator& emulator) {
  const EmulatorCounters c = emulator.counters();
  const auto [inside, active] = emulator.inspect(
      [](const Fabric& fabric) { return std::make_pair(fabric.packets_inside(), fabric.active_faults()); });
  nb::dict out;
  out["received"] = c.received;
  out["delivered"] = c.egress.datagrams;
  out["delivered_bytes"] = c.egress.bytes;
  out["inside"] = inside;
  out["unknown_source"] = c.unknown_source;
  out["oversized"] = c.oversized;
  out["payloads_full"] = c.payloads_full;
  out["socket_overflow"] = c.socket_overflow;
  out["send_calls"] = c.egress.calls;
  out["send_failed"] = c.egress.send_failed;
  out["bind_failed"] = c.egress.bind_failed;
  out["sockets_open"] = c.sockets_open;
  out["sockets_opened"] = c.egress.sockets_opened;
  out["sockets_closed"] = c.egress.sockets_closed;
  out["wakeups"] = c.wakeups;
  out["late_max_ns"] = c.late_max / kPsPerNs;
  out["cpu_ns"] = c.cpu / kPsPerNs;
  out["active_faults"] = active;
  return out;
}

void fill_row(std::uint64_t* row, std::uint32_t plane, const LinkEnds& ends, const PlaneModel& of, LinkId link) {
  const LinkCounters& c = of.counters(link);
  const auto place = [](std::uint32_t value) { return value == kAnywhere ? ~std::uint64_t{0} : value; };
  std::size_t column = 0;
  for (const std::uint64_t value :
       {std::uint64_t{plane}, static_cast<std::uint64_t>(ends.kind), place(ends.host), place(ends.t0), place(ends.t1),
        c.packets, c.bytes, c.marks, c.trims, c.corrupted, c.duplicated, c.reordered}) {
    row[column++] = value;
  }
  for (const std::uint64_t drops : c.drops) row[column++] = drops;
  row[column++] = of.queue_peak_bytes(link);
}

static_assert(12 + kDropCauses + 1 == kLinkColumnCount);

using Table = nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<2>>;

Table link_counters(Emulator& emulator) {
  std::unique_ptr<std::uint64_t[]> cells;
  const std::size_t rows = emulator.inspect([&](const Fabric& fabric) {
    const ClosShape& shape = fabric.shape();
    const std::size_t count = std::size_t{shape.planes} * shape.links_per_plane();
    cells = std::make_unique<std::uint64_t[]>(count * kLinkColumnCount);
    std::uint64_t* row = cells.get();
    for (std::uint32_t plane = 0; plane < shape.planes; ++plane) {
      for (LinkId link = 0; link < shape.links_per_plane(); ++link, row += kLinkColumnCount) {
        fill_row(row, plane, ends_of(shape, link), fabric.plane(plane), link);
      }
    }
    return count;
  });
  std::uint64_t* data = cells.release();
  const nb::capsule owner(data, [](void* p) noexcept { delete[] static_cast<std::uint64_t*>(p); });
  return Table(data, {rows, kLinkColumnCount}, owner);
}

std::vector<bool> carriers(Emulator& emulator) {
  return emulator.inspect([](const Fabric& fabric) {
    std::vector<bool> up;
    for (std::uint32_t plane = 0; plane < fabric.shape().planes; ++plane) {
      for (std::uint32_t host = 0; host < fabric.shape().hosts; ++host) up.push_back(fabric.carrier(host, plane));
    }
    return up;
  });
}

}  // namespace

void bind_netsim(nb::module_& m) {
  nb::list columns;
  for (const char* name : kLinkColumns) columns.append(name);
  m.attr("LINK_COLUMNS") = nb::tuple(columns);
  nb::class_<Emulator>(m, "Emulator", "The emulated fabric. Private: use openmrc.emulate.EmulatedFabric.")
      .def("__init__", &construct_emulator, nb::arg("settings"))
      .def("start", &Emulator::start)
      .def("stop", &Emulator::stop, nb::call_guard<nb::gil_scoped_release>())
      .def("now_ps", &Emulator::now)
      .def("add_fault", &add_fault, nb::arg("fault"))
      .def("repair", &Emulator::repair, nb::arg("fault"))
      .def(
          "repair_all", [](Emulator& e, const nb::dict& target) { return e.repair_all(target_from(target)); },
          nb::arg("target"))
      .def(
          "add_repair",
          [](Emulator& e, TimePs when, std::uint32_t fault, const nb::dict& target) {
            e.add_repair(when, fault, target_from(target));
          },
          nb::arg("when_ps"), nb::arg("fault"), nb::arg("target"))
      .def("wait_notices", &wait_notices, nb::arg("timeout_ms"))
      .def("counters", &counters)
      .def("link_counters", &link_counters)
      .def("carriers", &carriers);
}

}  // namespace openmrc::bindings
