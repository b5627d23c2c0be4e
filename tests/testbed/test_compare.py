"""Every transport runs over a test bed, survives the expected faults, and leaves no process behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from openmrc.errors import ConfigError
from openmrc.fabric import make_fabric
from openmrc.runs.compare.comparison import compare
from openmrc.runs.compare.contenders import CONTENDERS
from openmrc.testbed import TestBed, namespaces

pytestmark = [pytest.mark.root, pytest.mark.slow]

SECONDS = 1.5
FAULT = "t1 1 blackhole at 500ms for 300ms"
HERE = [contender.name for contender in CONTENDERS if contender.missing() is None]


@pytest.fixture(scope="module")
def pair(needs_namespaces: None) -> Iterator[TestBed]:
    """Two hosts, two planes, two T1s in each."""
    shape = {"planes": 2, "hosts": 2, "hosts_per_t0": 1, "t1s": 2}
    fabric = make_fabric(name="pair", rate="40Mbit", delay="1us", framing="ipv6", **shape)
    with TestBed.up(fabric, f"t{os.getpid()}-pair") as made:
        yield made


@pytest.mark.parametrize("name", [name for name in HERE if name != "mpi"])
def test_each_transport_moves_data_and_leaves_nothing_running(pair: TestBed, name: str):
    (outcome,) = compare(pair, faults=(), seconds=SECONDS, only=[name]).outcomes
    assert outcome.error is None
    assert outcome.ending == "survived"
    assert outcome.placed.total > 0
    assert outcome.cpu_seconds_per_gb is not None
    assert outcome.machine_cpu_seconds_per_gb is not None
    assert outcome.machine_cpu_seconds_per_gb > 0
    assert not [pid for pid in namespaces.processes(pair.state.namespaces) if Path(f"/proc/{pid}").exists()]


@pytest.mark.parametrize("name", ["tcp-planes", "mptcp"])
def test_streams_on_all_planes_carry_more_than_one_plane_can(pair: TestBed, name: str):
    if name not in HERE:
        pytest.skip("this kernel has no MPTCP")
    (outcome,) = compare(pair, faults=(), seconds=SECONDS, only=[name]).outcomes
    assert outcome.placed.total * 8 / SECONDS > 1.2 * pair.fabric.rate_bps


@pytest.mark.parametrize("name", ["mrc-srv6", "mrc-udp"])
def test_mrc_keeps_going_while_a_t1_is_dead(pair: TestBed, name: str):
    (outcome,) = compare(pair, faults=(FAULT,), seconds=SECONDS, only=[name]).outcomes
    assert outcome.ending == "survived"
    (fault,) = outcome.faults
    assert outcome.placed.at(fault.end_s) > outcome.placed.at(fault.start_s)


def test_a_transport_that_cannot_go_on_is_said_to_hang(pair: TestBed):
    (outcome,) = compare(pair, faults=("plane 0 blackhole at 300ms",), seconds=SECONDS + 0.5, only=["tcp"]).outcomes
    assert outcome.ending == "hung"
    assert outcome.summary is not None
    assert outcome.summary.recovery_s is None


def test_a_bed_with_one_host_is_refused(pair: TestBed):
    with pytest.raises(ConfigError, match="seconds"):
        compare(pair, seconds=0.1)
