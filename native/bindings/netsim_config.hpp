// Dictionaries of openmrc.fabric as settings of native/netsim. All raise ValueError: Python has validated what users write.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <string>
#include <vector>

#include "netsim/faults.hpp"
#include "netsim/link.hpp"
#include "netsim/topology.hpp"

namespace openmrc::bindings {

[[noreturn]] void raise_value_error(const std::string& what);

template <class T>
T member(const nanobind::dict& from, const char* name) {
  if (!from.contains(name)) raise_value_error(std::string("missing: ") + name);
  return nanobind::cast<T>(from[name]);
}

netsim::ClosShape shape_from(const nanobind::dict& from);
// In the order of LinkKind; the ports of the third tier may be left out.
std::array<netsim::PortConfig, netsim::kLinkKinds> ports_from(const nanobind::list& from);
// The `unlike` of a fabric: such a list for every plane, or none where planes are alike.
std::vector<std::array<netsim::PortConfig, netsim::kLinkKinds>> unlike_from(const nanobind::dict& from,
                                                                            std::uint32_t planes);
// (plane, host, t0, t1, direction[, t2]), None where not restricted.
netsim::FaultTarget target_from(const nanobind::tuple& from);
netsim::Effects effects_from(const nanobind::dict& from);

}  // namespace openmrc::bindings
