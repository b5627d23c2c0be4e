// Engine and NIC records as plain Python dictionaries and tuples; the Python layer converts them to typed objects.
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

// One EV in the set of a QP.
struct EvStatus {
  Ev ev;
  EvState state{};
  bool active = false;
};

// Counts of datagrams by parse error.
nb::dict parse_errors(const DropStats& stats);

}  // namespace openmrc::bindings
