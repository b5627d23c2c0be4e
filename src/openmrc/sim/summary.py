"""Figures of a run: completion times beside their ideals, rates, fairness, losses and retransmissions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openmrc.sim.bus_bandwidth import bus_bandwidths
from openmrc.sim.evs import evs_of
from openmrc.sim.hints import hints
from openmrc.sim.ideals import NEVER_PS, Ideals
from openmrc.sim.native_config import lanes_of
from openmrc.sim.ops import SEND, OpGraph
from openmrc.sim.result_schema import (
    ConnectionColumns,
    DropCounts,
    FlowColumns,
    OpTimeColumns,
    SimulationCounters,
    TransportSummary,
)
from openmrc.sim.scenario import Scenario
from openmrc.sim.tables import Table
from openmrc.sim.transports import MrcSection, Transport

__all__ = ["Measured", "flow_table", "jain_index", "summarise"]

Column = npt.NDArray[Any]


def flow_table(graph: OpGraph, times: OpTimeColumns, bounds: Ideals) -> Table[FlowColumns]:
    """One row per send, with its times and its ideal; see `TransportResult.flows`."""
    sends = graph.sends
    started, received = times["started_ps"][sends], times["received_ps"][sends]
    completed = times["completed_ps"][sends]
    ideal_ps = bounds.received_ps[sends]
    fct_ps = np.where(received >= 0, received - started, -1)
    ratio = np.where(fct_ps >= 0, fct_ps / np.maximum(ideal_ps, 1), np.nan)
    return Table(
        FlowColumns(
            op=sends.astype(np.uint32),
            job=np.array(graph.groups)[graph.job[sends]],
            step=graph.step[sends],
            host=graph.host[sends],
            peer=graph.peer[sends],
            bytes=graph.bytes[sends],
            started_ps=started,
            received_ps=received,
            completed_ps=completed,
            fct_ps=fct_ps,
            acked_ps=np.where(completed >= 0, completed - started, -1),
            ideal_ps=ideal_ps,
            ratio=ratio,
            failed=times["failed"][sends].astype(bool),
        )
    )


def jain_index(rates: Column) -> float | None:
    """Jain's fairness index, 1 if all rates are equal; None without any."""
    total = float(np.square(rates).sum())
    return float(rates.sum()) ** 2 / (len(rates) * total) if total > 0 else None


@dataclass(frozen=True)
class Measured:
    """Figures of a run that do not come from its tables."""

    verdict: str
    end_ps: int
    wall_s: float
    setup_s: float
    queue_peak_bytes: int
    memory_bytes: int
    counters: SimulationCounters
    trace: str


def summarise(
    scenario: Scenario,
    transport: Transport,
    graph: OpGraph,
    flows: Table[FlowColumns],
    bounds: Ideals,
    totals: Mapping[str, int],
    connections: ConnectionColumns,
    measured: Measured,
) -> TransportSummary:
    """The summary of one transport, as JSON objects."""
    done = flows["received_ps"] >= 0
    fct_ps = flows["fct_ps"][done]
    ratios = flows["ratio"][done]
    finish_ps = int(flows["received_ps"].max(initial=-1)) if bool(done.all()) and len(done) else None
    counted_ps = finish_ps or measured.end_ps
    received, sent, retransmitted = (
        int(connections[name].sum()) for name in ("received_bytes", "sent_packets", "retransmitted_packets")
    )
    ideal_finish_ps = bounds.graph_received_ps if bounds.graph_received_ps < NEVER_PS else None
    with_time = fct_ps > 0
    fct = _percentiles(fct_ps)
    acked = _percentiles(flows["acked_ps"][flows["acked_ps"] >= 0])
    buses = bus_bandwidths(scenario.workload, flows)
    summary = TransportSummary(
        verdict=measured.verdict,
        end_ps=measured.end_ps,
        wall_s=measured.wall_s,
        setup_s=measured.setup_s,
        queue_peak_bytes=measured.queue_peak_bytes,
        memory_bytes=measured.memory_bytes,
        counters=measured.counters,
        trace=measured.trace,
        flows=int(flows.rows),
        flows_done=int(done.sum()),
        flows_done_share=float(done.mean()) if len(done) else 1.0,
        finish_ps=finish_ps,
        ideal_finish_ps=ideal_finish_ps,
        ideal_bound=bounds.bottleneck,
        slowest_over_ideal=finish_ps / ideal_finish_ps if finish_ps and ideal_finish_ps else None,
        worst_flow_over_ideal=float(ratios.max()) if len(ratios) else None,
        fct_p50_ps=fct[0],
        fct_p99_ps=fct[1],
        fct_p100_ps=fct[2],
        acked_p50_ps=acked[0],
        acked_p99_ps=acked[1],
        acked_p100_ps=acked[2],
        goodput_bps=received * 8e12 / counted_ps if counted_ps else None,
        bus_bps=min((rate for rate in buses.values() if rate is not None), default=None),
        bus_bps_by_job=buses,
        jain=jain_index(flows["bytes"][done][with_time] / fct_ps[with_time]),
        received_bytes=received,
        sent_packets=sent,
        retransmitted_packets=retransmitted,
        retransmitted_share=retransmitted / sent if sent else 0.0,
        timeouts=int(connections["timeouts"].sum()),
        losses_inferred=int(connections["losses_inferred"].sum()),
        drops=_drops(totals),
        marks=totals["marks"],
        trims=totals["trims"],
        packets_per_second=measured.counters["data_packets"] / max(measured.wall_s, 1e-9),
        hints=list(hints(scenario, transport, totals["queue"])),
    )
    _add_evs(summary, scenario, transport, graph)
    return summary


def _drops(totals: Mapping[str, int]) -> DropCounts:
    return DropCounts(
        queue=totals["queue"],
        control_queue=totals["control_queue"],
        down=totals["down"],
        blackhole=totals["blackhole"],
        loss=totals["loss"],
    )


def _percentiles(times_ps: Column) -> tuple[int | None, int | None, int | None]:
    """Median, 99th percentile and maximum, as times that occurred: the time by which that share was done."""
    ordered = np.sort(times_ps)

    def at(share: float) -> int | None:
        return int(ordered[max(int(np.ceil(share * len(ordered))) - 1, 0)]) if len(ordered) else None

    return at(0.5), at(0.99), at(1.0)


def _add_evs(summary: TransportSummary, scenario: Scenario, transport: Transport, graph: OpGraph) -> None:
    """Adds the number of EVs of all sending ends and of each on a port, and the paths of a plane, for MRC."""
    if not isinstance(transport.settings, MrcSection):
        return
    sends = graph.kind == SEND
    pairs = graph.host[sends].astype(np.uint64) << np.uint64(32) | graph.peer[sends].astype(np.uint64)
    ends = len(np.unique(pairs)) * lanes_of(scenario, transport)
    evs = evs_of(transport.settings, scenario.fabric)
    summary["evs"], summary["active_per_port"], summary["paths_per_plane"] = ends * evs.in_use, evs.active, evs.paths
