"""EV states over time, reduced to the resolution of a picture: one row per EV, one cell per short bin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from openmrc.runs.records.run_record import EV_STATES, EvChange, Run

_RANK = {name: rank for rank, name in enumerate(EV_STATES)}


@dataclass(frozen=True, slots=True, eq=False)
class EvGrid:
    """`cells[row, bin]` is the index in EV_STATES of the worst state that EV had in that bin."""

    host: str
    evs: tuple[tuple[int, int], ...]  # (plane, EV) per row, ordered by plane
    start_s: float
    step_s: float
    cells: npt.NDArray[np.uint8]

    def runs(self, row: int) -> Iterable[tuple[int, int, int]]:
        """The row as stretches of one state: (first bin, bin after the last, state)."""
        values = self.cells[row]
        edges = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
        for first, after in pairwise(edges):
            if after > first:
                yield first, after, int(values[first])


def ev_grid(run: Run, host: str, bins: int = 400) -> EvGrid:
    """The grid of the EVs with which a host's connection started or that it added later."""
    changes = sorted((change for change in run.ev_changes if change.host == host), key=lambda change: change.time_s)
    planes = dict(run.ev_sets.get(host, {}))
    for change in changes:
        planes.setdefault(change.ev, change.plane)
    evs = tuple(sorted((plane, ev) for ev, plane in planes.items()))
    rows = {ev: index for index, (_, ev) in enumerate(evs)}
    step = max((run.end_s - run.start_s) / bins, 1e-9)
    cells = np.zeros((len(evs), bins), dtype=np.uint8)
    since = dict.fromkeys(rows, (0, 0))  # EV -> (bin, state) of the last change
    for change in changes:
        at = min(max(int((change.time_s - run.start_s) / step), 0), bins - 1)
        first, state = since[change.ev]
        _paint(cells[rows[change.ev]], first, at, state)
        since[change.ev] = (at, _RANK.get(change.state, 0))
    for ev, (first, state) in since.items():
        _paint(cells[rows[ev]], first, bins - 1, state)
    return EvGrid(host=host, evs=evs, start_s=run.start_s, step_s=step, cells=cells)


def _paint(row: npt.NDArray[np.uint8], first: int, last: int, state: int) -> None:
    np.maximum(row[first : last + 1], np.uint8(state), out=row[first : last + 1])


def worst_host(run: Run) -> str | None:
    """The host whose EVs left GOOD for a path fault most often. None: no EVs were recorded."""
    counts: Mapping[str, int] = {
        host: sum(1 for change in run.ev_changes if change.host == host and change.state == "ASSUMED_BAD")
        for host in sorted({*run.ev_sets, *(change.host for change in run.ev_changes)})
    }
    return max(counts, key=lambda host: counts[host], default=None)


def states_now(changes: Iterable[EvChange], planes: Mapping[int, int]) -> dict[int, dict[str, int]]:
    """Number of EVs of each plane in each state after a list of changes in order."""
    state = dict.fromkeys(planes, "GOOD")
    plane_of = dict(planes)
    for change in changes:
        state[change.ev] = change.state
        plane_of.setdefault(change.ev, change.plane)
    found: dict[int, dict[str, int]] = {}
    for ev, name in state.items():
        counts = found.setdefault(plane_of[ev], dict.fromkeys(EV_STATES, 0))
        counts[name] = counts.get(name, 0) + 1
    return found
