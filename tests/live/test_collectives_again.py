"""Repeated collectives with the same arguments behave like the first call."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collective_ranks import run_ranks

from openmrc._native import collectives as native
from openmrc.collectives import CollectiveError, Group, ReduceOp, World
from openmrc.collectives.buffers import view_of
from openmrc.collectives.work import Work
from openmrc.errors import ConfigError, InvalidStateError

pytestmark = pytest.mark.live
ON_ONE_HOST: Sequence[Sequence[str | None]] = (("", ""), (None, None))
TIMES = 40  # beyond the number of waits that makes the executor expect further ones


def again(group: Group, buffer: Any, op: ReduceOp = ReduceOp.SUM) -> Any:
    """The second all-reduce, started; the first one has registered the call."""
    group.all_reduce(np.zeros_like(buffer), op).wait(30)
    work = group.all_reduce(buffer, op)
    assert isinstance(work, native.Started)
    assert isinstance(work, Work)
    return work


def everything(world: World) -> None:
    group, ranks = world.group, world.size
    for dtype in ("float32", "float64", "int32", "uint8"):
        for op, expected in ((ReduceOp.SUM, 3), (ReduceOp.MAX, 2), (ReduceOp.PROD, 2)):
            for count in (0, 1, 5, 1021):
                for _ in range(3):
                    buffer = np.full(count, group.rank + 1, dtype)
                    work = group.all_reduce(buffer, op)
                    work.wait(30)
                    assert (buffer == expected).all()
                    assert work.done
                    assert work.settled
                    assert work.error is None
                    assert work.source is None
                    one_round = len(world.hosts) == 1 and buffer.nbytes <= 256
                    assert work.algorithm == ("direct" if one_round else "doubling")
    # The same object with other memory, a slice, a Python View, a class of its own.
    long = np.arange(10, dtype=np.float32)
    for begin in (0, 4):
        expected = long.copy()
        expected[begin : begin + 4] *= 2
        group.all_reduce(long[begin : begin + 4] if begin else view_of(long[:4])).wait(30)
        assert (long == expected).all()
    for _ in range(2):
        group.all_reduce(bytearray(8)).wait(30)
        group.all_reduce(np.ones(3), algorithm="direct", traffic_class="critical").wait(30)
    works = [group.all_reduce(np.full(2, 1.0)) for _ in range(TIMES)]
    for work in reversed(works):
        work.wait(30)
    assert ranks == 2


@pytest.mark.parametrize("hosts", ON_ONE_HOST)
def test_results_are_those_of_first_calls(tmp_path: Path, hosts: Sequence[str | None]):
    run_ranks(2, tmp_path, everything, hosts=hosts)


def large(world: World) -> None:
    """All sizes, several at once, whose scratch memory the next ones reuse."""
    group = world.group
    counts = (1 << 14, 40_000, 3_000_001)
    for number in range(3):
        buffers = [np.full(count, group.rank + 1.0, np.float32) for count in counts for _ in range(2)]
        works = [group.all_reduce(buffer) for buffer in buffers]
        assert number == 0 or all(isinstance(work, native.Started) for work in works)
        for work, buffer in zip(works, buffers, strict=True):
            work.wait(30)
            assert (buffer == 3).all()


@pytest.mark.parametrize("hosts", ON_ONE_HOST)
def test_large_calls_are_repeated_as_small_ones(tmp_path: Path, hosts: Sequence[str | None]):
    run_ranks(2, tmp_path, large, hosts=hosts)


def mistaken(world: World) -> None:
    group = world.group
    read_only = np.ones(2)
    read_only.flags.writeable = False
    for _ in range(2):
        group.all_reduce(np.ones(2)).wait(30)
        group.barrier().wait(30)
        for wrong in (read_only, np.ones(4)[::2], np.ones(2, complex), np.ones(2, ">f8")):
            with pytest.raises(ConfigError):
                group.all_reduce(wrong)
        with pytest.raises(ConfigError, match="traffic_class"):
            group.barrier(traffic_class="quick")
        with pytest.raises(ConfigError, match="algorithm"):
            group.all_reduce(np.ones(2), algorithm="quick")
    group.barrier().wait(30)


def test_mistakes_do_not_count(tmp_path: Path):
    run_ranks(2, tmp_path, mistaken, hosts=["", ""])


def closed(world: World) -> str:
    group = world.group
    for _ in range(2):
        group.barrier().wait(30)
    world.close()
    with pytest.raises(InvalidStateError):
        group.barrier()
    return "refused"


def test_a_closed_world_refuses(tmp_path: Path):
    assert run_ranks(2, tmp_path, closed, hosts=["", ""]) == ["refused"] * 2


def alone(world: World) -> tuple[str, str]:
    """Rank 0 waits for an operation that rank 1 starts later, and detects a difference in calls."""
    group = world.group
    for _ in range(2):
        group.barrier().wait(30)
    buffer = np.ones(2)
    again(group, np.ones(2)).wait(30)
    if group.rank == 0:
        work = group.all_reduce(buffer)
        with pytest.raises(TimeoutError, match=r"all_reduce of world is not done after 0\.05 s$") as late:
            work.wait(0.05)
        assert not work.done
        behind = group.barrier()
        with pytest.raises(TimeoutError, match="it has not begun"):
            behind.wait(0.01)
        group.send(np.ones(1), 1).wait(30)
        ends: list[float] = []
        waiters = [threading.Thread(target=lambda: ends.append(work.wait(30))) for _ in range(3)]
        for thread in waiters:
            thread.start()
        for thread in waiters:
            thread.join()
        assert len(ends) == 3
        behind.wait(30)
        text = str(late.value)
    else:
        group.recv(np.ones(1), 0).wait(30)
        group.all_reduce(buffer).wait(30)
        group.barrier().wait(30)
        text = ""
    return text, str(buffer.tolist())


@pytest.mark.parametrize("hosts", ON_ONE_HOST)
def test_a_wait_ends_in_time_and_several_threads_may_wait(tmp_path: Path, hosts: Sequence[str | None]):
    found = run_ranks(2, tmp_path, alone, hosts=hosts)
    assert [buffer for _, buffer in found] == ["[2.0, 2.0]"] * 2


def differing(world: World) -> str:
    group = world.group
    for _ in range(2):
        group.all_reduce(np.ones(2)).wait(30)
        group.all_reduce(np.ones(2), ReduceOp.MAX).wait(30)
    work = group.all_reduce(np.ones(2), ReduceOp.SUM if group.rank == 0 else ReduceOp.MAX)
    with pytest.raises(CollectiveError) as failed:
        work.wait(30)
    assert failed.value.rank == 1 - group.rank
    assert work.error is failed.value
    with pytest.raises(CollectiveError):
        work.wait(30)
    assert work.done
    world.close()
    return str(failed.value)


def test_a_call_that_differs_is_named(tmp_path: Path):
    for rank, text in enumerate(run_ranks(2, tmp_path, differing, hosts=["", ""])):
        assert text.startswith(f"all_reduce of world failed at rank {1 - rank}: ")
        assert "reduction" in text


def forgotten(world: World) -> tuple[int, bool]:
    """Operations that nobody waits for continue, keep their memory, and release it afterwards."""
    group = world.group
    for _ in range(TIMES):
        group.all_reduce(np.ones(2)).wait(30)  # the executor expects waits from now on
    watched = []
    for _ in range(10):
        buffer = np.ones(3)
        group.all_reduce(np.ones(3)).wait(30)
        group.all_reduce(buffer)
        watched.append(weakref.ref(buffer))
        del buffer
    group.barrier().wait(30)
    group.all_reduce(np.ones(2)).wait(30)
    gc.collect()
    return sum(one() is not None for one in watched), world.statistics()["protocol_errors"] == 0


@pytest.mark.parametrize("hosts", ON_ONE_HOST)
def test_forgotten_operations_end_and_keep_nothing(tmp_path: Path, hosts: Sequence[str | None]):
    assert run_ranks(2, tmp_path, forgotten, hosts=hosts) == [(0, True)] * 2


def unwatched(world: World) -> bool:
    """After many consecutive waits, an operation that its caller leaves alone is completed by the executor's thread."""
    group = world.group
    for _ in range(TIMES):
        group.barrier().wait(30)
    left_alone = group.all_reduce(np.ones(2))
    ended = threading.Event()
    for _ in range(3000):  # requests statistics, which drive nothing
        if world.executor.user_of(0, 1 << 63, False) == 0:
            return True
        ended.wait(0.01)
    left_alone.wait(30)
    return False


@pytest.mark.parametrize("hosts", ON_ONE_HOST)
def test_an_operation_without_a_wait_ends_by_itself(tmp_path: Path, hosts: Sequence[str | None]):
    assert run_ranks(2, tmp_path, unwatched, hosts=hosts) == [True] * 2
