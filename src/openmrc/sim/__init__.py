"""Simulation, packet by packet: a scenario in, a result out.

from openmrc import sim

result = sim.run("scenarios/permutation.yaml")
print(result["mrc"].summary["slowest_over_ideal"])
"""

from openmrc.sim.checks import Failure
from openmrc.sim.progress import Progress
from openmrc.sim.result import Result, TransportResult
from openmrc.sim.run import run
from openmrc.sim.scenario import Nic, Scenario, Watch
from openmrc.sim.scenario_file import ScenarioFileError, load_scenario, make_scenario, parse_scenario
from openmrc.sim.tables import Table
from openmrc.sim.transports import Transport

__all__ = [
    "Failure",
    "Nic",
    "Progress",
    "Result",
    "Scenario",
    "ScenarioFileError",
    "Table",
    "Transport",
    "TransportResult",
    "Watch",
    "load_scenario",
    "make_scenario",
    "parse_scenario",
    "run",
]
