"""Workloads described by a file of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from openmrc.errors import ConfigError
from openmrc.sim.files.flow_list import load_flow_list
from openmrc.sim.files.goal_graph import load_goal
from openmrc.sim.files.matrix import RemoteTriggers, load_matrix
from openmrc.sim.ops import OpGraph
from openmrc.sim.workloads.ranks import Ranks
from openmrc.sim.workloads.values import Settings
from openmrc.units import parse_time

__all__ = ["Csv", "Goal", "Matrix", "csv", "goal", "matrix"]


def _unit(value: Any) -> int:
    unit_ps = parse_time(value)
    if not 1 <= unit_ps <= 10**12:
        raise ConfigError("calc_unit", value, "1ps to 1s")
    return unit_ps


class Matrix(Settings):
    """The connection matrix (htsim, `.cm`) in `file`; node i is rank i.

    `remote_triggers`: `refuse` a flow whose trigger fires at another host, or read the `send_done_trigger` of a flow
    that ends at that host as its `receipt`.
    """

    name: Literal["matrix"]
    file: str
    remote_triggers: RemoteTriggers = "refuse"


class Goal(Settings):
    """The GOAL schedule in `file`; rank i is rank i. `calc_unit`: duration of `calc 1`."""

    name: Literal["goal"]
    file: str
    calc_unit: Annotated[int, BeforeValidator(_unit)] = 1000


class Csv(Settings):
    """The list of flows in `file` (src,dst,bytes,start); node i is rank i."""

    name: Literal["csv"]
    file: str


def _fitting(loaded: tuple[OpGraph, int], path: Path, ranks: Ranks) -> OpGraph:
    graph, nodes = loaded
    if nodes > len(ranks):
        allowed = f"a file for at most {len(ranks)} nodes, the hosts of the job; this one is for {nodes}"
        raise ConfigError("file", str(path), allowed)
    return graph


def matrix(settings: Matrix, ranks: Ranks) -> OpGraph:
    """The flows of a connection matrix.

    Raises:
        ConfigError: with file and line, or when the job has too few hosts.
    """
    path = ranks.folder / settings.file
    return _fitting(load_matrix(path, settings.remote_triggers), path, ranks)


def goal(settings: Goal, ranks: Ranks) -> OpGraph:
    """The ops of a GOAL schedule.

    Raises:
        ConfigError: with file and line, or when the job has too few hosts.
    """
    path = ranks.folder / settings.file
    return _fitting(load_goal(path, settings.calc_unit), path, ranks)


def csv(settings: Csv, ranks: Ranks) -> OpGraph:
    """The flows of a list.

    Raises:
        ConfigError: with file and line, or when the job has too few hosts.
    """
    path = ranks.folder / settings.file
    return _fitting(load_flow_list(path), path, ranks)
