"""Time series of a running simulation, sampled at even times, as tables.

Every row of a series ends at `time_ps`; rates are means since the row before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from openmrc import _native
from openmrc.fabric import Shape
from openmrc.sim.result_schema import (
    DropCounts,
    DropSeries,
    GoodputSeries,
    HostSeries,
    LinkColumns,
    PauseSeries,
    PlaneSeries,
    PortColumns,
    QueueSeries,
)
from openmrc.sim.scenario import SMALL_PORTS_MAX, Scenario
from openmrc.sim.tables import Table

__all__ = ["DROP_CAUSES", "LINK_TIERS", "Recorder"]

# Kinds of links as the native simulation counts them, and the tier of the switch whose port feeds them.
NIC_UP, NIC_DOWN, T0_UP, T1_DOWN, T1_UP, T2_DOWN = range(6)
LINK_TIERS: Mapping[str, tuple[int, ...]] = {"t0": (NIC_DOWN, T0_UP), "t1": (T1_DOWN, T1_UP), "t2": (T2_DOWN,)}
DROP_CAUSES = tuple(DropCounts.__annotations__)
PAUSES = ("pauses", "paused_ps")  # of PFC: number of pauses of links, and their total duration

_BITS_PS = 8 * 10**12


class Recorder:
    """Samples a simulation on request and keeps the series that a scenario watches.

    Args:
        scenario: With the series to watch.
        simulation: The native simulation.
        interval_ps: Time between samples; None: about 200 in `expected_ps`, fewer if a sample is large, and fewer per
            time as a run gets longer.
        expected_ps: Ideal duration of the run.
    """

    SAMPLES, SAMPLES_MIN = 200, 25

    def __init__(
        self, scenario: Scenario, simulation: _native.simulate.Simulation, interval_ps: int | None, expected_ps: int
    ) -> None:
        self._scenario, self._simulation = scenario, simulation
        self._adapts = interval_ps is None
        expected_ps = min(expected_ps, scenario.duration_ps)
        ports = scenario.fabric.hosts * scenario.fabric.planes
        self._count = min(max(self.SAMPLES * SMALL_PORTS_MAX // ports, self.SAMPLES_MIN), self.SAMPLES)
        self.interval_ps = interval_ps or max(expected_ps // self._count, 10**6)
        self.next_ps = self.interval_ps
        self._last_ps = 0
        self._samples = 0
        self._before: dict[str, npt.NDArray[Any]] = {}
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._drops_before = dict.fromkeys(DROP_CAUSES, 0)
        self.queue_peak_bytes = 0
        shape = scenario.fabric
        self._switches = {"t0": shape.t0s, "t1": shape.t1s_in_all, "t2": shape.t2s}
        self._switch_of = {
            tier: {kind: _owners(kind, shape) for kind in LINK_TIERS[tier]}
            for tier, count in self._switches.items()
            if count
        }

    def sample(self, now_ps: int) -> None:
        """Records the changes since the last call; a second call for the same instant has no effect."""
        passed_ps = now_ps - self._last_ps
        if passed_ps <= 0:
            return
        series = self._scenario.watch.series
        if series:
            goodput_bytes = self._simulation.hosts()["goodput_bytes"]
            goodput_bps = self._rate("goodput", goodput_bytes.sum(keepdims=True), passed_ps)
            self._keep("series_goodput", GoodputSeries(time_ps=_times(now_ps, 1), goodput_bps=goodput_bps))
        if "planes" in series:
            self._record_planes(now_ps, passed_ps, self._simulation.ports())
        if "hosts" in series and self._scenario.watch.hosts:
            self._record_hosts(now_ps, passed_ps, goodput_bytes)
        if "queues" in series:
            totals = self._links_totals(now_ps)
            self._note_drops(now_ps, totals)
            self._note_pauses(now_ps, totals)
        if "paths" in series:
            self._keep("path_events", self._simulation.path_events())
        self._last_ps = now_ps
        self._samples += 1
        if self._adapts and self._samples % (2 * self._count) == 0:
            self.interval_ps *= 2
        self.next_ps = now_ps + self.interval_ps

    def tables(self) -> dict[str, Table[Any]]:
        """All series recorded so far, by name."""
        return {
            name: Table({column: np.concatenate([row[column] for row in rows]) for column in rows[0]})
            for name, rows in self._rows.items()
            if sum(len(next(iter(row.values()))) for row in rows)
        }

    def finish(self) -> dict[str, int]:
        """Totals of all links, after a last sample: packets lost by cause, `marks`, `trims`, and pauses."""
        totals = self._links_totals()
        self._note_drops(self._simulation.now_ps, totals)
        return totals

    def _keep(self, table: str, columns: Mapping[str, Any]) -> None:
        self._rows.setdefault(table, []).append(dict(columns))

    def _since(self, name: str, now: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Increase of a counter since the last sample."""
        before = self._before.get(name)
        self._before[name] = now
        return (now if before is None else now - before).astype(np.float64)

    def _rate(self, name: str, now_bytes: npt.NDArray[Any], passed_ps: int) -> npt.NDArray[np.float64]:
        """Mean rate since the last sample of a counter of bytes, in b/s."""
        return self._since(name, now_bytes) * _BITS_PS / passed_ps

    def _record_planes(self, now_ps: int, passed_ps: int, ports: PortColumns) -> None:
        planes = self._scenario.fabric.planes
        columns = PlaneSeries(
            time_ps=_times(now_ps, planes),
            plane=np.arange(planes, dtype=np.uint16),
            tx_bps=self._rate("tx", ports["tx_bytes"].reshape(-1, planes).sum(axis=0), passed_ps),
            rx_bps=self._rate("rx", ports["rx_bytes"].reshape(-1, planes).sum(axis=0), passed_ps),
        )
        self._keep("series_planes", columns)

    def _record_hosts(self, now_ps: int, passed_ps: int, goodput_bytes: npt.NDArray[Any]) -> None:
        watched = np.array(self._scenario.watch.hosts, dtype=np.uint32)
        goodput_bps = self._rate("hosts", goodput_bytes[watched], passed_ps)
        columns = HostSeries(time_ps=_times(now_ps, len(watched)), host=watched, goodput_bps=goodput_bps)
        self._keep("series_hosts", columns)

    def _links_totals(self, series_ps: int | None = None) -> dict[str, int]:
        """Sums of the counters of all links; with a time, also records the peaks of the queues."""
        fabric = self._scenario.fabric
        totals = dict.fromkeys((*DROP_CAUSES, "marks", "trims", *PAUSES), 0)
        for plane in range(fabric.planes):
            by_kind = {kind: self._simulation.links(plane, kind) for kind in range(6 if fabric.t2s else 4)}
            for links in by_kind.values():
                sums = {name: int(column.sum()) for name, column in Table(links).items()}
                for name in totals:
                    totals[name] += sums[f"drop_{name}" if name in DROP_CAUSES else name]
            for tier, kinds in self._switch_of.items():
                self._note_peaks(
                    series_ps,
                    plane,
                    tier,
                    [(switch, by_kind[kind]) for kind, switch in kinds.items() if kind in by_kind],
                )
        return totals

    def _note_peaks(
        self, series_ps: int | None, plane: int, tier: str, ports: list[tuple[npt.NDArray[Any], LinkColumns]]
    ) -> None:
        count = self._switches[tier]
        peaks = np.zeros(count, dtype=np.uint64)
        for switch, links in ports:
            np.maximum.at(peaks, switch, links["queue_peak_bytes"])
        self.queue_peak_bytes = max(self.queue_peak_bytes, int(peaks.max(initial=0)))
        if series_ps is None:
            return
        columns = QueueSeries(
            time_ps=_times(series_ps, count),
            plane=np.full(count, plane, dtype=np.uint16),
            tier=np.full(count, tier),
            switch=np.arange(count, dtype=np.uint32),
            peak_bytes=peaks,
        )
        self._keep("series_queues", columns)

    def _note_pauses(self, now_ps: int, totals: Mapping[str, int]) -> None:
        if self._scenario.fabric.pfc is None:
            return
        columns = PauseSeries(
            time_ps=_times(now_ps, 1),
            pauses=self._since("pauses", np.array([totals["pauses"]])).astype(np.uint64),
            paused_ps=self._since("paused_ps", np.array([totals["paused_ps"]])).astype(np.int64),
        )
        self._keep("series_pauses", columns)

    def _note_drops(self, now_ps: int, totals: Mapping[str, int]) -> None:
        fresh = {cause: totals[cause] - self._drops_before[cause] for cause in DROP_CAUSES}
        lost = {cause: packets for cause, packets in fresh.items() if packets}
        if lost:
            columns = DropSeries(
                time_ps=_times(now_ps, len(lost)),
                cause=np.array(list(lost)),
                packets=np.array(list(lost.values()), dtype=np.uint64),
            )
            self._keep("drops", columns)
        self._drops_before = {cause: totals[cause] for cause in DROP_CAUSES}


def _times(now_ps: int, count: int) -> npt.NDArray[np.int64]:
    return np.full(count, now_ps, dtype=np.int64)


def _owners(kind: int, shape: Shape) -> npt.NDArray[np.int64]:
    """The switch whose port feeds each link of a kind, in the order of the links."""
    t0_link, t1_link = np.arange(shape.t0s * shape.t1s), np.arange(shape.t1s_in_all * shape.t1_uplinks)
    pod = t0_link // shape.t1s // (shape.t0s_per_pod or shape.t0s)
    uplinks = max(shape.t1_uplinks, 1)
    owners: dict[int, npt.NDArray[np.int64]] = {
        NIC_DOWN: np.arange(shape.hosts) // shape.hosts_per_t0,
        T0_UP: t0_link // shape.t1s,
        T1_DOWN: pod * shape.t1s + t0_link % shape.t1s,
        T1_UP: t1_link // uplinks,
        T2_DOWN: t1_link // uplinks % shape.t1s * uplinks + t1_link % uplinks,
    }
    return owners[kind]
