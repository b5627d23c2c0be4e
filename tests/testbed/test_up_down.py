"""A test bed comes up, is found again, goes down, and leaves nothing behind in any case."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from openmrc.errors import ConfigError
from openmrc.fabric import Fabric, make_fabric
from openmrc.testbed import TestBed, TestBedError, namespaces, state
from openmrc.testbed.bed import choose

pytestmark = pytest.mark.root

LeftOf = Callable[[str], list[str]]


def dead_process() -> int:
    """The number of a process that has ended."""
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    return done.pid


def leftovers(fabric: Fabric, name: str, made: list[str]) -> None:
    """Remains of a run that is killed after it created these namespaces."""
    from openmrc.testbed.layout import Layout

    fresh = state.new_state(name, fabric, Layout.of(fabric, name).namespaces())
    state.save(dataclasses.replace(fresh, pid=dead_process(), pid_start=1), new=True)
    for namespace in made:
        namespaces.create(namespace)


def test_a_bed_is_made_found_again_and_removed_with_what_runs_in_it(bed_fabric: Fabric, bed_name: str, left_of: LeftOf):
    seen: dict[str, tuple[int, int]] = {}
    made = TestBed.up(
        bed_fabric, bed_name, data_plane=False, progress=lambda what, done, of: seen.update({what: (done, of)})
    )
    assert sorted(left_of(bed_name)) == sorted([*made.layout.namespaces(), f"{bed_name}.json"])
    assert seen == {"namespaces": (13, 13), "links": (16, 16), "nodes": (12, 12)}
    again = TestBed.open(bed_name)
    assert again.fabric == bed_fabric
    assert again.state == made.state
    assert choose(bed_name) in state.names()
    host = made.layout.node("host1")
    running = subprocess.Popen([*again.prefix(host), "sleep", "60"])
    while running.pid not in namespaces.processes(
        [made.layout.namespace(host)]
    ):  # `ip` enters the namespace, then becomes the program
        time.sleep(0.01)
    assert again.down() == 1
    running.wait()
    assert left_of(bed_name) == []
    with pytest.raises(ConfigError, match="openmrc testbed up"):
        TestBed.open(bed_name)


def test_no_copy_of_this_process_is_made_for_a_bed(bed_fabric: Fabric, bed_name: str, monkeypatch: pytest.MonkeyPatch):
    """A copy that is ended while this process turns signals into exceptions unwinds its stack, and removes the test
    bed.

    This happened with a socket of pyroute2's that forked in order to open itself in a namespace.
    """
    from openmrc.testbed.counters import link_counters

    def refuse() -> int:
        raise AssertionError("a copy of this process")

    monkeypatch.setattr(os, "fork", refuse)
    with TestBed.up(bed_fabric, bed_name, data_plane=False) as bed:
        assert len(list(link_counters(bed))) == 2 * 2 * (4 + 4)
        bed.configure(bed.layout.node("p0-t1-0"))


def test_two_beds_live_side_by_side_and_each_removes_its_own(bed_fabric: Fabric, bed: TestBed, bed_name: str):
    before = sorted(path.name for path in namespaces.FOLDER.glob(f"{bed.name}-*"))
    with TestBed.up(bed_fabric, bed_name, data_plane=False) as other:
        assert other.state.namespaces != bed.state.namespaces
    assert sorted(path.name for path in namespaces.FOLDER.glob(f"{bed.name}-*")) == before
    assert TestBed.open(bed.name).state == bed.state


@pytest.mark.parametrize("failure", [TestBedError("injected"), KeyboardInterrupt(), OSError("injected")])
@pytest.mark.parametrize("step", ["namespaces", "links", "nodes"])
def test_an_up_that_fails_leaves_nothing_behind(
    bed_fabric: Fabric, bed_name: str, left_of: LeftOf, step: str, failure: BaseException
):
    def fail(what: str, done: int, whole: int) -> None:
        if what == step and done > whole // 2:
            assert left_of(bed_name)
            raise failure

    own = Path("/proc/thread-self/ns/net").readlink()
    with pytest.raises(type(failure)):
        TestBed.up(bed_fabric, bed_name, data_plane=False, progress=fail)
    assert left_of(bed_name) == []
    assert Path("/proc/thread-self/ns/net").readlink() == own


def test_a_refusal_of_the_kernel_names_the_change_and_leaves_nothing_behind(
    bed_fabric: Fabric, bed_name: str, left_of: LeftOf, monkeypatch: pytest.MonkeyPatch
):
    from openmrc.testbed import messages

    real = messages.neighbour
    monkeypatch.setattr(messages, "neighbour", lambda _index, other: real(999, other))  # no such interface
    with pytest.raises(TestBedError, match=r"host0: neighbour fe80::.* was refused: No such device"):
        TestBed.up(bed_fabric, bed_name, data_plane=False)
    assert left_of(bed_name) == []


def test_a_kernel_that_silently_cannot_shift_usids_is_found_out(
    bed_fabric: Fabric, bed_name: str, left_of: LeftOf, monkeypatch: pytest.MonkeyPatch
):
    from openmrc.linux.netlink import attribute
    from openmrc.testbed import messages

    plain_end = attribute(1, (1).to_bytes(4, sys.byteorder))
    monkeypatch.setattr(messages, "_end_next_csid", lambda: plain_end)  # the part that an old kernel keeps
    with pytest.raises(TestBedError, match=r"cannot shift uSIDs .*Linux 6\.1"):
        TestBed.up(bed_fabric, bed_name, data_plane=False)
    assert left_of(bed_name) == []


def test_up_refuses_a_name_that_is_up(bed_fabric: Fabric, bed: TestBed):
    with pytest.raises(TestBedError, match=f"{bed.name} is up already .*openmrc testbed down"):
        TestBed.up(bed_fabric, bed.name)
    assert TestBed.open(bed.name).state == bed.state


def test_up_cleans_what_a_killed_run_left_when_it_is_asked_to(bed_fabric: Fabric, bed_name: str, left_of: LeftOf):
    leftovers(bed_fabric, bed_name, [f"{bed_name}-mgmt", f"{bed_name}-host0"])
    before = sorted(left_of(bed_name))
    with pytest.raises(TestBedError, match=r"left unfinished .*--clean"):
        TestBed.up(bed_fabric, bed_name, data_plane=False)
    with pytest.raises(TestBedError, match="left unfinished"):
        TestBed.open(bed_name)
    assert sorted(left_of(bed_name)) == before
    with TestBed.up(bed_fabric, bed_name, clean=True, data_plane=False):
        assert len(left_of(bed_name)) == 14
    assert left_of(bed_name) == []


def test_up_never_removes_a_namespace_that_is_not_a_test_beds(bed_fabric: Fabric, bed_name: str, left_of: LeftOf):
    foreign = f"{bed_name}-host2"
    namespaces.create(foreign)
    for clean in (False, True):
        with pytest.raises(TestBedError, match=f"belong to no test bed: {foreign} .*ip netns delete {foreign}"):
            TestBed.up(bed_fabric, bed_name, clean=clean, data_plane=False)
        assert left_of(bed_name) == [foreign]


def test_a_bed_that_is_being_made_is_left_alone(bed_fabric: Fabric, bed_name: str):
    state.save(state.new_state(bed_name, bed_fabric, []), new=True)
    with pytest.raises(TestBedError, match=f"being started by process {os.getpid()}"):
        TestBed.up(bed_fabric, bed_name, clean=True, data_plane=False)


def test_a_bed_that_lost_a_namespace_says_which(bed_fabric: Fabric, bed_name: str, left_of: LeftOf):
    TestBed.up(bed_fabric, bed_name, data_plane=False)
    namespaces.remove(f"{bed_name}-p1-t1-1")
    with pytest.raises(TestBedError, match=f"lacks the namespace {bed_name}-p1-t1-1"):
        TestBed.open(bed_name)
    TestBed.up(bed_fabric, bed_name, clean=True, data_plane=False).down()
    assert left_of(bed_name) == []


def test_a_bed_of_before_the_last_boot_is_forgotten(bed_fabric: Fabric, bed_name: str, left_of: LeftOf):
    state.save(dataclasses.replace(state.new_state(bed_name, bed_fabric, []), boot_id="another"), new=True)
    assert state.load(bed_name) is None
    assert left_of(bed_name) == []


def test_rates_that_the_kernel_cannot_shape_are_refused_before_anything_is_made(bed_name: str, left_of: LeftOf):
    fast = make_fabric(planes=1, hosts=2, hosts_per_t0=1, t1s=1, rate="400Gbit", delay="1us")
    with pytest.raises(ConfigError, match="34 Gb/s"):
        TestBed.up(fast, bed_name)
    assert left_of(bed_name) == []


def test_a_process_that_may_not_make_namespaces_is_told_of_the_command_that_can(
    bed_fabric: Fabric, bed_name: str, left_of: LeftOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(TestBedError, match=r"you are not root .*openmrc testbed up"):
        TestBed.up(bed_fabric, bed_name)
    assert left_of(bed_name) == []
