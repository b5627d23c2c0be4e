"""Reports about planes: differences of counters, samples of rates and delays, all connections together."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from openmrc.runs.perf.plane_watch import PlaneWatch
from openmrc.verbs.snapshots import PlaneStatistics

IDLE = PlaneStatistics(
    window_bytes=65536,
    in_flight_bytes=0,
    sent_packets=10,
    sent_bytes=40_000,
    lost_packets=1,
    acked_packets=9,
    rate_bps=100_000_000,
    base_rtt_ns=200_000,
    smoothed_rtt_ns=250_000,
    queue_delay_ns=0,
    target_delay_ns=400_000,
    background_loss_ppm=0,
    burst_bytes=4096,
    marking=False,
    silent=False,
    competing=False,
)


class FakeConnection:
    """A connection whose QP has the test's statistics."""

    def __init__(self, planes: list[PlaneStatistics], sent: int = 0, retransmitted: int = 0, marks: int = 0) -> None:
        self.planes = planes
        self.counts = (sent, retransmitted, marks)
        self.qp = SimpleNamespace(plane_statistics=lambda: self.planes)

    def statistics(self) -> Any:
        """Counters of the QP."""
        sent, retransmitted, marks = self.counts
        return SimpleNamespace(sent_packets=sent, retransmitted_packets=retransmitted, ecn_marks_received=marks)


def watch(*connections: FakeConnection) -> PlaneWatch:
    """A watch over fake connections."""
    return PlaneWatch(connections)  # type: ignore[arg-type]


def test_counters_are_those_since_the_watch_was_made():
    one = FakeConnection([IDLE], sent=100, retransmitted=7, marks=3)
    seen = watch(one)
    one.planes = [replace(IDLE, sent_packets=60, lost_packets=6, acked_packets=54)]
    one.counts = (150, 12, 8)
    report = seen.report()
    assert (report.sent_packets, report.retransmitted_packets, report.ecn_marks) == (50, 5, 5)
    assert report.retransmitted_share == pytest.approx(0.1)
    (plane,) = report.planes
    assert (plane.sent_packets, plane.lost_packets, plane.acked_packets) == (50, 5, 45)
    assert plane.lost_share == pytest.approx(0.1)


def test_rates_and_counters_of_connections_add_up_and_delays_do_not():
    first, second = FakeConnection([IDLE, IDLE]), FakeConnection([IDLE, IDLE])
    seen = watch(first, second)
    first.planes = [IDLE, replace(IDLE, queue_delay_ns=3_000_000, base_rtt_ns=150_000, marking=True)]
    second.planes = [IDLE, replace(IDLE, queue_delay_ns=5_000_000, sent_packets=30, silent=True)]
    report = seen.report()
    quiet, busy = report.planes
    assert (quiet.rate_bps, busy.rate_bps) == (200_000_000, 200_000_000)
    assert (quiet.queue_delay_us, busy.queue_delay_us) == (0, 5000)
    assert (busy.base_rtt_us, busy.sent_packets, busy.marking, busy.silent) == (150, 20, True, True)
    assert (quiet.marking, quiet.silent, quiet.silent_share, busy.silent_share) == (False, False, 0, 1)
    assert report.queue_delay_us == 5000


def test_samples_are_taken_while_it_runs():
    one = FakeConnection([replace(IDLE, queue_delay_ns=8_000_000, rate_bps=50)])
    seen = watch(one)
    with seen.running():
        while not seen._samples:
            pass
    one.planes = [IDLE]
    (plane,) = seen.report().planes
    assert plane.queue_delay_max_us == 8000
    assert 0 < plane.queue_delay_us < 8000


def test_without_control_by_plane_there_are_no_planes():
    seen = watch(FakeConnection([], sent=5))
    report = seen.report()
    assert report.planes == ()
    assert (report.queue_delay_us, report.retransmitted_share) == (None, 0)


def test_a_plane_without_an_estimate_has_the_rate_that_was_delivered(monkeypatch: pytest.MonkeyPatch):
    now_s = iter((100.0, 102.0))
    monkeypatch.setattr("openmrc.runs.perf.plane_watch.time.monotonic", lambda: next(now_s))
    one = FakeConnection([replace(IDLE, rate_bps=0, marking=True)])
    seen = watch(one)
    # 20 of 40 packets of 1,000 bytes arrived in two seconds.
    changes = {"sent_packets": 50, "sent_bytes": 80_000, "lost_packets": 21, "acked_packets": 29}
    one.planes = [replace(IDLE, rate_bps=0, marking=True, **changes)]
    assert seen.report().planes[0].rate_bps == 80_000
