"""The task of a sweep: one simulation, one transport, one thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from openmrc.errors import ConfigError
from openmrc.sim.run import run
from openmrc.sim.scenario import Scenario, Watch
from openmrc.sim.scenario_file import ScenarioFileError, make_scenario
from openmrc.sim.sweep.combinations import PlannedRun, RunSpec

__all__ = ["check_runs", "simulate"]

_TRIED_MAX = 200


def simulate(spec: RunSpec) -> dict[str, Any]:
    """The figures of one run, by column name.

    Raises:
        ConfigError: the scenario with these values is wrong.
    """
    # A sweep keeps figures only: time series would waste time and memory.
    scenario = replace(_scenario(spec), watch=Watch((), ()))
    result = run(scenario, transport=spec.transport, threads=1)
    figures = {name: value for name, value in result[spec.transport].summary.items() if not isinstance(value, dict)}
    drops = result[spec.transport].summary["drops"]
    by_cause = {f"drops_{cause}": packets for cause, packets in drops.items()}
    about = {"commit": result.commit, "scenario_hash": result.scenario_hash}
    return {**figures, "drops": sum(drops.values()), **by_cause, **about}


def check_runs(runs: Sequence[PlannedRun]) -> None:
    """Refuses parameters that are not settings, and sweeps without any possible run.

    A run whose values contradict each other does not prevent the others: it becomes a row with an error.

    Raises:
        ConfigError: naming the path and similar ones, or the problem of the first run.
    """
    first: ScenarioFileError | None = None
    for planned in runs[:_TRIED_MAX]:
        try:
            _scenario(planned.spec)
        except ScenarioFileError as error:
            for problem in error.problems:
                if problem.field == "key" and problem.value in planned.parameters:
                    path = str(problem.value)
                    raise ConfigError(f"parameters.{path}", path, problem.allowed, hint=problem.hint) from None
            first = first or error
        else:
            return
    if first is not None:
        raise _in_words_of_the_sweep(first, runs[0])


def _in_words_of_the_sweep(error: ScenarioFileError, planned: PlannedRun) -> ConfigError:
    """The error, or its first problem about a value of the sweep, with the sweep's name for that value."""
    for problem in error.problems:
        if problem.field in planned.parameters:
            return ConfigError(f"parameters.{problem.field}", problem.value, problem.allowed, hint=problem.hint)
    return error


def _scenario(spec: RunSpec) -> Scenario:
    return make_scenario(folder=Path(spec.folder), **spec.scenario)
