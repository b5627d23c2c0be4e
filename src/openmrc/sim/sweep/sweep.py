"""A scenario simulated for many parameter values and seeds, on all processors, into one table."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmrc.errors import ConfigError
from openmrc.sim.scenario_file import read_scenario
from openmrc.sim.sweep.base import uniform
from openmrc.sim.sweep.cluster import require_ray, run_on_ray
from openmrc.sim.sweep.combinations import RunSpec, Task, plan_runs
from openmrc.sim.sweep.outcome import Outcome
from openmrc.sim.sweep.pool import run_in_processes
from openmrc.sim.sweep.store import SweepFolder
from openmrc.sim.sweep.task import check_runs, simulate
from openmrc.sim.sweep.values import expand_values

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Plot", "Sweep", "SweepProgress"]


Outcomes = Generator[tuple[RunSpec, Outcome], None, None]


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture of the sweep: figure `y` over parameter `x`, a line for each value of `lines`."""

    x: str
    y: str
    lines: str | None = None


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """Progress of a sweep, in simulations: `total`, `done` (including those of earlier calls, `kept`), `failed`."""

    total: int
    done: int
    kept: int
    failed: int
    last_error: str = ""


class Sweep:
    """Runs of one scenario for every combination of parameter values, seed and transport.

    Args:
        scenario: Path of a scenario file, or its contents as dictionaries and lists.
        parameters: Values by dotted path into the scenario: a list, or a range in the sweep file's notation. A name
            of several paths separated by commas varies them together.
        seeds: One run of each combination for each.
        transports: Selection of the scenario's; None: all of them.
        name: Title of the results.
        out: Folder of the results. Calling again with the same folder runs the missing ones.
        folder: Base of relative file names in the scenario; None: the scenario file's folder.
        plots: Pictures to draw after all runs.
        task: Function that runs one simulation.

    Raises:
        ConfigError: a path that does not exist, malformed values, or an invalid scenario.
    """

    def __init__(
        self,
        scenario: str | Path | Mapping[str, Any],
        parameters: Mapping[str, Any],
        *,
        seeds: Sequence[int] = (1,),
        transports: Sequence[str] | None = None,
        name: str = "sweep",
        out: str | Path = "sweep",
        folder: str | Path | None = None,
        plots: Sequence[Plot] = (),
        task: Task = simulate,
    ) -> None:
        self.name = name
        self.folder = SweepFolder(Path(out))
        self.plots = tuple(plots)
        self._task = task
        base: Mapping[str, Any]
        if isinstance(scenario, Mapping):
            base, self.scenario = scenario, "given in the sweep"
        else:
            base, self.scenario = read_scenario(scenario).values, str(scenario)
            folder = folder or Path(scenario).parent
        self.parameters = {path: expand_values(values, f"parameters.{path}") for path, values in parameters.items()}
        start = Path(folder or ".").resolve()
        paths = [path.strip() for name in self.parameters for path in name.split(",")]
        self.runs = plan_runs(uniform(base, paths, start), self.parameters, list(seeds), transports, start)
        if task is simulate:
            check_runs(self.runs)

    def run(
        self,
        workers: int | None = None,
        *,
        ray: bool = False,
        progress: Callable[[SweepProgress], None] | None = None,
    ) -> pl.DataFrame:
        """The table of all runs; finished ones in the folder are not repeated, failed ones are.

        One row per run: parameters by their paths, `seed`, `transport`, `error` (empty on success), the figures with
        units in their names, `wall_s`. The same table is in `results.parquet`. An interrupted call (Ctrl-C) leaves the
        table of the finished runs.

        Args:
            workers: Number of processes, or of concurrent runs on Ray; None: number of processors.
            ray: Run on a Ray cluster instead of processes of this machine.
            progress: Called at the start and after each run.

        Raises:
            OpenmrcError: another sweep uses the folder, or Ray is not installed.
        """
        if workers is not None and workers < 1:
            raise ConfigError("workers", workers, "at least 1")
        if ray:
            require_ray()
        with self.folder.locked():
            self.folder.describe(self._description())
            missing = self._missing()
            distinct = len({run.spec.key for run in self.runs})
            state = SweepProgress(distinct, distinct - len(missing), distinct - len(missing), 0)
            try:
                if progress:
                    progress(state)
                with closing(self._executed(missing, workers, ray=ray)) as outcomes:
                    for spec, outcome in outcomes:
                        self.folder.keep(spec, outcome)
                        state = SweepProgress(
                            state.total,
                            state.done + 1,
                            state.kept,
                            state.failed + bool(outcome["error"]),
                            outcome["error"] or state.last_error,
                        )
                        if progress:
                            progress(state)
            finally:
                frame = self.folder.write_table(self.runs)
            return frame

    def _executed(self, specs: list[RunSpec], workers: int | None, *, ray: bool) -> Outcomes:
        if ray:
            yield from run_on_ray(self._task, specs, workers)
        else:
            yield from run_in_processes(self._task, specs, workers or len(os.sched_getaffinity(0)))

    def _missing(self) -> list[RunSpec]:
        """Each simulation once, without those that have succeeded before."""
        missing: dict[str, RunSpec] = {}
        for run in self.runs:
            before = self.folder.outcome(run.spec.key)
            if before is None or before["error"]:
                missing[run.spec.key] = run.spec
        return list(missing.values())

    def _description(self) -> dict[str, Any]:
        return {
            "sweep": self.name,
            "scenario": self.scenario,
            "parameters": self.parameters,
            "seeds": sorted({run.spec.seed for run in self.runs}),
            "transports": sorted({run.spec.transport for run in self.runs}),
            "runs": len(self.runs),
        }
