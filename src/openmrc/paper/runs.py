"""Runs the simulations of experiments, several at a time, and judges each experiment when its last one is in."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from typing import Any

from openmrc import sim
from openmrc.errors import OpenmrcError
from openmrc.paper.experiment import Experiment, Outcome

__all__ = ["PaperProgress", "run_experiments", "simulate"]


@dataclass(frozen=True)
class PaperProgress:
    """A simulation that has ended, how long it took, and how many have ended of how many."""

    figure: str
    run: str
    wall_s: float
    done: int
    total: int


def simulate(settings: Mapping[str, Any]) -> sim.TransportResult:
    """The result of a scenario that has one transport.

    Raises:
        OpenmrcError: it cannot be run; of this class itself, which passes from one process to another.
        KeyboardInterrupt: it was interrupted.
    """
    try:
        result = sim.run(sim.make_scenario(**settings))
    except OpenmrcError as error:
        raise OpenmrcError(str(error)) from error
    if result.interrupted:  # half a run proves nothing
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
        chosen: What to run.
        quick: Smaller and shorter versions.
        workers: Simulations at the same time; None: as many as there are processors. With 1 no process is started.
        progress: Called after every simulation.

    Raises:
        OpenmrcError: a simulation ended without a result.
    """
    tasks = [(each, name, settings) for each in chosen for name, settings in each.runs(quick).items()]
    results: dict[str, dict[str, sim.TransportResult]] = {each.figure: {} for each in chosen}
    left = {each.figure: sum(task[0] is each for task in tasks) for each in chosen}
    waiting = list(chosen)
    for done, (each, name, result) in enumerate(_results(tasks, workers or os.cpu_count() or 1), 1):
        results[each.figure][name] = result
        left[each.figure] -= 1
        if progress is not None:
            progress(PaperProgress(each.figure, name, float(result.summary["wall_s"]), done, len(tasks)))
        while waiting and not left[waiting[0].figure]:
            ready = waiting.pop(0)
            yield ready.judge(results.pop(ready.figure), quick)


_Task = tuple[Experiment, str, Mapping[str, Any]]
_Done = tuple[Experiment, str, sim.TransportResult]


def _results(tasks: Sequence[_Task], workers: int) -> Iterator[_Done]:
    if workers == 1 or len(tasks) == 1:
        for each, name, settings in tasks:
            yield each, name, simulate(settings)
        return
    pool = ProcessPoolExecutor(min(workers, len(tasks)), mp_context=get_context("spawn"))
    try:
        with _interrupts_held():  # and so in the new processes for good: an interrupt is this process's to handle
            futures: dict[Future[sim.TransportResult], tuple[Experiment, str]] = {
                pool.submit(simulate, settings): (each, name) for each, name, settings in tasks
            }
        for future in as_completed(futures):
            each, name = futures[future]
            yield each, name, future.result()
    except BrokenProcessPool:
        raise OpenmrcError("a process that simulated died; perhaps memory ran out: try fewer --workers") from None
    except BaseException:  # nobody waits for what still runs
        for process in active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C has no effect inside, and the processes that begin there never see it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
