"""Runs the simulations of experiments, several at a time, and judges each experiment after its last one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from openmrc import sim
from openmrc.errors import OpenmrcError
from openmrc.paper.experiment import Experiment, Outcome
from openmrc.sim.sweep.pool import run_in_processes

__all__ = ["PaperProgress", "run_experiments", "simulate"]


@dataclass(frozen=True)
class PaperProgress:
    """A finished simulation with its duration, the number of finished ones, and their total."""

    figure: str
    run: str
    wall_s: float
    done: int
    total: int


def simulate(settings: Mapping[str, Any]) -> sim.TransportResult:
    """The result of a scenario that has one transport.

    Raises:
        OpenmrcError: it cannot be run.
        KeyboardInterrupt: it was interrupted.
    """
    result = sim.run(sim.make_scenario(**settings))
    if result.interrupted:  # a partial run proves nothing
        raise KeyboardInterrupt
    (only,) = result
    return only


def run_experiments(
    chosen: Sequence[Experiment],
    *,
    quick: bool = False,
    workers: int | None = None,
    progress: Callable[[PaperProgress], None] | None = None,
) -> Iterator[Outcome]:
    """The outcome of each experiment, in the order given.

    Args:
        chosen: The experiments to run.
        quick: Smaller and shorter versions.
        workers: Concurrent simulations; None: the number of processors. With 1 no process is started.
        progress: Called after every simulation.

    Raises:
        OpenmrcError: a simulation ended without a result.
    """
    tasks = [(each.figure, name, settings) for each in chosen for name, settings in each.runs(quick).items()]
    results: dict[str, dict[str, sim.TransportResult]] = {each.figure: {} for each in chosen}
    left = Counter(figure for figure, _, _ in tasks)
    waiting = list(chosen)
    for done, (figure, name, result) in enumerate(_results(tasks, workers or os.cpu_count() or 1), 1):
        results[figure][name] = result
        left[figure] -= 1
        if progress is not None:
            progress(PaperProgress(figure, name, float(result.summary["wall_s"]), done, len(tasks)))
        while waiting and not left[waiting[0].figure]:
            ready = waiting.pop(0)
            yield ready.judge(results.pop(ready.figure), quick)


_Task = tuple[str, str, Mapping[str, Any]]  # figure, name of the run, settings
_Done = tuple[str, str, sim.TransportResult]


def _results(tasks: Sequence[_Task], workers: int) -> Iterator[_Done]:
    if workers == 1 or len(tasks) == 1:
        for figure, name, settings in tasks:
            yield figure, name, simulate(settings)
        return
    with closing(run_in_processes(_executed, tasks, min(workers, len(tasks)))) as outcomes:
        for (figure, name, _), outcome in outcomes:
            if outcome["error"]:
                raise OpenmrcError(f"figure {figure}, {name}: {outcome['error']}")
            yield figure, name, outcome["figures"]["result"]


def _executed(task: _Task) -> dict[str, Any]:
    return {"result": simulate(task[2])}
