// Written by tools/spec.py from spec/completions.toml: edit that, then `make spec`.
#pragma once

#include "bindings/nic_objects.hpp"
#include "bindings/record.hpp"

namespace openmrc::bindings {

// Every field by its name.
inline nb::dict to_dict(const EndpointResult& of) {
  nb::dict out;
  out["request_id"] = of.request_id;
  out["port"] = of.port;
  out["peer"] = of.peer;
  out["ev"] = of.ev;
  out["answered"] = of.answered;
  out["marked"] = of.marked;
  out["service_time_removed"] = of.service_time_removed;
  out["rtt_ns"] = of.rtt / kPsPerNs;
  return out;
}

// The fields in the order of Python's WorkCompletion.
inline nb::tuple to_tuple(const Completion& of) {
  return nb::make_tuple(of.wr_id, of.bytes, of.qp, of.immediate, static_cast<unsigned>(of.status),
                        static_cast<unsigned>(of.opcode));
}

// The fields in the order of Python's EvStatus.
inline nb::tuple to_tuple(const EvStatus& of) {
  return nb::make_tuple(of.ev.value, of.ev.port, static_cast<unsigned>(of.state), of.active);
}

}  // namespace openmrc::bindings
