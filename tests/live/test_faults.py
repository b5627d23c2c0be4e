"""Every fault of the fault language during a transfer between real processes: the data stays correct and keeps
arriving.

Each run schedules several faults one after another, and the fabric's own counters prove the effect of each.
"""

from __future__ import annotations

import pytest

from openmrc.runs.run_plan import RunPlan
from openmrc.runs.session import RunRecord, execute

pytestmark = [pytest.mark.live, pytest.mark.slow]

PLACES = (
    "host 1 plane 0 {what} at 300ms for 500ms",
    "t0 0 t1 1 plane 1 {what} at 1000ms for 500ms",
    "t0 1 plane 0 {what} at 1700ms for 500ms",
    "t1 0 plane 1 {what} at 2400ms for 500ms",
    "plane 0 {what} at 3100ms for 500ms",
)


def run(*faults: str, seconds: float = 4.2, **changes: object) -> RunRecord:
    """A transfer over two planes of 50 Mb/s with these faults."""
    plan = RunPlan(
        planes=2,
        rate_bps=50_000_000,
        t1s=2,
        seconds=seconds,
        faults=faults,
        message_bytes=32 * 1024,
        depth=16,
        evs_per_plane=8,
        **changes,  # type: ignore[arg-type]
    )
    return execute(plan)


def assert_came_through(record: RunRecord) -> None:
    """Correct data, no error, and bytes in every part of the run: also during each fault and at the end."""
    flow = record.run.flows[0]
    assert flow.error is None
    assert flow.content_ok
    assert flow.bytes_checked > 0
    for fault in record.run.faults:
        assert flow.placed.at(fault.end_s) > flow.placed.at(fault.start_s), f"nothing arrived during: {fault.text}"
    last = max(fault.end_s for fault in record.run.faults)
    assert flow.placed.at(record.run.end_s) > flow.placed.at(last)


def test_links_and_switches_and_a_plane_go_down_with_notice_and_come_back():
    record = run(*(place.format(what="down") for place in PLACES))
    assert_came_through(record)
    assert record.fabric["drop_down"] > 0
    told = [line.text for line in record.run.log]
    assert "host1: port 0 is down" in told
    assert "host1: port 0 is up" in told


def test_links_and_switches_and_a_plane_become_silent_black_holes_and_come_back():
    record = run(*(place.format(what="blackhole") for place in PLACES))
    assert_came_through(record)
    assert record.fabric["drop_blackhole"] > 0
    assert record.run.flows[0].retransmitted_packets > 0
    suspected = {change.plane for change in record.run.ev_changes if change.state == "ASSUMED_BAD"}
    assert 0 in suspected


@pytest.mark.parametrize("signal", ["marks", "delay", "discover"])
def test_a_dead_plane_carries_nothing_and_is_used_again_after_its_repair(signal: str):
    record = run("plane 1 blackhole at 800ms for 1500ms", connection={"signal": signal})
    assert_came_through(record)
    plane = record.run.planes_rx[1]
    fault = record.run.faults[0]
    assert plane.at(fault.start_s) > 0
    quiet = plane.at(fault.end_s - 0.2) - plane.at(fault.start_s + 0.2)  # away from the edges: samples are 50 ms apart
    assert quiet == 0
    assert plane.at(record.run.end_s) > plane.at(fault.end_s)


def test_a_dead_plane_is_in_the_log_where_planes_are_controlled_one_by_one():
    record = run("plane 1 blackhole at 800ms for 1500ms", connection={"signal": "delay"})
    assert_came_through(record)
    planes = [line.text for line in record.run.log if "plane 1" in line.text and "answer" in line.text]
    assert planes == ["host0: plane 1 does not answer", "host0: plane 1 answers again"]


def test_loss_corruption_duplication_and_reordering_never_change_the_data():
    record = run(
        "plane 0 loss 5% at 300ms for 600ms",
        "plane 1 loss 10% burst 8 at 1000ms for 600ms",
        "all corrupt 3% at 1700ms for 600ms",
        "all duplicate 5% at 2400ms for 600ms",
        "all reorder 5% 3ms at 3100ms for 600ms",
    )
    assert_came_through(record)
    assert record.fabric["drop_loss"] > 0
    for harm in ("corrupted", "duplicated", "reordered"):
        assert record.fabric[harm] > 0, f"the fabric never {harm} a packet"


def test_a_slow_plane_and_a_far_plane_leave_the_rest_alone():
    record = run(
        "plane 0 rate 10% at 300ms for 1200ms", "plane 1 delay 10ms jitter 5ms at 1700ms for 1200ms", seconds=3.6
    )
    assert_came_through(record)


def test_the_fallback_waits_for_its_plane_and_goes_on_with_the_right_data():
    record = run("plane 0 blackhole at 500ms for 500ms", seconds=4.0, transport="rc")
    flow = record.run.flows[0]
    assert flow.error is None
    assert flow.content_ok
    assert flow.placed.at(record.run.end_s) > flow.placed.at(record.run.faults[0].end_s)
    assert flow.retransmitted_packets > 0
    assert record.run.planes_rx[1].total == 0
