#include "bindings/netsim_config.hpp"

#include <nanobind/stl/string.h>

#include "engine/base/limits.hpp"

namespace nb = nanobind;

namespace openmrc::bindings {

using namespace netsim;

void raise_value_error(const std::string& what) { throw nb::value_error(what.c_str()); }

namespace {

template <class T>
T member_or(const nb::dict& from, const char* name, T otherwise) {
  return from.contains(name) ? nb::cast<T>(from[name]) : otherwise;
}

PortConfig port_from(const nb::dict& from) {
  PortConfig port;
  port.rate_bps = member<std::uint64_t>(from, "rate_bps");
  port.delay = member<TimePs>(from, "delay_ps");
  port.queue_bytes = member<std::uint32_t>(from, "queue_bytes");
  port.control_queue_bytes = member<std::uint32_t>(from, "control_queue_bytes");
  port.ecn = member<bool>(from, "ecn");
  port.ecn_min_bytes = member<std::uint32_t>(from, "ecn_min_bytes");
  port.ecn_max_bytes = member<std::uint32_t>(from, "ecn_max_bytes");
  port.trim = member<bool>(from, "trim");
  port.trim_threshold_bytes = member<std::uint32_t>(from, "trim_threshold_bytes");
  port.trim_bytes = member<std::uint32_t>(from, "trim_bytes");
  port.last_hop = member<bool>(from, "last_hop");
  port.priority = member_or<bool>(from, "priority", true);
  port.ecn_max_permille = member_or<std::uint32_t>(from, "ecn_max_permille", 1000);
  if (port.rate_bps == 0 || port.delay < 0 || port.ecn_min_bytes > port.ecn_max_bytes ||
      (port.trim && !port.priority)) {
    raise_value_error("port settings contradict each other");
  }
  return port;
}

}  // namespace

ClosShape shape_from(const nb::dict& from) {
  ClosShape shape;
  shape.planes = member<std::uint32_t>(from, "planes");
  shape.hosts = member<std::uint32_t>(from, "hosts");
  shape.hosts_per_t0 = member<std::uint32_t>(from, "hosts_per_t0");
  shape.t1s = member<std::uint32_t>(from, "t1s");
  shape.t0s_per_pod = member_or<std::uint32_t>(from, "t0s_per_pod", 0);
  shape.t1_uplinks = member_or<std::uint32_t>(from, "t1_uplinks", 0);
  const auto routing = member<std::string>(from, "routing");
  if (routing == "hash") {
    shape.routing = Routing::kHash;
  } else if (routing == "adaptive") {
    shape.routing = Routing::kAdaptive;
  } else if (routing != "modulo") {
    raise_value_error("routing is modulo, hash or adaptive");
  }
  if (shape.planes == 0 || shape.planes > kPortCountMax || shape.hosts == 0 || shape.hosts_per_t0 == 0 ||
      shape.t1s == 0 || shape.t1s > UINT16_MAX || shape.t1_uplinks > UINT16_MAX ||
      (shape.t0s_per_pod == 0) != (shape.t1_uplinks == 0)) {
    raise_value_error("a fabric needs planes, hosts, T0s and T1s, and a third tier needs pods");
  }
  return shape;
}

std::array<PortConfig, kLinkKinds> ports_from(const nb::list& from) {
  constexpr std::size_t kTwoTiers = 4;
  if (from.size() != kLinkKinds && from.size() != kTwoTiers) raise_value_error("settings for each kind of port");
  std::array<PortConfig, kLinkKinds> ports;
  for (std::size_t kind = 0; kind < from.size(); ++kind) ports[kind] = port_from(nb::cast<nb::dict>(from[kind]));
  return ports;
}

std::vector<std::array<PortConfig, kLinkKinds>> unlike_from(const nb::dict& from, std::uint32_t planes) {
  std::vector<std::array<PortConfig, kLinkKinds>> unlike;
  if (!from.contains("unlike")) return unlike;
  for (const nb::handle plane : member<nb::list>(from, "unlike")) {
    unlike.push_back(ports_from(nb::cast<nb::list>(plane)));
  }
  if (!unlike.empty() && unlike.size() != planes) raise_value_error("unlike: ports of every plane");
  return unlike;
}

FaultTarget target_from(const nb::tuple& from) {
  if (from.size() != 5 && from.size() != 6) raise_value_error("a target is (plane, host, t0, t1, direction[, t2])");
  const auto place = [&](std::size_t i) { return from[i].is_none() ? kAnywhere : nb::cast<std::uint32_t>(from[i]); };
  FaultTarget target;
  target.plane = place(0);
  target.host = place(1);
  target.t0 = place(2);
  target.t1 = place(3);
  if (from.size() == 6) target.t2 = place(5);
  const auto direction = nb::cast<std::uint8_t>(from[4]);
  if (direction > 2) raise_value_error("direction is 0 (both), 1 (tx) or 2 (rx)");
  target.direction = static_cast<FaultDirection>(direction);
  return target;
}

Effects effects_from(const nb::dict& from) {
  Effects effects;
  effects.down = member<bool>(from, "down");
  effects.blackhole = member<bool>(from, "blackhole");
  effects.loss_ppb = member<std::uint32_t>(from, "loss_ppb");
  effects.burst_loss_ppb = member<std::uint32_t>(from, "burst_loss_ppb");
  effects.burst_packets = member<std::uint32_t>(from, "burst_packets");
  effects.rate_ppm = member<std::uint32_t>(from, "rate_ppm");
  effects.delay = member<TimePs>(from, "delay_ps");
  effects.jitter = member<TimePs>(from, "jitter_ps");
  effects.corrupt_ppb = member<std::uint32_t>(from, "corrupt_ppb");
  effects.duplicate_ppb = member<std::uint32_t>(from, "duplicate_ppb");
  effects.reorder_ppb = member<std::uint32_t>(from, "reorder_ppb");
  effects.reorder_delay = member<TimePs>(from, "reorder_delay_ps");
  if (from.contains("ev") && !from["ev"].is_none()) {  // the loss concerns one EV only
    effects.ev_losses.push_back({member<std::uint32_t>(from, "ev"), effects.loss_ppb});
    effects.loss_ppb = 0;
  }
  for (const std::uint32_t share :
       {effects.loss_ppb, effects.burst_loss_ppb, effects.corrupt_ppb, effects.duplicate_ppb, effects.reorder_ppb}) {
    if (share > kPartsPerBillion) raise_value_error("a share is at most 1,000,000,000 parts per billion");
  }
  if (effects.rate_ppm == 0 || effects.rate_ppm > kFullRatePpm || effects.burst_packets == 0 || effects.delay < 0 ||
      effects.jitter < 0 || effects.reorder_delay < 0) {
    raise_value_error("effects out of range");
  }
  return effects;
}

}  // namespace openmrc::bindings
