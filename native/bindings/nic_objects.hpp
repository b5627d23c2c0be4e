// Engine and NIC records as plain Python dictionaries and tuples; the Python layer gives them their types.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "engine/engine.hpp"
#include "nic/device.hpp"
#include "nic/socket_address.hpp"

namespace openmrc::bindings {

namespace nb = nanobind;

inline Address address_of(const std::string& text) {
  Address address;
  if (!nic::parse_address(text, address)) throw nb::value_error(("not a numeric IP address: " + text).c_str());
  return address;
}

inline void take_address(PyObject* value, Address& to) {
  if (value != nullptr && value != Py_None) to = address_of(nb::cast<std::string>(nb::handle(value)));
}

inline nb::tuple to_tuple(const Completion& done) {
  return nb::make_tuple(done.wr_id, done.bytes, done.qp, done.immediate, static_cast<unsigned>(done.status),
                        static_cast<unsigned>(done.opcode));
}

inline nb::tuple to_tuple(const nic::TimedEvent& timed) {
  const Event& event = timed.event;
  return nb::make_tuple(timed.time_ns, static_cast<unsigned>(event.type), event.port, event.qp, event.ev, event.value,
                        event.detail);
}

nb::dict to_dict(const QpStats& stats);
nb::dict to_dict(const PlaneStats& stats);
nb::dict to_dict(const CcStats& stats);
nb::dict to_dict(const PortStats& stats);
nb::dict to_dict(const QpTotals& stats);
nb::dict to_dict(const DropStats& stats);
nb::dict to_dict(const EvSetStats& stats);
nb::dict to_dict(const nic::SocketStats& stats);
nb::dict to_dict(const nic::WaitStats& stats);

}  // namespace openmrc::bindings
