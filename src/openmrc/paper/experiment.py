"""Definition of an experiment of the paper: runs of the simulator, and the judgement of their results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from openmrc.paper.finding import Finding
from openmrc.paper.plot import Plot
from openmrc.sim import TransportResult

__all__ = ["Experiment", "Floats", "Outcome", "Results", "Runs", "goodput_gbps", "window_mean"]

Runs = Mapping[str, Mapping[str, Any]]  # settings of a scenario with one transport, by the name of the run
Results = Mapping[str, TransportResult]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Outcome:
    """Final result of an experiment."""

    finding: Finding
    plots: tuple[Plot, ...] = field(default=())


@dataclass(frozen=True)
class Experiment:
    """One figure (or several that come from one experiment).

    Args:
        figure: Its number in the paper, or `D2` for the point-to-point table.
        title: The experiment in a few words.
        runs: The scenarios to simulate; the argument selects the quick version.
        judge: Judgement of all results; the argument after them is True for the quick version.
    """

    figure: str
    title: str
    runs: Callable[[bool], Runs]
    judge: Callable[[Results, bool], Outcome]


def goodput_gbps(result: TransportResult, host: int) -> tuple[Floats, Floats]:
    """Goodput into a watched host over time: milliseconds at the end of each sample, Gb/s in it."""
    table = result.tables["series_hosts"]
    mine = table["host"] == host
    return table["time_ps"][mine] / 1e9, table["goodput_bps"][mine] / 1e9


def window_mean(times_ms: Floats, values: Floats, start_ms: float, end_ms: float) -> float:
    """Mean of the samples within a time; NaN without any."""
    inside = (times_ms > start_ms) & (times_ms <= end_ms)
    return float(values[inside].mean()) if inside.any() else float("nan")
