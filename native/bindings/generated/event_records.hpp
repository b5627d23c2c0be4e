// Written by tools/spec.py from spec/events.toml: edit that, then `make spec`.
#pragma once

#include "bindings/record.hpp"
#include "engine/generated/event_records.hpp"

namespace openmrc::bindings {

// The fields of an event by their names, and its type.
inline nb::dict to_dict(const Event& event, std::int64_t time_ns) {
  nb::dict out;
  out["type"] = static_cast<unsigned>(event.type);
  out["time_ns"] = time_ns;
  switch (event.type) {
    case EventType::kQpState:
      out["qp"] = event.qp;
      out["state"] = event.value;
      out["cause"] = event.detail;
      break;
    case EventType::kEvState:
      out["qp"] = event.qp;
      out["port"] = event.port;
      out["ev"] = event.ev;
      out["state"] = event.value;
      out["cause"] = event.detail;
      break;
    case EventType::kEvReplaced:
      out["qp"] = event.qp;
      out["port"] = event.port;
      out["ev"] = event.ev;
      out["replacement"] = event.value;
      out["cause"] = event.detail;
      break;
    case EventType::kPortState:
      out["port"] = event.port;
      out["up"] = event.value != 0;
      out["learned"] = event.detail != 0;
      out["qp"] = event.qp;
      break;
    case EventType::kPlaneState:
      out["qp"] = event.qp;
      out["port"] = event.port;
      out["answering"] = event.value != 0;
      break;
    case EventType::kRetryTimeout:
      out["qp"] = event.qp;
      out["consecutive"] = event.value;
      break;
    case EventType::kCqOverrun:
      out["qp"] = event.qp;
      break;
    case EventType::kPeerActive:
      out["qp"] = event.qp;
      break;
    case EventType::kSrqLimit:
      out["srq"] = event.value;
      out["posted"] = event.detail;
      break;
    case EventType::kPortRefused:
      out["port"] = event.port;
      out["errno"] = event.value;
      break;
    case EventType::kCount:
      break;
  }
  return out;
}

}  // namespace openmrc::bindings
