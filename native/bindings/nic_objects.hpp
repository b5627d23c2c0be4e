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

// Datagrams by mistake.
nb::dict parse_errors(const DropStats& stats);

}  // namespace openmrc::bindings
