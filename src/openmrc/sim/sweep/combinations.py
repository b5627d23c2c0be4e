"""The runs of a sweep: every combination of values, for every seed and transport, each with a key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from openmrc.errors import ConfigError, did_you_mean
from openmrc.sim.sweep.paths import set_path

__all__ = ["PlannedRun", "RunSpec", "Task", "combinations", "plan_runs", "run_key"]

RUNS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class RunSpec:
    """Complete description of one simulation for a worker, transferred by pickle.

    `key` is a hash of all inputs of the result except the program: same key, same run. `folder` is the base of relative
    file names in the scenario.
    """

    key: str
    scenario: dict[str, Any]
    transport: str
    seed: int
    folder: str


# Runs one simulation: takes its description and returns its figures by column name. Importable by name.
Task = Callable[[RunSpec], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One row of the sweep's table: the values of the parameters, and the simulation for it.

    Rows that differ only in settings of another transport share one simulation.
    """

    parameters: dict[str, Any]
    spec: RunSpec


def combinations(parameters: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Every combination, the last parameter changing fastest.

    A name of several paths separated by commas varies them together; its values are lists of the same length.

    Raises:
        ConfigError: naming a parameter with a value that does not have one part per path.
    """
    for values in product(*parameters.values()):
        point: dict[str, Any] = {}
        for name, value in zip(parameters, values, strict=True):
            paths = [path.strip() for path in name.split(",")]
            if len(paths) == 1:
                point[paths[0]] = value
            elif isinstance(value, list) and len(value) == len(paths):
                point.update(zip(paths, value, strict=True))
            else:
                raise ConfigError(f"parameters.{name}", value, f"lists of {len(paths)} values, one per path")
        yield point


def plan_runs(
    scenario: Mapping[str, Any],
    parameters: Mapping[str, Sequence[Any]],
    seeds: Sequence[int],
    transports: Sequence[str] | None,
    folder: Path,
) -> list[PlannedRun]:
    """All runs, first seed first, so that an interrupted sweep has covered every combination as early as possible.

    Args:
        scenario: The scenario as plain dictionaries and lists, its transports as settings by name.
        parameters: Values by dotted path.
        seeds: One run of each combination for each seed.
        transports: Selection of the scenario's transports; None: all of them.
        folder: Base of relative file names in the scenario.

    Raises:
        ConfigError: a path that does not exist, a transport the scenario lacks, or too many runs.
    """
    names = _transports(scenario, transports)
    count = len(seeds) * len(names)
    for values in parameters.values():
        count *= len(values)
    if count > RUNS_MAX:
        raise ConfigError("parameters", f"{count:,} runs", f"at most {RUNS_MAX:,} runs")
    points = list(combinations(parameters))
    trees = [_applied(scenario, point) for point in points]
    return [
        PlannedRun(point, _spec(tree, seed, transport, folder))
        for seed in seeds
        for point, tree in zip(points, trees, strict=True)
        for transport in names
    ]


def run_key(scenario: Mapping[str, Any], folder: Path) -> str:
    """Hash of a scenario and of the contents of every file it names, 20 hexadecimal digits."""
    digest = hashlib.sha256(json.dumps(scenario, sort_keys=True, ensure_ascii=False).encode())
    for text in _strings(scenario):
        named = folder / text
        if "\n" not in text and "\0" not in text and len(text) < 256 and named.is_file():
            digest.update(hashlib.sha256(named.read_bytes()).digest())
    return digest.hexdigest()[:20]


def _transports(scenario: Mapping[str, Any], wanted: Sequence[str] | None) -> list[str]:
    there = list(scenario["transports"])
    for name in wanted or ():
        if name not in there:
            raise ConfigError("transports", name, ", ".join(there), hint=did_you_mean(name, there))
    return list(wanted or there)


def _applied(scenario: Mapping[str, Any], point: Mapping[str, Any]) -> Any:
    tree: Any = scenario
    for path, value in point.items():
        tree = set_path(tree, path, value)
    return tree


def _spec(tree: Mapping[str, Any], seed: int, transport: str, folder: Path) -> RunSpec:
    scenario = {**tree, "seed": seed, "transports": {transport: tree["transports"][transport]}}
    return RunSpec(run_key(scenario, folder), scenario, transport, seed, str(folder))


def _strings(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, Mapping):
        for value in node.values():
            yield from _strings(value)
    elif isinstance(node, list):
        for value in node:
            yield from _strings(value)
