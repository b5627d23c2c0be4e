// Records of openmrc.fabric as settings of native/netsim. All raise ValueError: Python has validated what users write.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <string>
#include <vector>

#include "bindings/generated/fabric.hpp"
#include "netsim/faults.hpp"
#include "netsim/output_port.hpp"
#include "netsim/topology.hpp"

namespace openmrc::bindings {

[[noreturn]] void raise_value_error(const std::string& what);

netsim::ClosShape shape_of(const netsim::FabricShape& numbers);
// In the order of LinkKind.
std::array<netsim::PortConfig, netsim::kLinkKinds> ports_of(const netsim::PlanePorts& ports);
// Of every plane, or none where planes are alike.
std::vector<std::array<netsim::PortConfig, netsim::kLinkKinds>> ports_of(const std::vector<netsim::PlanePorts>& unlike,
                                                                         std::uint32_t planes);
netsim::FaultTarget target_from(const nanobind::dict& from);
netsim::FaultSpec fault_from(const nanobind::dict& from);

}  // namespace openmrc::bindings
