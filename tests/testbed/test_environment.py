"""Runs of MRC between host processes in the namespaces of a test bed: contents, paths, carriers, faults that end."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from openmrc.fabric import FaultError, make_fabric
from openmrc.runs.environment import Mode, TestBedEnvironment
from openmrc.runs.run_plan import RunPlan
from openmrc.runs.session import RunRecord, execute
from openmrc.testbed import TestBed
from openmrc.testbed.faults import BedFaults

pytestmark = [pytest.mark.root, pytest.mark.slow]


@pytest.fixture(scope="module")
def bed4(needs_namespaces: None) -> Iterator[TestBed]:
    """Four hosts behind two T0s, two planes, four T1s in each."""
    shape = {"planes": 2, "hosts": 4, "hosts_per_t0": 2, "t1s": 4}
    fabric = make_fabric(name="four", rate="40Mbit", delay="1us", framing="ipv6", **shape)
    with TestBed.up(fabric, f"t{os.getpid()}-four") as made:
        yield made


def run(bed: TestBed, *faults: str, mode: Mode = "srv6", seconds: float = 1.5, flows=((0, 2),)) -> RunRecord:
    """A checked transfer."""
    settings = {"message_bytes": 32 * 1024, "depth": 8, "evs_per_plane": 8}
    return execute(
        RunPlan.over(bed.fabric, flows, seconds=seconds, faults=faults, **settings),
        environment=TestBedEnvironment(bed, mode),
    )


@pytest.mark.parametrize("mode", ["srv6", "udp"])
def test_writes_arrive_over_both_planes(bed4: TestBed, mode: Mode):
    record = run(bed4, mode=mode, flows=((0, 2), (3, 1)))
    assert record.run.content_ok
    assert [flow.error for flow in record.run.flows] == [None, None]
    assert all(series.total > 0 for series in record.run.planes_rx)


def test_hosts_behind_one_t0_reach_each_other(bed4: TestBed):
    assert run(bed4, seconds=0.5, flows=((0, 1),)).run.content_ok


def test_the_evs_name_the_uplinks(bed4: TestBed):
    environment = TestBedEnvironment(bed4)
    record = run(bed4, "t1 2 plane 1 blackhole at 300ms")
    bad = {
        (change.plane, environment.uplink(change.ev))
        for change in record.run.ev_changes
        if change.state == "ASSUMED_BAD"
    }
    assert (1, 2) in bad
    evs = {(plane, environment.uplink(ev)) for ev, plane in record.run.ev_sets["host0"].items()}
    assert evs == {(plane, uplink) for plane in range(2) for uplink in range(4)}
    assert TestBedEnvironment(bed4, "udp").uplink(50_000) is None


def test_a_lost_carrier_is_noticed_at_once_by_the_nic(bed4: TestBed):
    record = run(bed4, "host 2 plane 1 down at 400ms for 400ms")
    told = [line.text for line in record.run.log]
    assert "host2: port 1 is down" in told
    assert "host2: port 1 is up" in told
    assert record.run.content_ok


def test_faults_end_with_the_run(bed4: TestBed):
    run(bed4, "plane 0 blackhole at 100ms", seconds=0.5)
    assert BedFaults(bed4).active() == {}


def test_unsupported_runs_are_refused_before_anything_starts(bed4: TestBed):
    with pytest.raises(FaultError, match="test bed"):
        run(bed4, "plane 0 delay 5ms at 100ms")
