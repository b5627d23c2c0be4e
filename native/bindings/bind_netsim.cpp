// The emulated fabric of native/netsim: settings and faults go in, notices and counters come out by name.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "bindings/bindings.hpp"
#include "bindings/generated/fabric_statistics.hpp"
#include "bindings/netsim_config.hpp"
#include "netsim/emulate/emulator.hpp"

namespace nb = nanobind;

namespace openmrc::bindings {
namespace {

using namespace netsim;

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

nb::list wait_notices(Emulator& emulator, int timeout_ms) {
  std::vector<Notice> notices;
  {
    const nb::gil_scoped_release release;
    notices = emulator.wait_notices(timeout_ms);
  }
  nb::list out;
  for (const Notice& notice : notices) out.append(to_tuple(notice));
  return out;
}

nb::dict statistics(Emulator& emulator) {
  const EmulatorStatistics all = emulator.statistics();
  nb::list links;
  for (const LinkStatistics& link : all.links) links.append(to_dict(link));
  nb::dict out = to_dict(all.fabric);
  out["links"] = links;
  return out;
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
      .def("statistics", &statistics)
      .def("carriers", &carriers);
}

}  // namespace openmrc::bindings
