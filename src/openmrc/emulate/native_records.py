"""Counters and notices of the emulated fabric, as the native side hands them over.

Written by tools/spec.py from spec/fabric-statistics.toml: edit that, then `make spec`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

__all__ = [
    "FabricCounters",
    "FabricNotice",
    "LinkCounters",
    "NoticeKind",
]


class NoticeKind(IntEnum):
    """Subject of a notice."""

    FAULT_BEGINS = 0
    """A fault begins."""
    FAULT_ENDS = 1
    """A fault ends: its time is over, or its period pauses."""
    FAULT_REMOVED = 2
    """A fault was repaired."""
    CARRIER = 3
    """The carrier of a host's port has changed."""


class FabricNotice(NamedTuple):
    """A change in the fabric, for observers."""

    time_ps: int
    """Time since the fabric started."""
    kind: NoticeKind
    """Subject."""
    fault: int
    """Id of the fault; CARRIER: 0."""
    host: int
    """CARRIER: the host; of hosts with several NICs, the NIC."""
    plane: int
    """CARRIER: the plane."""
    up: bool
    """CARRIER: the port has a carrier."""

    @classmethod
    def of(cls, raw: tuple[Any, ...]) -> FabricNotice:
        """The record of the values that the native side hands over in this order."""
        return cls(raw[0], NoticeKind(raw[1]), raw[2], raw[3], raw[4], raw[5])


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricCounters:
    """The fabric as a whole."""

    time_ns: int
    """Time since the fabric started."""
    received: int
    """Datagrams received from hosts."""
    delivered: int
    """Datagrams sent to hosts."""
    delivered_bytes: int
    """Bytes of these from the UDP payload on."""
    inside: int
    """Packets in queues and on links."""
    unknown_source: int
    """Dropped: the source is not a host of the plane."""
    oversized: int
    """Dropped: longer than any packet of the protocol."""
    payloads_full: int
    """Dropped: the memory for payloads was full."""
    socket_overflow: int
    """Lost by the kernel before the fabric read them."""
    send_calls: int
    """System calls that send."""
    send_failed: int
    """Refused by the kernel."""
    bind_failed: int
    """Dropped: no socket could be bound to the source port."""
    sockets_open: int
    """Sending sockets that are open."""
    sockets_opened: int
    """Sending sockets opened."""
    sockets_closed: int
    """Sending sockets closed to make room for others."""
    wakeups: int
    """Iterations of the fabric's thread."""
    late_max_ns: int
    """Largest delay of a packet beyond its last link's departure time: a measure of the scheduling of the fabric."""
    cpu_ns: int
    """Processor time of the fabric's thread."""
    active_faults: tuple[int, ...]
    """Ids of the faults that act now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCounters:
    """One link in one direction, with the queue of the port that feeds it."""

    plane: int
    """Plane."""
    kind: str
    """`nic_up` (host to T0), `nic_down` (T0 to host), `t0_up` (T0 to T1) or `t1_down` (T1 to T0)."""
    host: int | None
    """Host at one end; None: the link connects switches."""
    t0: int | None
    """T0 at one end."""
    t1: int | None
    """T1 at one end; None: the link connects a host."""
    packets: int
    """Sent."""
    bytes: int
    """Sent."""
    marks: int
    """Marked."""
    trims: int
    """Trimmed."""
    corrupted: int
    """Corrupted by a fault."""
    duplicated: int
    """Duplicated by a fault."""
    reordered: int
    """Held back by a fault."""
    drop_queue: int
    """Lost: the queue was full."""
    drop_control_queue: int
    """Lost: the queue of control packets was full."""
    drop_down: int
    """Lost: the link was down."""
    drop_blackhole: int
    """Lost silently by the link, as all are."""
    drop_loss: int
    """Lost at random."""
    drop_crowded: int
    """Lost: the plane held its limit of packets."""
    queue_peak_bytes: int
    """Longest queue."""
