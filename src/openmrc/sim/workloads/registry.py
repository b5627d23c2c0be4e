"""Registry of workloads by name: validates settings, and generates a graph of ops on the fabric's hosts."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic import ValidationError

from openmrc.config.section import KeyPath
from openmrc.config.yaml_document import Document
from openmrc.errors import ConfigError, did_you_mean
from openmrc.sim.ops import Array, OpGraph, join_graphs
from openmrc.sim.workloads import collective, flows, from_file, poisson, training
from openmrc.sim.workloads.ranks import Place, Ranks
from openmrc.sim.workloads.values import Settings

__all__ = ["WORKLOADS", "Workload", "build", "parse_workload", "workload_problems"]


@dataclass(frozen=True)
class Workload:
    """A registered workload: its settings class, and its generator of a graph over ranks."""

    settings: type[Settings]
    generate: Callable[[Any, Ranks], OpGraph]


WORKLOADS: Mapping[str, Workload] = {
    "permutation": Workload(flows.Permutation, flows.permutation),
    "incast": Workload(flows.Incast, flows.incast),
    "flows": Workload(flows.Flows, flows.flows),
    "all_to_all": Workload(collective.AllToAll, collective.all_to_all),
    "all_reduce": Workload(collective.AllReduce, collective.all_reduce),
    "all_gather": Workload(collective.AllGather, collective.all_gather),
    "reduce_scatter": Workload(collective.ReduceScatter, collective.reduce_scatter),
    "neighbours": Workload(collective.Neighbours, collective.neighbours),
    "poisson": Workload(poisson.Poisson, poisson.poisson),
    "training": Workload(training.Training, training.training),
    "matrix": Workload(from_file.Matrix, from_file.matrix),
    "goal": Workload(from_file.Goal, from_file.goal),
    "csv": Workload(from_file.Csv, from_file.csv),
}

Spec = Mapping[str, Any] | Settings


def build(
    spec: Spec | Sequence[Spec],
    fabric: Place,
    seed: int,
    *,
    document: Document | None = None,
    folder: Path | None = None,
) -> OpGraph:
    """The ops of a workload, or of several that run side by side.

    Args:
        spec: Settings, checked or as written (`{"name": "permutation", "bytes": "2MB"}`), or a list of such.
        fabric: The simulated fabric.
        seed: Seed of the run; every job draws from a stream of its own, identified by its position in the list and its
            name.
        document: The file that contains `spec` at `workload`, for the lines in errors.
        folder: Base of relative paths of input files (default: the working directory).

    Raises:
        ConfigError: naming the field (`workload.bytes`; of the second of several: `workload.1.bytes`), its value, and
            what is allowed.
    """
    whole = document or Document({})
    if not isinstance(spec, list | tuple):
        return _build_one(cast("Spec", spec), fabric, seed, whole, ("workload",), folder or Path())
    if not spec:
        raise whole.problem(("workload",), [], "at least one workload")
    return join_graphs(
        [_build_one(each, fabric, seed, whole, ("workload", at), folder or Path()) for at, each in enumerate(spec)]
    )


def parse_workload(spec: Spec, document: Document | None = None, place: KeyPath = ("workload",)) -> Settings:
    """The settings in `spec`, checked.

    Raises:
        ConfigError: the first of their problems.
    """
    if isinstance(spec, Settings):
        return spec
    problems = workload_problems(spec, document, place)
    if problems:
        # An unknown key explains the one that is then missing.
        raise min(problems, key=lambda problem: problem.field != "key")
    return WORKLOADS[spec["name"]].settings.model_validate(dict(spec))


def workload_problems(spec: Any, document: Document | None = None, place: KeyPath = ("workload",)) -> list[ConfigError]:
    """All problems of one workload's settings that are visible without a fabric.

    `document` is the file that contains `spec` at `place`, for the lines in the problems.
    """
    whole = document or Document({})
    if not isinstance(spec, Mapping):
        return [whole.problem(place, spec, "settings such as {name: permutation, bytes: 2MB}")]
    name = spec.get("name")
    if not isinstance(name, str) or name not in WORKLOADS:
        hint = did_you_mean(name, WORKLOADS) if isinstance(name, str) else None
        return [whole.problem((*place, "name"), name, f"one of {', '.join(sorted(WORKLOADS))}", hint)]
    settings = WORKLOADS[name].settings
    try:
        settings.model_validate(dict(spec))
    except ValidationError as error:
        return _Inside(whole, place).problems(error, settings)
    return []


class _Inside(Document):
    """A section of a document whose messages use the full place."""

    def __init__(self, whole: Document, place: KeyPath) -> None:
        super().__init__({}, whole.source)
        self._whole, self._place = whole, place

    def problem(self, place: KeyPath, value: object, allowed: str, hint: str | None = None) -> ConfigError:
        return self._whole.problem((*self._place, *place), value, allowed, hint)

    def line(self, place: KeyPath) -> int | None:
        return self._whole.line((*self._place, *place))


def _build_one(spec: Spec, fabric: Place, seed: int, document: Document, place: KeyPath, folder: Path) -> OpGraph:
    settings = parse_workload(spec, document, place)
    stream = zlib.crc32(f"{'/'.join(map(str, place))}/{settings.job or settings.name}".encode())
    rng = np.random.default_rng([seed, stream])
    try:
        ranks = _ranks(settings, fabric, rng, folder)
        graph = WORKLOADS[settings.name].generate(settings, ranks)
    except ConfigError as error:
        if error.source is not None:  # an input file, which has lines of its own
            raise
        if error.field == "workload":
            raise document.problem(place, error.value, error.allowed, error.hint) from None
        inner = (int(part) if part.isdigit() else part for part in error.field.split("."))
        raise document.problem((*place, *inner), error.value, error.allowed, error.hint) from None
    return graph.placed(ranks.hosts, settings.start, settings.job or settings.name)


def _ranks(settings: Settings, fabric: Place, rng: np.random.Generator, folder: Path) -> Ranks:
    hosts = _host_list(settings.hosts, fabric.hosts)
    if settings.order == "random":
        hosts = rng.permutation(hosts)
    elif settings.order == "t0":
        hosts = np.sort(hosts)  # T0s are numbered in the order of their hosts
    t0 = hosts // fabric.hosts_per_t0
    pod = t0 // fabric.t0s_per_pod if fabric.t0s_per_pod else t0 * 0
    return Ranks(hosts, t0, pod, fabric.line_rate_bps, rng, folder)


def _host_list(wanted: tuple[int | str, ...] | None, hosts: int) -> Array:
    """The hosts of a job: all, or numbers and ranges, each host once."""
    if wanted is None:
        return np.arange(hosts)
    parts = []
    for item in wanted:
        match = re.fullmatch(r"\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*", str(item))
        if match is None or int(match[2] or match[1]) < int(match[1]) or int(match[2] or match[1]) >= hosts:
            raise ConfigError("hosts", item, f'hosts 0 to {hosts - 1}, as numbers and ranges such as "0-{hosts - 1}"')
        parts.append(np.arange(int(match[1]), int(match[2] or match[1]) + 1))
    chosen = np.concatenate(parts)
    if len(np.unique(chosen)) != len(chosen):
        twice = int(np.flatnonzero(np.bincount(chosen) > 1)[0])
        raise ConfigError("hosts", twice, "each host once")
    return chosen
