"""`recv` without a source takes any rank's message, as under Gloo, and returns the sender."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

pytestmark = [pytest.mark.live]

COUNT = 5


def collected(group: Any, size: int) -> list[tuple[int, float]]:
    """At the group's first rank: sender and contents of every message of the others."""
    rank, members = dist.get_rank(), dist.get_process_group_ranks(group)
    if rank != members[0]:
        works = [dist.isend(torch.full((size,), rank * 100.0 + number), members[0], group) for number in range(COUNT)]
        for work in works:
            work.wait()
        return []
    found = []
    for _ in range(COUNT * (len(members) - 1)):
        tensor = torch.empty(size)
        source = dist.recv(tensor, group=group)
        assert bool((tensor == tensor[0]).all())
        found.append((source, tensor[0].item()))
    return found


def from_any() -> list[str]:
    wrong = []
    for members in ([0, 1, 2, 3], [2, 0, 3]):
        order = {"sort_ranks": False} if torch.__version__ >= (2, 12) else {}  # older versions always sort
        groups = [dist.new_group(members, backend=backend, **order) for backend in ("mrc", "gloo")]
        for size in (1, 5000) if dist.get_rank() in members else ():
            ours, theirs = (collected(group, size) for group in groups)
            if sorted(ours) != sorted(theirs):
                wrong.append(f"{members}, {size}: {ours}, gloo: {theirs}")
            # In the order of sending, for each sender.
            if any(
                [one for one in ours if one[0] == source] != sorted(one for one in ours if one[0] == source)
                for source in members
            ):
                wrong.append(f"{members}, {size}: {ours} is out of order")
    return wrong


@pytest.mark.slow
def test_messages_from_any_are_those_that_gloo_receives(run_ranks: Any):
    assert run_ranks("from_any", 4) == {rank: [] for rank in range(4)}


def mixed() -> list[Any]:
    """Tags, receives from one rank behind those from any, futures, and expired waits."""
    from openmrc.torch import OperationTimeoutError

    rank = dist.get_rank()
    impatient = dist.new_group(timeout=timedelta(seconds=0.3))
    if rank == 1:
        for tag in (2, 1):
            dist.send(torch.full((3,), float(tag)), 0, tag=tag)
        for size in (4, 60_000):
            dist.send(torch.full((size,), 1.0), 0)
        return []
    tagged, first, second = torch.empty(3), torch.empty(4), torch.empty(60_000)
    work = dist.irecv(tagged, tag=1)
    behind = [dist.irecv(first), dist.irecv(second, 1)]
    value = work.get_future().wait()
    found = [work.source_rank(), value[0] is tagged, tagged.tolist()]
    for one in reversed(behind):
        one.wait()
    found += [[one.source_rank() for one in behind], first.sum().item(), second.sum().item()]
    dist.recv(tagged, tag=2)
    found.append(tagged.tolist())
    try:
        dist.recv(torch.empty(1), group=impatient)
    except OperationTimeoutError as error:
        found.append("recv" in str(error))
    return found


def test_tags_order_and_timeouts_are_those_of_other_receives(run_ranks: Any):
    expected = [1, True, [1.0] * 3, [1, 1], 4.0, 60_000.0, [2.0] * 3, True]
    assert run_ranks("mixed", 2) == {0: expected, 1: []}


def deserted() -> list[Any]:
    from openmrc.torch import ProcessGroupError

    if dist.get_rank() > 0:
        dist.group.WORLD.abort()
        return []
    try:
        dist.recv(torch.empty(1))
    except ProcessGroupError as error:
        return [error.rank, "rank 1 is gone" in str(error)]
    return ["no error"]


def test_a_receive_from_any_fails_with_a_rank_that_fails(run_ranks: Any):
    assert run_ranks("deserted", 2, answering=2) == {0: [1, True], 1: []}
