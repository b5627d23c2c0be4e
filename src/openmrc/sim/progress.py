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
        packets, total_packets: Data packets that receivers got so far, and at least have to get in all.
        wall_s: Time that this transport has taken so far.
    """

    transport: str
    index: int
    count: int
    now_ps: int
    packets: int
    total_packets: int
    wall_s: float

    @property
    def share(self) -> float:
        """What is done, 0 to 1; what is sent again counts, so that the last part may take longer than it looks."""
        return min(self.packets / self.total_packets, 1.0) if self.total_packets else 0.0

    @property
    def packets_per_second(self) -> float:
        """Data packets simulated per second of real time."""
        return self.packets / self.wall_s if self.wall_s > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """Real time that is left if the rest goes like what is done; None before there is anything to go by."""
        return self.wall_s * (1 - self.share) / self.share if self.share > 0 else None


Watcher = Callable[[Progress], None]
