"""Where a job runs: which hosts, in which order, and what these share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from openmrc.sim.ops import Array

__all__ = ["Place", "Ranks"]


class Place(Protocol):
    """What a workload needs to know of a fabric; `openmrc.fabric.Fabric` is one."""

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
    Relative paths of input files start at `folder`. Generators speak of ranks only; the graph is placed on the hosts
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
