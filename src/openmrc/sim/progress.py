"""How far a simulation is: what a progress bar shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Progress", "Watcher"]


@dataclass(frozen=True)
class Progress:
    """A moment of a run.

    Args:
        transport: Which transport runs.
        index, count: Its place among the transports of this call, from 0.
        now_ps: Simulated time.
        received_bytes, total_bytes: Payload received so far, of all.
        packets: Data packets simulated so far.
        wall_s: Time that this transport has taken so far.
    """

    transport: str
    index: int
    count: int
    now_ps: int
    received_bytes: int
    total_bytes: int
    packets: int
    wall_s: float

    @property
    def share(self) -> float:
        """Payload received, 0 to 1."""
        return self.received_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def packets_per_second(self) -> float:
        """Data packets simulated per second of real time."""
        return self.packets / self.wall_s if self.wall_s > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """Real time that is left if the rest goes like what is done; None before there is anything to go by."""
        return self.wall_s * (1 - self.share) / self.share if self.share > 0 else None


Watcher = Callable[[Progress], None]
