"""Progress of a simulation, for progress bars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Progress", "Watcher"]


@dataclass(frozen=True)
class Progress:
    """State of a run at one moment.

    Args:
        transport: The transport in progress.
        index, count: Its position among the transports of this call, from 0.
        now_ps: Simulated time.
        packets, total_packets: Data packets received so far, and minimum in total.
        wall_s: Wall time of this transport so far.
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
        """Completed share, 0 to 1; retransmissions count, so that the last part may take longer than expected."""
        return min(self.packets / self.total_packets, 1.0) if self.total_packets else 0.0

    @property
    def packets_per_second(self) -> float:
        """Data packets simulated per second of real time."""
        return self.packets / self.wall_s if self.wall_s > 0 else 0.0

    @property
    def left_s(self) -> float | None:
        """Estimated remaining wall time at the current rate; None without a basis."""
        return self.wall_s * (1 - self.share) / self.share if self.share > 0 else None


Watcher = Callable[[Progress], None]
