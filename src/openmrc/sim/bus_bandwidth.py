"""Bus bandwidth of collectives: the NIC rate at which the collective would take as long without any other cost.

This measure, also used by NCCL's tests, compares collectives of any kind and number of ranks with the rate of a NIC:
the buffer of a rank over the time of one pass, times the share that a NIC has to carry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openmrc.sim.tables import Table
from openmrc.sim.workloads.collective import AllGather, AllReduce, AllToAll, ReduceScatter
from openmrc.sim.workloads.registry import parse_workload

__all__ = ["bus_bandwidths"]

_Collective = AllReduce | AllGather | ReduceScatter | AllToAll


def bus_bandwidths(
    workload: Mapping[str, Any] | Sequence[Mapping[str, Any]], flows: Table[Any]
) -> dict[str, float | None]:
    """Bus bandwidth in b/s by job, for jobs that are collectives; None if they were not received completely.

    Args:
        workload: Of the scenario.
        flows: All sends with their times.
    """
    specs = [workload] if isinstance(workload, Mapping) else list(workload)
    found: dict[str, float | None] = {}
    for settings in map(parse_workload, specs):
        job = settings.job or settings.name
        if job in found:  # the table of flows does not distinguish jobs of one name
            del found[job]
        elif isinstance(settings, _Collective):
            found[job] = _bandwidth(settings, flows, flows["job"] == job)
    return found


def _bandwidth(settings: _Collective, flows: Table[Any], own: Any) -> float | None:
    received = flows["received_ps"][own]
    if not len(received) or bool((received < 0).any()):
        return None
    ranks = settings.group_size or len(np.unique(flows["host"][own]))
    elapsed_ps = int(received.max()) - int(flows["started_ps"][own].min())
    carried = _carried_bytes(settings, ranks) * settings.repeat
    return carried * 8e12 / elapsed_ps if elapsed_ps > 0 else None


def _carried_bytes(settings: _Collective, ranks: int) -> float:
    """Bytes that one NIC sends in one pass of the best algorithm."""
    if isinstance(settings, AllToAll):
        return float(settings.bytes * (ranks - 1))
    share = (ranks - 1) / ranks
    return float(settings.bytes * share * (2 if isinstance(settings, AllReduce) else 1))
