"""Workloads by name: settings in, checked; a graph of ops on the fabric's hosts out."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from openmrc.errors import ConfigError, did_you_mean
from openmrc.sim.ops import Array, OpGraph, join_graphs
from openmrc.sim.workloads import collective, flows
from openmrc.sim.workloads.ranks import Place, Ranks
from openmrc.sim.workloads.values import Settings

__all__ = ["WORKLOADS", "Workload", "build", "parse_workload", "workload_problems"]


@dataclass(frozen=True)
class Workload:
    """What a name stands for: the settings it takes, and what makes a graph over ranks of them."""

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
}

Spec = Mapping[str, Any] | Settings


def build(
    spec: Spec | Sequence[Spec], fabric: Place, seed: int, *, field: str = "workload", folder: Path | None = None
) -> OpGraph:
    """The ops of a workload, or of several that run side by side.

    Args:
        spec: Settings, checked or as written (`{"name": "permutation", "bytes": "2MB"}`), or a list of such.
        fabric: Where it runs.
        seed: Seed of the run; every job draws from a stream of its own, named by its place in the list and its name.
        field: Name of the whole in errors.
        folder: Where relative paths of input files start (default: the working directory).

    Raises:
        ConfigError: naming the field (`workload.bytes`; of the second of several: `workload.1.bytes`), what it says,
            and what is allowed.
    """
    if isinstance(spec, Mapping | Settings):
        return _build_one(parse_workload(spec, field), fabric, seed, field, folder, 0)
    if not spec:
        raise ConfigError(field, [], "at least one workload")
    graphs = []
    for at, each in enumerate(spec):
        where = f"{field}.{at}"
        graphs.append(_build_one(parse_workload(each, where), fabric, seed, where, folder, at))
    return join_graphs(graphs)


def parse_workload(spec: Spec, field: str = "workload") -> Settings:
    """The settings that `spec` says, checked.

    Raises:
        ConfigError: the first of what is wrong with them.
    """
    if isinstance(spec, Settings):
        return spec
    problems = workload_problems(spec, field)
    if problems:
        raise problems[0]
    return WORKLOADS[spec["name"]].settings.model_validate(dict(spec))


def workload_problems(spec: Any, field: str = "workload") -> list[ConfigError]:
    """Everything that is wrong with the settings of one workload, as far as it shows without a fabric."""
    if not isinstance(spec, Mapping):
        return [ConfigError(field, spec, "settings such as {name: permutation, bytes: 2MB}")]
    names = ", ".join(sorted(WORKLOADS))
    name = spec.get("name")
    if not isinstance(name, str) or name not in WORKLOADS:
        hint = did_you_mean(name, WORKLOADS) if isinstance(name, str) else None
        return [ConfigError(f"{field}.name", name, f"one of {names}", hint=hint)]
    settings = WORKLOADS[name].settings
    try:
        settings.model_validate(dict(spec))
    except ValidationError as error:
        return [_problem(detail, settings, field) for detail in error.errors(include_url=False)]
    return []


_WORDS = {
    "missing": "required",
    "int_type": "a whole number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
}


def _problem(detail: ErrorDetails, settings: type[Settings], field: str) -> ConfigError:
    # Members of a union add their own names to the location; only what the user wrote is of use.
    path = [part for part in detail["loc"] if isinstance(part, int) or re.fullmatch(r"[a-z_0-9]+", part)]
    name = ".".join([field, *map(str, path)])
    kind, context = detail["type"], detail.get("ctx", {})
    value = None if kind == "missing" else detail["input"]
    cause = context.get("error")
    if kind == "extra_forbidden":
        known = sorted(flows.Flow.model_fields if len(path) > 1 else settings.model_fields)
        return ConfigError(
            f"{field}.{path[0]}" if len(path) == 1 else name,
            value,
            f"keys {', '.join(known)}",
            hint=did_you_mean(str(path[-1]), known),
        )
    if isinstance(cause, ConfigError):
        return ConfigError(name, value, cause.allowed, hint=cause.hint)
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", str(context["expected"]))
        return ConfigError(name, value, f"one of {', '.join(words)}", hint=did_you_mean(str(value), words))
    if kind in ("greater_than_equal", "less_than_equal"):
        bound = f"at least {context['ge']}" if "ge" in context else f"at most {context['le']}"
        return ConfigError(name, value, bound)
    return ConfigError(name, value, _WORDS.get(kind, detail["msg"]))


def _build_one(settings: Settings, fabric: Place, seed: int, field: str, folder: Path | None, place: int) -> OpGraph:
    stream = zlib.crc32(f"workload/{place}/{settings.job or settings.name}".encode())
    rng = np.random.default_rng([seed, stream])
    try:
        ranks = _ranks(settings, fabric, rng, folder or Path())
        graph = WORKLOADS[settings.name].generate(settings, ranks)
    except ConfigError as error:
        raise ConfigError(
            f"{field}.{error.field}", error.value, error.allowed, source=error.source, line=error.line, hint=error.hint
        ) from None
    return graph.placed(ranks.hosts, settings.start, settings.job or settings.name)


def _ranks(settings: Settings, fabric: Place, rng: np.random.Generator, folder: Path) -> Ranks:
    hosts = _host_list(settings.hosts, fabric.hosts)
    if settings.order == "random":
        hosts = rng.permutation(hosts)
    elif settings.order == "t0":
        hosts = hosts[np.lexsort((hosts, hosts // fabric.hosts_per_t0))]
    t0 = hosts // fabric.hosts_per_t0
    return Ranks(hosts, t0, t0, t0 * 0, fabric.planes * fabric.rate_bps, rng, folder)


def _host_list(wanted: int | str | tuple[int | str, ...] | None, hosts: int) -> Array:
    """The hosts that a job names: all, or numbers and ranges, each host once."""
    if wanted is None:
        return np.arange(hosts)
    items = wanted if isinstance(wanted, tuple) else tuple(str(wanted).split(","))
    parts = []
    for item in items:
        match = re.fullmatch(r"\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*", str(item))
        if match is None or int(match[2] or match[1]) < int(match[1]) or int(match[2] or match[1]) >= hosts:
            raise ConfigError("hosts", item, f'hosts 0 to {hosts - 1}, as numbers and ranges such as "0-{hosts - 1}"')
        parts.append(np.arange(int(match[1]), int(match[2] or match[1]) + 1))
    chosen = np.concatenate(parts) if parts else np.empty(0, np.int64)
    if len(np.unique(chosen)) != len(chosen):
        twice = int(np.flatnonzero(np.bincount(chosen) > 1)[0])
        raise ConfigError("hosts", wanted, f"each host once; {twice} is named twice")
    return chosen
