"""Snapshots returned by `statistics()`: frozen, comparable, easily converted to JSON (`dataclasses.asdict`).

Counters never decrease and start at 0 with the object; times are nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openmrc.verbs.engine_statistics import (
    CcStatistics,
    DropStatistics,
    EvSetStatistics,
    PlaneStatistics,
    PortStatistics,
    QueuePairStatistics,
    QueuePairTotals,
)
from openmrc.verbs.nic_statistics import DeviceStatistics, SocketStatistics, WaitStatistics

__all__ = [
    "CcStatistics",
    "CompletionQueueStatistics",
    "DeviceStatistics",
    "DropStatistics",
    "EvSetStatistics",
    "MemoryRegionStatistics",
    "PlaneStatistics",
    "PortStatistics",
    "QueuePairStatistics",
    "QueuePairTotals",
    "SharedReceiveQueueStatistics",
    "SocketStatistics",
    "WaitStatistics",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionQueueStatistics:
    """A completion queue."""

    capacity: int
    polled: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRegionStatistics:
    """A memory region."""

    address: int
    length_bytes: int
    remote_write: bool
    registered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedReceiveQueueStatistics:
    """A shared receive queue."""

    posted: int
    limit: int


def queue_pair_statistics(raw: dict[str, Any]) -> QueuePairStatistics:
    """Statistics of a QP from the native values."""
    cc, ev = raw.pop("cc"), raw.pop("ev")
    return QueuePairStatistics(
        **raw, cc=None if cc is None else CcStatistics(**cc), ev=None if ev is None else EvSetStatistics(**ev)
    )


def device_statistics(raw: dict[str, Any]) -> DeviceStatistics:
    """Statistics of a device from the native values."""
    drops, waits, qps = (raw.pop(name) for name in ("drops", "waits", "qps"))
    ports = [PortStatistics(**{**port, "socket": SocketStatistics(**port["socket"])}) for port in raw.pop("ports")]
    return DeviceStatistics(
        **raw,
        waits=WaitStatistics(**waits),
        qps=QueuePairTotals(**qps),
        drops=DropStatistics(**drops),
        ports=tuple(ports),
    )
