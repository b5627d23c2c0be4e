// Written by tools/spec.py from spec/fabric-statistics.toml: edit that, then `make spec`.
#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "bindings/record.hpp"
#include "netsim/generated/fabric_statistics.hpp"

namespace openmrc::bindings {

// Every field by its name.
inline nb::dict to_dict(const netsim::EmulatorCounters& of) {
  nb::dict out;
  out["time_ns"] = of.time / kPsPerNs;
  out["received"] = of.received;
  out["delivered"] = of.delivered;
  out["delivered_bytes"] = of.delivered_bytes;
  out["inside"] = of.inside;
  out["unknown_source"] = of.unknown_source;
  out["oversized"] = of.oversized;
  out["payloads_full"] = of.payloads_full;
  out["socket_overflow"] = of.socket_overflow;
  out["send_calls"] = of.send_calls;
  out["send_failed"] = of.send_failed;
  out["bind_failed"] = of.bind_failed;
  out["sockets_open"] = of.sockets_open;
  out["sockets_opened"] = of.sockets_opened;
  out["sockets_closed"] = of.sockets_closed;
  out["wakeups"] = of.wakeups;
  out["late_max_ns"] = of.late_max / kPsPerNs;
  out["cpu_ns"] = of.cpu / kPsPerNs;
  out["active_faults"] = of.active_faults;
  return out;
}

// Every field by its name.
inline nb::dict to_dict(const netsim::LinkStatistics& of) {
  nb::dict out;
  out["plane"] = of.plane;
  out["kind"] = of.kind;
  out["host"] = of.host;
  out["t0"] = of.t0;
  out["t1"] = of.t1;
  out["packets"] = of.packets;
  out["bytes"] = of.bytes;
  out["marks"] = of.marks;
  out["trims"] = of.trims;
  out["corrupted"] = of.corrupted;
  out["duplicated"] = of.duplicated;
  out["reordered"] = of.reordered;
  out["drop_queue"] = of.drop_queue;
  out["drop_control_queue"] = of.drop_control_queue;
  out["drop_down"] = of.drop_down;
  out["drop_blackhole"] = of.drop_blackhole;
  out["drop_loss"] = of.drop_loss;
  out["drop_crowded"] = of.drop_crowded;
  out["queue_peak_bytes"] = of.queue_peak_bytes;
  return out;
}

// The fields in the order of Python's FabricNotice.
inline nb::tuple to_tuple(const netsim::Notice& of) {
  return nb::make_tuple(of.time / 1, static_cast<unsigned>(of.kind), of.fault, of.host, of.plane, of.up);
}

}  // namespace openmrc::bindings
