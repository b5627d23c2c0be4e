"""Runs a scenario: one native simulation per transport, watched, ended with a verdict, and converted to a result."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from openmrc import _native
from openmrc.fabric import Fault
from openmrc.sim.ideals import Ideals, Packets, ideals
from openmrc.sim.memory_estimate import available_bytes, check_memory, estimate_memory
from openmrc.sim.native_config import all_faults, lanes_of, native_config, native_faults
from openmrc.sim.ops import OpGraph
from openmrc.sim.progress import Progress, Watcher
from openmrc.sim.recorder import Recorder
from openmrc.sim.result import Result, TransportResult
from openmrc.sim.result_schema import FaultSummary
from openmrc.sim.scenario import Scenario
from openmrc.sim.scenario_file import load_scenario
from openmrc.sim.store import commit_of_code
from openmrc.sim.summary import Measured, flow_table, summarise
from openmrc.sim.transports import Transport
from openmrc.sim.workloads import build

__all__ = ["build_graph", "ideals_of", "run"]

# Ctrl-C is handled and progress shown between steps of simulated time, of about this many packets each. The length of a
# step must not depend on the clock: a run ends with a window of the simulator, and windows end where steps do.
PACKETS_PER_STEP = 200_000
STEPS_MIN, STEPS_MANY = 20, 800
STEP_PS_MIN = 4_000_000  # two windows of the usual fabric; shorter ones would cost more than they show
FAULTS_TOLD_MAX = 1000  # limit in the summary; random flaps can be far more


def run(
    scenario: Scenario | str | Path,
    *,
    transport: str | None = None,
    seed: int | None = None,
    threads: int = 1,
    progress: Watcher | None = None,
    command: str = "",
) -> Result:
    """Simulates a scenario with each of its transports, one after the other.

    An interrupt (Ctrl-C) ends it early: the result is then partial, its `interrupted` is true, and the transport in
    progress has the verdict `interrupted`.

    Args:
        scenario: The scenario, or its file.
        transport: Only this one of the scenario's transports.
        seed: Replaces the scenario's.
        threads: Of the simulation; the result does not depend on it.
        progress: Called several times a second.
        command: Command that repeats the run, stored in the result.

    Raises:
        ScenarioFileError: the file has errors.
        ConfigError: no such transport; a workload that does not fit the fabric; more memory needed than available.
    """
    if isinstance(scenario, str | Path):
        scenario = load_scenario(scenario)
    if seed is not None:
        scenario = scenario.with_seed(seed)
    chosen = scenario.transports if transport is None else (scenario.transport(transport),)
    graph = build_graph(scenario)
    for each in chosen:
        check_memory(estimate_memory(scenario, each, graph), available_bytes())
    results: dict[str, TransportResult] = {}
    for index, each in enumerate(chosen):
        one = _Run(scenario, each, graph, threads)
        one.drive(progress, index, len(chosen))
        results[each.name] = one.result()
        if one.verdict == "interrupted":
            break
    return Result(
        name=scenario.name,
        seed=scenario.seed,
        commit=commit_of_code(),
        scenario_hash=scenario.hash,
        settings=scenario.effective(),
        transports=results,
        faults=tuple(_fault_summary(fault) for fault in all_faults(scenario)[:FAULTS_TOLD_MAX]),
        expect=scenario.expect,
        interrupted=any(each.summary["verdict"] == "interrupted" for each in results.values()),
        command=command,
    )


def build_graph(scenario: Scenario) -> OpGraph:
    """The sends and computations of a scenario, checked against its fabric.

    Raises:
        ConfigError: a workload that does not fit the fabric, or an invalid input file.
    """
    graph = build(scenario.workload, scenario.fabric, scenario.seed, document=scenario.document, folder=scenario.folder)
    graph.validate(scenario.fabric.hosts)
    return graph


def ideals_of(scenario: Scenario, transport: Transport, graph: OpGraph) -> Ideals:
    """The ideal times of a scenario's messages with the headers of a transport."""
    packets = Packets(
        payload_mtu=scenario.payload_mtu,
        transport_header_bytes=transport.settings.header_bytes,
        ack_bytes=transport.settings.ack_bytes,
        nic_latency_ps=scenario.nic.latency_ps,
        doorbell_ps=scenario.nic.doorbell_ps,
        lanes=lanes_of(scenario, transport),
    )
    return ideals(graph, scenario.fabric, packets, (*scenario.fabric.faults, *scenario.faults))


def _fault_summary(fault: Fault) -> FaultSummary:
    end_ps = None if fault.duration_ps is None else fault.start_ps + fault.duration_ps
    plane = fault.target.plane
    return FaultSummary(
        text=str(fault),
        start_ps=fault.start_ps,
        end_ps=end_ps,
        plane=plane if isinstance(plane, int) else None,
    )


class _Run:
    """One transport's run, from the native simulation to its result."""

    def __init__(self, scenario: Scenario, transport: Transport, graph: OpGraph, threads: int) -> None:
        self.scenario, self.transport, self.graph = scenario, transport, graph
        began = time.monotonic()
        self.bounds = ideals_of(scenario, transport, graph)
        self.simulation = _native.simulate.Simulation(native_config(scenario, transport, threads).values())
        self.simulation.add_ops(*graph.native())
        self.faults = native_faults(scenario)
        for _, fault in self.faults:
            self.simulation.add_fault(fault.values())
        self.recorder = Recorder(scenario, self.simulation, scenario.sample_ps, self.bounds.graph_received_ps)
        sends = graph.bytes[graph.sends].astype(np.int64)
        self.packets = int(np.maximum(-(-sends // scenario.payload_mtu), 1).sum())
        expected_ps = min(self.bounds.graph_received_ps, scenario.duration_ps)
        steps = max(self.packets // PACKETS_PER_STEP, STEPS_MIN)
        self.step_ps = max(expected_ps // steps, STEP_PS_MIN)
        self.setup_s = time.monotonic() - began
        self.wall_s = 0.0
        self.verdict = "running"

    def drive(self, progress: Watcher | None, index: int, count: int) -> None:
        """Runs to the end, to the limit of the scenario, or until an interrupt."""
        began = time.monotonic()
        try:
            ended, steps = False, 0
            while not ended and self.simulation.now_ps < self.scenario.duration_ps:
                until_ps = min(self.simulation.now_ps + self.step_ps, self.recorder.next_ps, self.scenario.duration_ps)
                ended = self.simulation.run_until(until_ps)
                steps += 1
                if steps % STEPS_MANY == 0:  # bounds the number of steps of a long run that mostly waits
                    self.step_ps *= 2
                if ended or until_ps >= self.recorder.next_ps:
                    self.recorder.sample(self.simulation.now_ps)
                self.wall_s = time.monotonic() - began
                if progress is not None:
                    packets = self.simulation.counters()["data_packets"]
                    progress(Progress(self.transport.name, index, count, until_ps, packets, self.packets, self.wall_s))
            verdict = self.simulation.verdict
            self.verdict = "time limit" if verdict == "running" else verdict
        except KeyboardInterrupt:
            self.verdict = "interrupted"
        self.recorder.sample(self.simulation.now_ps)
        self.wall_s = time.monotonic() - began

    def result(self) -> TransportResult:
        """Result of the run so far."""
        totals = self.recorder.finish()
        times = self.simulation.op_times()
        flows = flow_table(self.graph, times, self.bounds)
        measured = Measured(
            verdict=self.verdict,
            end_ps=self.simulation.now_ps,
            wall_s=self.wall_s,
            setup_s=self.setup_s,
            queue_peak_bytes=self.recorder.queue_peak_bytes,
            memory_bytes=self.simulation.memory_bytes(),
            counters=self.simulation.counters(),
            trace=f"{self.simulation.trace():016x}",
        )
        summary = summarise(
            self.scenario,
            self.transport,
            self.graph,
            flows,
            self.bounds,
            totals,
            self.simulation.connections(),
            measured,
        )
        return TransportResult(self.transport.name, summary, {"flows": flows, **self.recorder.tables()})
