"""Simulation, packet by packet: a scenario in, a result out.

from openmrc import sim

result = sim.run("scenarios/permutation.yaml")
print(result["mrc"].summary["slowest_over_ideal"])
"""

from openmrc.sim.scenario import Nic, Scenario, Watch
from openmrc.sim.scenario_file import ScenarioFileError, load_scenario, make_scenario, parse_scenario
from openmrc.sim.transports import Transport

__all__ = [
    "Nic",
    "Scenario",
    "ScenarioFileError",
    "Transport",
    "Watch",
    "load_scenario",
    "make_scenario",
    "parse_scenario",
]
