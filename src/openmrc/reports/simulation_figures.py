"""The numbers and series of a simulation report, taken from the tables of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from openmrc.charts.style import EV_COLOURS, PLANE_COLOURS
from openmrc.reports.simulation_charts import Curve, percentile
from openmrc.reports.simulation_record import PS, TransportRecord
from openmrc.verbs.enums import EvState

__all__ = [
    "STATES",
    "STATE_COLOURS",
    "EvRows",
    "Headline",
    "drops_over_time",
    "ev_counts",
    "ev_rows",
    "goodput_curve",
    "headline",
    "host_curves",
    "plane_rates",
    "queue_blocks",
]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Headline:
    """Main figures of a transport. Figures that the run lacks are None; times in seconds."""

    verdict: str
    flows_done: int
    flows_total: int
    p50_s: float | None
    p99_s: float | None
    p100_s: float | None
    slowest_over_ideal: float | None
    worst_flow_ratio: float | None
    goodput_bps: float | None
    drops: Mapping[str, int]
    retransmitted_share: float | None
    duration_s: float


def headline(record: TransportRecord) -> Headline:
    """The headline of one transport: completion times from the flows, the rest from the summary."""
    times = record.fct_s()
    flows = record.table("flows")
    ratios = None if flows is None else flows["ratio"].drop_nulls().drop_nans()
    summary = record.summary
    at = {share: percentile(times, share) if len(times) else None for share in (0.5, 0.99, 1.0)}
    return Headline(
        verdict=str(summary.get("verdict", "unknown")),
        flows_done=len(times),
        flows_total=record.flows_total,
        p50_s=at[0.5],
        p99_s=at[0.99],
        p100_s=at[1.0],
        slowest_over_ideal=_number(summary.get("slowest_over_ideal")),
        worst_flow_ratio=_number(ratios.max()) if ratios is not None and len(ratios) else None,
        goodput_bps=_number(summary.get("goodput_bps")),
        drops={name: int(count) for name, count in (summary.get("drops") or {}).items()},
        retransmitted_share=_number(summary.get("retransmitted_share")),
        duration_s=record.end_s,
    )


def plane_rates(record: TransportRecord) -> tuple[Floats, list[Floats]] | None:
    """Times in seconds and, for each plane, the rate in b/s received by its hosts; None if not recorded."""
    frame = record.table("series_planes")
    if frame is None:
        return None
    times, cells = _grid(frame, ["plane"], "rx_bps")
    return times, list(cells)


def goodput_curve(record: TransportRecord) -> Curve | None:
    """Payload received by all hosts together, b/s over time; None if not recorded."""
    frame = record.table("series_goodput")
    if frame is None:
        return None
    return Curve(record.label, record.colour, frame["time_ps"].to_numpy() * PS, frame["goodput_bps"].to_numpy())


def host_curves(record: TransportRecord, most: int = 8) -> list[Curve]:
    """Goodput of the first watched hosts, b/s over time."""
    frame = record.table("series_hosts")
    if frame is None:
        return []
    times, cells = _grid(frame, ["host"], "goodput_bps")
    hosts = sorted(frame["host"].unique().to_list())
    return [
        Curve(f"host {host}", PLANE_COLOURS[index % len(PLANE_COLOURS)], times, cells[index])
        for index, host in enumerate(hosts[:most])
    ]


def queue_blocks(record: TransportRecord, rows_max: int = 240) -> tuple[Floats, list[tuple[str, Floats]]] | None:
    """Ends of equal time bins and, per tier, the largest queue of each switch in bytes; None: not recorded.

    Rows are switches by plane and number. A tier of more than `rows_max` of them is shown in groups of neighbours, each
    by its largest queue.
    """
    frame = record.table("series_queues")
    if frame is None:
        return None
    blocks: list[tuple[str, Floats]] = []
    times = np.empty(0)
    for tier in sorted(frame["tier"].unique().to_list()):
        times, cells = _grid(frame.filter(frame["tier"] == tier), ["plane", "switch"], "peak_bytes")
        group = -(-len(cells) // rows_max)
        if group > 1:
            cells = np.stack([cells[at : at + group].max(axis=0) for at in range(0, len(cells), group)])
        times, cells = _evened(times, cells)
        blocks.append((str(tier).upper(), cells))
    return times, blocks


def drops_over_time(record: TransportRecord, bins: int = 120) -> tuple[Floats, list[Curve]] | None:
    """Starts of equal time bins and, per cause, the packets lost in each; None if none were lost or recorded."""
    frame = record.table("drops")
    if frame is None:
        return None
    edges = np.linspace(0.0, record.end_s, bins + 1)
    layers: list[Curve] = []
    for index, cause in enumerate(sorted(frame["cause"].unique().to_list())):
        part = frame.filter(frame["cause"] == cause)
        counts, _ = np.histogram(part["time_ps"].to_numpy() * PS, edges, weights=part["packets"].to_numpy())
        layers.append(Curve(str(cause), PLANE_COLOURS[index % len(PLANE_COLOURS)], edges[:-1], counts.astype(float)))
    return edges[:-1], layers


# States in path_events.parquet, by number; "replaced" means that the EV has left the set.
STATES = ("replaced", *(state.name for state in EvState))
_SEVERITY = (0, 1, 3, 2, 4)
STATE_COLOURS = ("#cbd5e1", EV_COLOURS["GOOD"], EV_COLOURS["ASSUMED_BAD"], EV_COLOURS["SKIP"], EV_COLOURS["DENIED"])


def ev_counts(record: TransportRecord) -> tuple[Floats, list[Curve]] | None:
    """Times and number of EVs of all connections in SKIP, ASSUMED_BAD or DENIED from then on; None: no change."""
    frame = record.table("path_events")
    if frame is None:
        return None
    rows = frame.sort("host", "connection", "port", "ev", "time_ps", maintain_order=True)
    keys = rows.select("host", "connection", "port", "ev").to_numpy()
    state = rows["state"].to_numpy().astype(np.int64)
    fresh = np.concatenate(([True], np.any(keys[1:] != keys[:-1], axis=1)))
    before = np.where(fresh, 1, np.roll(state, 1))
    order = np.argsort(rows["time_ps"].to_numpy(), kind="stable")
    times = np.concatenate(([0.0], rows["time_ps"].to_numpy()[order] * PS, [record.end_s]))
    counts: list[Curve] = []
    for number in (3, 2, 4):
        change = (state == number).astype(np.int64) - (before == number)
        values = np.concatenate(([0], np.cumsum(change[order]), [0])).astype(np.float64)
        values[-1] = values[-2]
        if values.any():
            counts.append(Curve(STATES[number], STATE_COLOURS[number], times, values))
    return times, counts


@dataclass(frozen=True, slots=True)
class EvRows:
    """The states of a connection's EVs over time: a row of state numbers per EV (see STATES), columns are time bins."""

    title: str
    names: list[str]
    cells: npt.NDArray[np.uint8]


def ev_rows(record: TransportRecord, rows_max: int = 64, bins: int = 400) -> EvRows | None:
    """The EVs of the connection with the most changes: its first `rows_max` by port and EV; None without changes.

    A bin shows the worst state that the EV had in it.
    """
    frame = record.table("path_events")
    if frame is None or record.end_ps <= 0:
        return None
    counted = frame.group_by("host", "connection").len()
    busiest = counted.sort("len", "host", "connection", descending=[True, False, False])
    host, connection = busiest["host"][0], busiest["connection"][0]
    part = frame.filter((frame["host"] == host) & (frame["connection"] == connection)).sort("time_ps")
    evs = part.select("port", "ev").unique().sort("port", "ev")[:rows_max]
    cells = np.ones((evs.height, bins), np.uint8)
    for row, (port, ev) in enumerate(evs.iter_rows()):
        changes = part.filter((part["port"] == port) & (part["ev"] == ev))
        _paint(cells[row], changes["time_ps"].to_numpy() * bins // record.end_ps, changes["state"].to_list())
    names = [f"plane {port}, EV {ev}" for port, ev in evs.iter_rows()]
    return EvRows(f"host {host}, connection {connection}", names, cells)


def _paint(row: npt.NDArray[np.uint8], at: npt.NDArray[np.int64], states: list[int]) -> None:
    """Fills one row: each state from its change to the next, a bin shared by several keeps the worst."""
    last = len(row) - 1
    for index, state in enumerate(states):
        first = min(int(at[index]), last)
        # State shown by the bin so far: the one before this change, or a worse one of an earlier change in the same
        # bin.
        if _SEVERITY[state] > _SEVERITY[int(row[first])]:
            row[first] = state
        row[first + 1 :] = state


def _grid(frame: Any, rows: list[str], value: str) -> tuple[Floats, Floats]:
    """Times in seconds and a matrix of the value: a row per combination of `rows`, a column per time, gaps are 0."""
    times = np.unique(frame["time_ps"].to_numpy())
    keys = np.zeros(frame.height, np.int64)
    for row in rows:
        numbers = frame[row].to_numpy().astype(np.int64)
        keys = keys * (int(numbers.max()) + 1) + numbers
    distinct, places = np.unique(keys, return_inverse=True)
    cells = np.zeros((len(distinct), len(times)))
    cells[places, np.searchsorted(times, frame["time_ps"].to_numpy())] = frame[value].to_numpy()
    return times * PS, cells


def _evened(times: Floats, cells: Floats, most: int = 400) -> tuple[Floats, Floats]:
    """The largest values in equal bins of time: samples end at `times`, and may grow longer during a run."""
    bins = min(len(times), most)
    width = times[-1] / bins
    ends = width * np.arange(1, bins + 1)
    even = cells[:, np.searchsorted(times, ends - width / 2)]
    into = np.clip(np.ceil(times / width - 1e-6).astype(np.int64) - 1, 0, bins - 1)
    np.maximum.at(even.T, into, cells.T)
    return ends, even


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
