"""Any schedule of collectives, on several groups at once and waited for in any order, gives the right results."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = [pytest.mark.live]

KINDS = ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "ring")
KEEPS_ORDER = torch.__version__ >= (2, 12)  # older versions sort the ranks of a group
GROUPS = ((0, 1, 2), (0, 2), (2, 1) if KEEPS_ORDER else (1, 2), (1,))
SIZES = st.sampled_from([0, 1, 2, 31, 1021, 5000, 200_003])
CALLS = st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from(GROUPS), SIZES, st.integers(0, 99)), max_size=10)


def filled(rank: int, salt: int, size: int) -> Any:
    return torch.arange(size) % 97 + rank * 1000 + salt


def start(kind: str, members: tuple[int, ...], size: int, salt: int, group: Any) -> tuple[list[Any], Any, Any]:
    """The works of a call, the tensors of its result, and their expected values."""
    rank, ranks, place = dist.get_rank(), len(members), dist.get_rank(group)
    own = filled(rank, salt, size)
    everybody = [filled(member, salt, size) for member in members]
    if kind == "all_reduce":
        return [dist.all_reduce(own, group=group, async_op=True)], own, sum(everybody)
    if kind == "broadcast":
        root = members[salt % ranks]
        return [dist.broadcast(own, root, group=group, async_op=True)], own, filled(root, salt, size)
    if kind == "all_gather":
        outs = [torch.empty_like(own) for _ in members]
        return [dist.all_gather(outs, own, group=group, async_op=True)], outs, everybody
    if kind == "reduce_scatter":
        out = torch.empty_like(own)
        work = dist.reduce_scatter(out, [own + 7 * other for other in range(ranks)], group=group, async_op=True)
        return [work], out, sum(everybody) + 7 * place * ranks
    if kind == "all_to_all":
        outs = [torch.empty_like(own) for _ in members]
        work = dist.all_to_all(outs, [own + 7 * other for other in range(ranks)], group=group, async_op=True)
        return [work], outs, [one + 7 * place for one in everybody]
    if ranks == 1:
        return [], own, own
    out, left, right = torch.empty_like(own), members[place - 1], members[(place + 1) % ranks]
    return [dist.isend(own, right, group=group), dist.irecv(out, left, group=group)], out, everybody[place - 1]


def run_schedules() -> list[Any]:
    order = {"sort_ranks": False} if KEEPS_ORDER else {}
    groups = {members: dist.new_group(list(members), **order) for members in GROUPS}
    gloo = dist.new_group(backend="gloo")
    examples = []

    # All ranks draw the same examples, and fail together, so that they stay in step while a failure is minimised.
    @settings(max_examples=25, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(CALLS, st.randoms(use_true_random=False))
    def check(calls: list[Any], order: Any) -> None:
        turns = list(range(len(calls)))
        order.shuffle(turns)  # before ranks differ, so that they keep drawing the same examples
        mine = [number for number, call in enumerate(calls) if dist.get_rank() in call[1]]
        started = {number: (calls[number], *start(*calls[number], groups[calls[number][1]])) for number in mine}
        wrong = []
        for call, works, found, expected in (started[number] for number in turns if number in started):
            for work in works:
                work.wait()
            pairs = zip(found, expected, strict=True) if isinstance(found, list) else [(found, expected)]
            wrong += [call for one, other in pairs if not torch.equal(one, other)]
        anybody = torch.tensor([len(wrong)])
        dist.all_reduce(anybody, group=gloo)
        examples.append(len(calls))
        assert not anybody.item(), wrong

    check()
    return examples


@pytest.mark.slow
def test_random_schedules(run_ranks: Any):
    found = run_ranks("run_schedules", 3)
    assert found[0] == found[1] == found[2]
    assert sum(found[0]) > 25
