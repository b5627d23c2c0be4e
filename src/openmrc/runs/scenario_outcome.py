"""One scenario simulated and between real processes of any environment, with one form of result.

An `Outcome` has the goodput of every flow over time and the paths (plane, uplink) whose EVs changed state; its figures
about a fault are comparable between environments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich.table import Table as RichTable

from openmrc.fabric import Fabric
from openmrc.runs.environment import EmulatedEnvironment, Environment
from openmrc.runs.fault_spans import fault_spans
from openmrc.runs.records.byte_counter import Series
from openmrc.runs.records.fault_phases import phases
from openmrc.runs.records.goodput_limit import goodput_limit_gbps
from openmrc.runs.records.run_record import FaultSpan, Flow, Run
from openmrc.runs.run_view import View
from openmrc.runs.scenario_plan import flows_of, plan_of
from openmrc.runs.session import execute, flow_name
from openmrc.sim import Scenario, Watch, run
from openmrc.sim.native_config import all_faults
from openmrc.sim.tables import Table
from openmrc.verbs.enums import EvState

__all__ = ["Outcome", "PathChange", "emulate", "outcome_table", "run_in", "simulate"]

_SAMPLE_PS = 10 * 10**9
_STATES = {state.value: state.name for state in EvState}


@dataclass(frozen=True, slots=True)
class PathChange:
    """An EV of a sending host entered a state. `uplink` is that of the T0, hence the T1; None: unknown there."""

    time_s: float
    host: int
    plane: int
    uplink: int | None
    ev: int
    state: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a scenario in one environment."""

    place: str
    scenario: str
    run: Run
    paths: tuple[PathChange, ...]

    def lost_paths(self, start_s: float, end_s: float) -> set[tuple[int, int | None]]:
        """The (plane, uplink) of EVs that became ASSUMED_BAD between two times."""
        return {(p.plane, p.uplink) for p in self.paths if p.state == "ASSUMED_BAD" and start_s <= p.time_s < end_s}

    def bad_paths(self, time_s: float) -> set[tuple[int, int | None]]:
        """The (plane, uplink) of EVs that were ASSUMED_BAD at a time."""
        last = {(p.host, p.plane, p.ev): p for p in self.paths if p.time_s <= time_s}
        return {(p.plane, p.uplink) for p in last.values() if p.state == "ASSUMED_BAD"}

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: the run, the phases of each flow and of all together, the paths' changes."""
        return {
            "place": self.place,
            "scenario": self.scenario,
            "phases": [phase.to_dict() for phase in phases(self.run)],
            "flows": {
                flow.name: [phase.to_dict() for phase in phases(self.run, flow.placed)] for flow in self.run.flows
            },
            "paths": [[p.time_s, p.host, p.plane, p.uplink, p.ev, p.state] for p in self.paths],
            "run": self.run.to_dict(),
        }


def run_in(environment: Environment, place: str, scenario: Scenario, view: View | None = None) -> Outcome:
    """The scenario between real processes in an environment, which outcomes call `place`.

    Raises:
        ConfigError: something that only simulations can do.
        ChildError: a process failed.
    """
    plan = plan_of(scenario)
    record = execute(plan, view, environment=environment).run
    paths = tuple(
        PathChange(c.time_s, int(c.host.removeprefix("host")), c.plane, environment.uplink(c.ev), c.ev, c.state)
        for c in record.ev_changes
    )
    return Outcome(place, scenario.name, record, paths)


def emulate(scenario: Scenario, view: View | None = None) -> Outcome:
    """The scenario between real processes over the emulated fabric. Raises what `run_in` does."""
    return run_in(EmulatedEnvironment(plan_of(scenario).fabric()), "emulated", scenario, view)


def simulate(scenario: Scenario) -> Outcome:
    """The scenario in the simulator, with its first transport of kind `mrc`, sampled like real runs.

    Flows into one host are one flow of the record.

    Raises:
        ConfigError: a scenario that real processes could not run, which leaves nothing to compare.
    """
    plan_of(scenario)
    senders: dict[int, list[int]] = {}
    for source, destination in flows_of(scenario):
        senders.setdefault(destination, []).append(source)
    everyone = {host for pair in flows_of(scenario) for host in pair}
    watch = Watch(tuple(sorted(everyone)), ("planes", "hosts", "paths"))
    name = next(transport.name for transport in scenario.transports if transport.kind == "mrc")
    result = run(replace(scenario, watch=watch, sample_ps=_SAMPLE_PS), transport=name)[name]
    end_s = result.summary["end_ps"] / 1e12
    hosts = result.tables["series_hosts"]
    flows = tuple(
        Flow(
            name=flow_name(sources[0], host) if len(sources) == 1 else f"{len(sources)} hosts → host{host}",
            placed=_counter(hosts, hosts["host"] == host, "goodput_bps"),
            sent_packets=result.summary["sent_packets"] if len(senders) == 1 else 0,
            retransmitted_packets=result.summary["retransmitted_packets"] if len(senders) == 1 else 0,
        )
        for host, sources in sorted(senders.items())
    )
    planes = result.tables["series_planes"]
    fabric = scenario.fabric
    record = Run(
        transport="mrc",
        planes=fabric.planes,
        hosts=len(senders),
        plane_rate_bps=float(fabric.rate_bps),
        limit_gbps=_limit_gbps(fabric, scenario.payload_mtu),
        start_s=0.0,
        end_s=end_s,
        flows=flows,
        planes_rx=tuple(_counter(planes, planes["plane"] == plane, "rx_bps") for plane in range(fabric.planes)),
        faults=_spans(scenario, end_s),
        seed=scenario.seed,
    )
    return Outcome("simulated", scenario.name, record, _simulated_paths(result.tables.get("path_events")))


def outcome_table(outcomes: Sequence[Outcome]) -> RichTable:
    """One line for each fault and environment: goodput around the fault, and the paths that were left during it."""
    table = RichTable(title=outcomes[0].scenario, title_justify="left")
    for heading in ("fault", "environment"):
        table.add_column(heading)
    for heading in ("before", "during", "after"):
        table.add_column(f"{heading}, Mb/s", justify="right")
    table.add_column("paths left")
    for index in range(max(len(outcome.run.faults) for outcome in outcomes)):
        for number, outcome in enumerate(outcomes):
            phase = phases(outcome.run)[index]
            figures = (_megabits(value) for value in (phase.before_gbps, phase.during_gbps, phase.after_gbps))
            lost = _paths_text(outcome.lost_paths(phase.start_s, phase.end_s))
            table.add_row("" if number else phase.fault, outcome.place, *figures, lost)
        table.add_section()
    for outcome in outcomes:
        whole = outcome.run.placed
        mean = whole.total * 8 / (outcome.run.end_s - outcome.run.start_s) / 1e9
        table.add_row("the whole run", outcome.place, "", _megabits(mean), "", "")
    return table


def _megabits(gbps: float | None) -> str:
    return "–" if gbps is None else f"{gbps * 1e3:.1f}"


def _paths_text(paths: Iterable[tuple[int, int | None]]) -> str:
    planes: dict[int, list[str]] = {}
    for plane, uplink in sorted(paths, key=lambda path: (path[0], -1 if path[1] is None else path[1])):
        planes.setdefault(plane, []).append("?" if uplink is None else str(uplink))
    return "; ".join(f"plane {plane}: T1 {', '.join(uplinks)}" for plane, uplinks in planes.items()) or "none"


def _limit_gbps(fabric: Fabric, payload_mtu: int) -> float:
    return goodput_limit_gbps(1, fabric.line_rate_bps, payload_mtu, "mrc", header_bytes=fabric.header_bytes)


def _spans(scenario: Scenario, end_s: float) -> tuple[FaultSpan, ...]:
    faults = all_faults(scenario)
    spans = fault_spans([str(fault) for fault in faults], faults, end_s)
    return tuple(span for span in spans if span.end_s - span.start_s < end_s)


def _counter(table: Table[Any], rows: Any, column: str) -> Series:
    """Rates since the previous row as a counter of bytes."""
    times = np.concatenate(([0.0], table["time_ps"][rows].astype(np.float64) / 1e12))
    counted = np.concatenate(([0.0], np.cumsum(table[column][rows] * np.diff(times) / 8)))
    return Series.of(times, np.maximum.accumulate(counted))


def _simulated_paths(events: Mapping[str, Any] | None) -> tuple[PathChange, ...]:
    if events is None:
        return ()
    columns = ("time_ps", "host", "port", "t0_uplink", "ev", "state")
    return tuple(
        PathChange(time_ps / 1e12, host, plane, uplink, ev, _STATES[state])
        for time_ps, host, plane, uplink, ev, state in zip(*(events[name].tolist() for name in columns), strict=True)
        if state in _STATES
    )
