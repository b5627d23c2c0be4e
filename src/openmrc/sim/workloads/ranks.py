"""Hosts of a job in rank order, and their attachment."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from openmrc.sim.ops import Array

__all__ = ["Place", "Ranks"]


class Place(Protocol):
    """Interface of a fabric for workloads; `openmrc.fabric.Fabric` implements it."""

    @property
    def hosts(self) -> int: ...
    @property
    def hosts_per_t0(self) -> int: ...
    @property
    def t0s_per_pod(self) -> int: ...
    @property
    def line_rate_bps(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Ranks:
    """The hosts of a job in rank order: rank i runs at `hosts[i]`.

    `t0` and `pod` (or site) hold the number of the rank's T0 and pod. `line_rate_bps` is a NIC's rate over all planes.
    Relative paths of input files start at `folder`. Generators use ranks only; the graph is mapped to the hosts
    afterwards.
    """

    hosts: Array
    t0: Array
    pod: Array
    line_rate_bps: int
    rng: np.random.Generator
    folder: Path

    def __len__(self) -> int:
        return len(self.hosts)
