"""Counters of an emulated fabric as values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["FabricStatistics", "LinkStatistics"]

KINDS = ("nic_up", "nic_down", "t0_up", "t1_down")
_NOWHERE = 2**64 - 1


@dataclass(frozen=True)
class LinkStatistics:
    """One link in one direction. `packets` and `bytes` count transmissions on the wire; drops are by cause.

    `kind`: nic_up (host to T0), nic_down (T0 to host), t0_up (T0 to T1), t1_down (T1 to T0). `name` has both ends.
    """

    plane: int
    kind: str
    host: int | None
    t0: int | None
    t1: int | None
    packets: int
    bytes: int
    marks: int
    trims: int
    corrupted: int
    duplicated: int
    reordered: int
    drop_queue: int
    drop_control_queue: int
    drop_down: int
    drop_blackhole: int
    drop_loss: int
    drop_crowded: int
    queue_peak_bytes: int

    @classmethod
    def from_row(cls, row: list[int]) -> LinkStatistics:
        """The link of one row of the native table."""
        host, t0, t1 = (None if value == _NOWHERE else value for value in row[2:5])
        return cls(row[0], KINDS[row[1]], host, t0, t1, *row[5:])

    @property
    def name(self) -> str:
        """Ends of the link in words: `plane 0: host 1 -> t0 0`."""
        ends = {
            "nic_up": f"host {self.host} -> t0 {self.t0}",
            "nic_down": f"t0 {self.t0} -> host {self.host}",
            "t0_up": f"t0 {self.t0} -> t1 {self.t1}",
            "t1_down": f"t1 {self.t1} -> t0 {self.t0}",
        }
        return f"plane {self.plane}: {ends[self.kind]}"

    @property
    def drops(self) -> int:
        """Packets lost here, for any cause."""
        return (
            self.drop_queue
            + self.drop_control_queue
            + self.drop_down
            + self.drop_blackhole
            + self.drop_loss
            + self.drop_crowded
        )


@dataclass(frozen=True)
class FabricStatistics:
    """The fabric as a whole, and every link.

    `unknown_source`: datagrams whose source is not a host of the plane they were sent on. `socket_overflow`: lost by
    the kernel before the fabric read them. `late_max_ns`: the largest delay of a packet beyond its last link's
    departure time, a measure of the scheduling of the fabric. `cpu_ns`: CPU time of the fabric's thread.
    """

    time_ns: int
    received: int
    delivered: int
    delivered_bytes: int
    inside: int
    unknown_source: int
    oversized: int
    payloads_full: int
    socket_overflow: int
    send_calls: int
    send_failed: int
    bind_failed: int
    sockets_open: int
    sockets_opened: int
    sockets_closed: int
    wakeups: int
    late_max_ns: int
    cpu_ns: int
    active_faults: tuple[int, ...]
    links: tuple[LinkStatistics, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; every link has its `name` and its sum of `drops`."""
        plain = asdict(self)
        plain["links"] = [asdict(link) | {"name": link.name, "drops": link.drops} for link in self.links]
        return plain
