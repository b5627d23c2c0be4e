"""Statistics of the planes of sending connections: packets, losses, estimated rate, queueing delay, silence."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openmrc import Connection
from openmrc.errors import OpenmrcError
from openmrc.verbs.snapshots import PlaneStatistics

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PlaneReport", "PlaneWatch", "WatchReport"]

_INTERVAL_S = 0.02
_SAMPLES_MAX = 4096  # at this number every second one is dropped


@dataclass(frozen=True, slots=True)
class PlaneReport:
    """One plane during a watch, all connections together.

    Args:
        plane: Number of the port.
        sent_packets: Packets sent, repeated ones included.
        lost_packets: Presumed losses; some of them may have been late.
        lost_share: The same as a share of the packets sent.
        acked_packets: Packets that arrived.
        rate_bps: Estimated rate: delivered rate, median of the samples; for a plane that marks, whose rate is not
            estimated, mean of the whole time.
        base_rtt_us: Idle round trip.
        queue_delay_us: Queueing delay, mean of the samples.
        queue_delay_max_us: Largest sample.
        target_delay_us: The sender's target of the queueing delay.
        marking: The plane marks congestion (ECN).
        silent: The plane gave no answer while others did, at the end.
        silent_share: Share of samples in which it was silent.
    """

    plane: int
    sent_packets: int
    lost_packets: int
    lost_share: float
    acked_packets: int
    rate_bps: int
    base_rtt_us: float
    queue_delay_us: float
    queue_delay_max_us: float
    target_delay_us: float
    marking: bool
    silent: bool
    silent_share: float


@dataclass(frozen=True, slots=True)
class WatchReport:
    """Connections during a watch.

    Args:
        sent_packets: Packets sent, repeated ones included.
        retransmitted_packets: Repeated packets.
        ecn_marks: Marks reported for packets sent.
        planes: One report per plane; empty if planes are not controlled one by one.
    """

    sent_packets: int
    retransmitted_packets: int
    ecn_marks: int
    planes: tuple[PlaneReport, ...]

    @property
    def retransmitted_share(self) -> float:
        """Repeated packets as a share of all."""
        return _share(self.retransmitted_packets, self.sent_packets)

    @property
    def queue_delay_us(self) -> float | None:
        """Mean queueing delay of the plane with the largest; None: unknown."""
        return max((plane.queue_delay_us for plane in self.planes), default=None)


class PlaneWatch:
    """Samples the planes of connections from a thread, some fifty times a second, while `running`.

    Args:
        connections: They send over the same ports.
    """

    def __init__(self, connections: Sequence[Connection]) -> None:
        self._connections = connections
        self._began_s = time.monotonic()
        self._first = self._planes()
        self._counts = self._totals()
        self._samples: list[list[list[PlaneStatistics]]] = []
        self._ended = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Samples until the block ends."""
        self._ended.clear()
        thread = threading.Thread(target=self._run, name="openmrc-planes", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def report(self) -> WatchReport:
        """Counters since the watch was created, and the samples so far including a current one."""
        last = self._planes()
        elapsed_s = time.monotonic() - self._began_s
        samples = [*self._samples, last]
        planes = tuple(
            _report(
                plane,
                [one[plane] for one in self._first],
                [[one[plane] for one in sample] for sample in samples],
                elapsed_s,
            )
            for plane in range(len(last[0]))
        )
        sent, retransmitted, marks = (now - then for now, then in zip(self._totals(), self._counts, strict=True))
        return WatchReport(sent, retransmitted, marks, planes)

    def _run(self) -> None:
        step, turn = 1, 0
        while not self._ended.wait(_INTERVAL_S):
            turn += 1
            if turn % step:
                continue
            try:
                self._samples.append(self._planes())
            except OpenmrcError:  # a failed connection: the waiter of its writes gets the reason
                return
            if len(self._samples) == _SAMPLES_MAX:
                del self._samples[::2]
                step *= 2

    def _planes(self) -> list[list[PlaneStatistics]]:
        return [connection.qp.plane_statistics() for connection in self._connections]

    def _totals(self) -> tuple[int, int, int]:
        found = [connection.statistics() for connection in self._connections]
        return (
            sum(one.sent_packets for one in found),
            sum(one.retransmitted_packets for one in found),
            sum(one.ecn_marks_received for one in found),
        )


def _report(
    plane: int, first: Sequence[PlaneStatistics], samples: Sequence[Sequence[PlaneStatistics]], elapsed_s: float
) -> PlaneReport:
    last = samples[-1]
    sent, lost, acked = (
        sum(getattr(one, name) for one in last) - sum(getattr(one, name) for one in first)
        for name in ("sent_packets", "lost_packets", "acked_packets")
    )
    sent_bits = 8 * (sum(one.sent_bytes for one in last) - sum(one.sent_bytes for one in first))
    delivered_bps = _share(acked, sent) * sent_bits / max(elapsed_s, 1e-6)
    found_bps = statistics.median(sum(one.rate_bps for one in sample) for sample in samples)
    # A QP without traffic on a plane has no delay to report.
    delays_us = [max(one.queue_delay_ns for one in sample) / 1000 for sample in samples]
    trips_ns = [one.base_rtt_ns for one in last if one.base_rtt_ns > 0]
    return PlaneReport(
        plane=plane,
        sent_packets=sent,
        lost_packets=lost,
        lost_share=_share(lost, sent),
        acked_packets=acked,
        rate_bps=int(found_bps or delivered_bps),
        base_rtt_us=min(trips_ns, default=0) / 1000,
        queue_delay_us=statistics.fmean(delays_us),
        queue_delay_max_us=max(delays_us),
        target_delay_us=max(one.target_delay_ns for one in last) / 1000,
        marking=any(one.marking for one in last),
        silent=any(one.silent for one in last),
        silent_share=_share(sum(any(one.silent for one in sample) for sample in samples), len(samples)),
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
