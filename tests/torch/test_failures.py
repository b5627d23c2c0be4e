"""A rank that dies or stays away is an exception at every other rank, never a hang."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

pytestmark = [pytest.mark.live]


def killed() -> list[Any]:
    from openmrc.torch import ProcessGroupError

    rank = dist.get_rank()
    dist.all_reduce(torch.ones(10))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True:
            dist.all_reduce(torch.ones(1_000_000))
    except ProcessGroupError as error:
        caught = error
    # The others' failures must not be taken for the cause, nor may what comes later hang.
    future = dist.all_reduce(torch.ones(10), async_op=True).get_future()
    try:
        future.wait()
    except (ProcessGroupError, RuntimeError) as error:
        later = str(error)
    return [isinstance(caught, RuntimeError), caught.rank, caught.ports, "rank 1 is gone" in str(caught), later]


def test_a_rank_that_is_killed_is_named_at_all_others(run_ranks: Any):
    """Of five in a ring, though two of them have nothing to do with it."""
    found = run_ranks("killed", 5, answering=4)
    assert sorted(found) == [0, 2, 3, 4]
    for was_runtime_error, rank, ports, named, later in found.values():
        assert (was_runtime_error, rank, ports, named) == (True, 1, ("127.0.0.1",), True)
        assert "rank 1 is gone" in later


def late() -> list[str]:
    from openmrc.torch import OperationTimeoutError

    said = []
    # One that rank 1 never joins: in a group of its own, so that the rest goes on.
    group = dist.new_group(timeout=timedelta(seconds=1))
    if dist.get_rank() == 0:
        for call in (
            lambda: dist.all_reduce(torch.ones(3), group=group),
            lambda: dist.all_reduce(torch.ones(3), group=group, async_op=True).get_future().wait(),
        ):
            try:
                call()
            except (OperationTimeoutError, RuntimeError) as error:
                said.append(str(error))
        work = dist.barrier(async_op=True)
        try:
            work.wait(timedelta(milliseconds=300))
        except OperationTimeoutError as error:
            said.append(str(error))
        dist.distributed_c10d._get_default_store().set("go", "1")
    else:
        dist.distributed_c10d._get_default_store().wait(["go"], timedelta(seconds=30))
        dist.barrier()
    return said


def test_timeouts_are_honoured(run_ranks: Any):
    found = run_ranks("late", 2)
    assert [text.partition(" of group")[0] for text in found[0][:1]] == ["all_reduce"]
    assert all("is not done after" in text for text in found[0])
    assert len(found[0]) == 3


def absent() -> str:
    from openmrc.torch import ProcessGroupError

    if dist.get_rank() in (1, 3):
        dist.distributed_c10d._get_default_store().wait(["barrier over"], timedelta(seconds=30))
        return "absent"
    try:
        dist.group.WORLD.monitored_barrier(timedelta(seconds=1), wait_all_ranks=True)
    except ProcessGroupError as error:
        dist.distributed_c10d._get_default_store().set("barrier over", "1")
        return f"{error.rank}: {error}"
    return "nobody is missing"


def test_the_monitored_barrier_names_who_is_missing(run_ranks: Any):
    found = run_ranks("absent", 4)
    assert found[0] == found[2] == "1: Rank 0 timed out in monitoredBarrier: ranks 1, 3 did not come in 1 s"
