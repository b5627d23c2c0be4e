// Settings of a simulation, and its transport.
#pragma once

#include "netsim/generated/simulator.hpp"
#include "netsim/simulate/simulation.hpp"

namespace openmrc::bindings {

netsim::SimulationConfig simulation_config_of(const netsim::SimulationSettings& settings);

// The one transport that the settings have.
netsim::EndpointFactory transport_of(const netsim::SimulationSettings& settings);

}  // namespace openmrc::bindings
