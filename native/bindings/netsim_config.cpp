#include "bindings/netsim_config.hpp"

#include <utility>

namespace nb = nanobind;

namespace openmrc::bindings {

using namespace netsim;

void raise_value_error(const std::string& what) { throw nb::value_error(what.c_str()); }

namespace {

const netsim::PortConfig& checked(const netsim::PortConfig& port) {
  if (port.ecn_min_bytes > port.ecn_max_bytes || (port.trim && !port.priority)) {
    raise_value_error(
        "port settings contradict each other: ecn_min_bytes above ecn_max_bytes, or trim without priority");
  }
  return port;
}

Effects effects_from(const nb::dict& from) {
  Effects effects;
  read(from, effects);
  if (from.contains("ev") && !from["ev"].is_none()) {  // the loss concerns one EV only
    effects.ev_losses.push_back({static_cast<std::uint32_t>(unsigned_of(from["ev"])), effects.loss_ppb});
    effects.loss_ppb = 0;
  }
  return effects;
}

}  // namespace

ClosShape shape_of(const FabricShape& numbers) {
  if ((numbers.t0s_per_pod == 0) != (numbers.t1_uplinks == 0)) {
    raise_value_error("a third tier needs pods: t0s_per_pod and t1_uplinks are both 0 or both above 0");
  }
  return ClosShape{numbers};
}

std::array<netsim::PortConfig, kLinkKinds> ports_of(const PlanePorts& ports) {
  return {checked(ports.nic_up),
          checked(ports.nic_down),
          checked(ports.t0_up),
          checked(ports.t1_down),
          checked(ports.t1_up.value_or(netsim::PortConfig{})),
          checked(ports.t2_down.value_or(netsim::PortConfig{}))};
}

std::vector<std::array<netsim::PortConfig, kLinkKinds>> ports_of(const std::vector<PlanePorts>& unlike,
                                                                 std::uint32_t planes) {
  std::vector<std::array<netsim::PortConfig, kLinkKinds>> made;
  for (const PlanePorts& ports : unlike) made.push_back(ports_of(ports));
  if (!made.empty() && made.size() != planes) raise_value_error("unlike: ports of every plane");
  return made;
}

FaultTarget target_from(const nb::dict& from) {
  FaultTarget target;
  read(from, target);
  return target;
}

FaultSpec fault_from(const nb::dict& from) {
  ScheduledFault fault;
  read(from, fault);
  return {fault.place, effects_from(nb::cast<nb::dict>(from["effects"])), fault.start, fault.duration, fault.period};
}

}  // namespace openmrc::bindings
