// Dictionaries as settings of a simulation. Unknown keys are refused: what nobody reads would silently not be simulated.
#pragma once

#include <nanobind/nanobind.h>

#include "netsim/simulate/simulation.hpp"

namespace openmrc::bindings {

netsim::SimulationConfig simulation_config_from(const nanobind::dict& from);

// The transport that `from` names ("mrc", "roce" or "dctcp"); hosts in `watched` (all when empty) keep path events.
netsim::EndpointFactory transport_from(const nanobind::dict& from);

}  // namespace openmrc::bindings
