"""The task of a sweep: one simulation, one transport, one thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from openmrc.errors import ConfigError
from openmrc.sim.scenario import Scenario, Watch
from openmrc.sim.scenario_file import ScenarioFileError, make_scenario
from openmrc.sim.sweep.plan import PlannedRun, RunSpec

__all__ = ["check_runs", "simulate"]

_TRIED_MAX = 200


def simulate(spec: RunSpec) -> dict[str, Any]:
    """The figures of one run, by column name.

    Raises:
        ConfigError: the scenario with these values is wrong.
    """
    from openmrc.sim.run import run

    # A sweep keeps figures only: time series would cost time and memory for nothing.
    scenario = replace(_scenario(spec), watch=Watch((), ()))
    result = run(scenario, transport=spec.transport, threads=1)
    return {
        **result[spec.transport].summary,
        "scenario_hash": scenario.hash,
    }


def check_runs(runs: Sequence[PlannedRun]) -> None:
    """Refuses parameters that name no setting, and sweeps of which no run can be made.

    A run whose values contradict each other is no reason to refuse the others: it becomes a row with an error.

    Raises:
        ConfigError: naming the path and what is near it, or the problem of the first run.
    """
    first: ScenarioFileError | None = None
    for run in runs[:_TRIED_MAX]:
        try:
            _scenario(run.spec)
        except ScenarioFileError as error:
            for problem in error.problems:
                if problem.field == "key" and problem.value in run.parameters:
                    path = str(problem.value)
                    raise ConfigError(f"parameters.{path}", path, problem.allowed, hint=problem.hint) from None
            first = first or error
        else:
            return
    if first is not None:
        raise first


def _scenario(spec: RunSpec) -> Scenario:
    return make_scenario(folder=Path(spec.folder), **spec.scenario)
