"""Groups, futures, barriers, and the end of a process group."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

pytestmark = [pytest.mark.live]


def subgroups() -> dict[str, Any]:
    from openmrc.torch import Options

    rank = dist.get_rank()
    found: dict[str, Any] = {}
    pairs = [dist.new_group([low, low + 1], pg_options=Options(traffic_class="critical")) for low in (0, 2)]
    odd = dist.new_group([3, 1])
    mine = torch.tensor([float(rank)])
    dist.all_reduce(mine, group=pairs[rank // 2])
    found["pair"] = mine.item()
    if rank in (1, 3):
        mine = torch.tensor([float(rank)])
        dist.broadcast(mine, 3, group=odd)
        found["odd"] = mine.item()
    half = dist.group.WORLD.split_group([0, 1] if rank < 2 else [2, 3])
    mine = torch.tensor([float(rank)])
    half.allreduce(mine).wait()
    found["split"] = (half.rank(), half.size(), mine.item(), half._get_backend(torch.device("cpu")).name())
    half.shutdown()
    subgroup, _ = dist.new_subgroups(group_size=2)
    mine = torch.tensor([float(rank)])
    dist.all_reduce(mine, group=subgroup)
    found["subgroup"] = mine.item()
    dist.group.WORLD.monitored_barrier(timedelta(seconds=20), wait_all_ranks=True)
    return found


def test_subgroups(run_ranks: Any):
    for rank, found in run_ranks("subgroups", 4).items():
        assert found["pair"] == found["subgroup"] == (1.0 if rank < 2 else 5.0)
        assert found.get("odd", 3.0) == 3.0
        assert found["split"] == (rank % 2, 2, 1.0 if rank < 2 else 5.0, "mrc")


def futures() -> dict[str, Any]:
    rank = dist.get_rank()
    found: dict[str, Any] = {}
    own = torch.full((100_000,), rank + 1.0)
    work = dist.all_reduce(own, async_op=True)
    found["value"] = work.get_future().wait()[0] is not None and bool((own == 3).all())
    found["over"] = work.is_completed() and work.is_success()
    if torch.__version__ >= (2, 13):  # older versions cannot hand an exception to Python, whatever the backend
        found["over"] = found["over"] and work.exception() is None
    # Without a waiter: the callback runs in another thread, and strided tensors have their result by then.
    called, seen = threading.Event(), []
    strided = torch.full((10, 4), rank + 1.0)
    work = dist.all_reduce(strided[:, ::2], async_op=True)
    work.get_future().then(lambda _: (seen.append(strided[:, ::2].sum().item()), called.set()))
    found["called"] = called.wait(20) and seen == [60.0]
    work = dist.all_reduce(torch.ones(3), async_op=True)
    work.wait()
    found["late"] = work.get_future().wait()[0].tolist() == [2.0] * 3
    # Many at once, waited for in reverse order and by several threads.
    tensors = [torch.full((n * 1000 + 1,), float(rank)) for n in range(30)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    threads = [threading.Thread(target=lambda: [one.wait() for one in works]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for one in reversed(works):
        one.wait(timedelta(seconds=20))
    for thread in threads:
        thread.join()
    found["many"] = all(bool((tensor == 1).all()) for tensor in tensors)
    return found


def test_futures_complete_without_anybody_waiting(run_ranks: Any):
    for found in run_ranks("futures", 2).values():
        assert all(found.values()), found


def lives(where: dict[str, Any]) -> list[float]:
    """Three process groups in one process, through the same store."""
    found = []
    for life in range(3):
        dist.init_process_group("mrc", timeout=timedelta(seconds=60), **where)
        own = torch.full((5000,), float(life + dist.get_rank()))
        dist.all_reduce(own)
        found.append(own[-1].item())
        dist.group.WORLD.monitored_barrier(timedelta(seconds=20))
        dist.destroy_process_group()
        assert not dist.is_initialized()
        assert not [one for one in threading.enumerate() if one.name.startswith("openmrc")]
    return found


def test_a_process_may_begin_again(run_ranks: Any):
    assert run_ranks("lives", 2, backend=None) == {0: [1.0, 3.0, 5.0], 1: [1.0, 3.0, 5.0]}


def beside_gloo(where: dict[str, Any]) -> float:
    dist.init_process_group("gloo", timeout=timedelta(seconds=60), **where)
    group = dist.new_group([2, 0], backend="mrc")
    own = torch.tensor([float(dist.get_rank())])
    if dist.get_rank() != 1:
        dist.broadcast(own, 2, group=group)
    dist.barrier()
    dist.destroy_process_group()
    return own.item()


def test_a_group_beside_another_backend(run_ranks: Any):
    assert run_ranks("beside_gloo", 3, backend=None) == {0: 2.0, 1: 1.0, 2: 2.0}


def mistakes() -> list[str]:
    own = torch.ones(4)
    attempts = [
        lambda: dist.all_reduce(own.to(torch.float8_e5m2)),
        lambda: dist.all_reduce(own, dist.ReduceOp.BXOR),
        lambda: dist.all_gather([torch.empty(4)], own),
        lambda: dist.all_to_all_single(torch.empty(3), torch.empty(3)),
        lambda: dist.new_group(backend="mrc", pg_options=object()),
    ]
    said = []
    for attempt in attempts:
        try:
            attempt()
        except ValueError as error:
            said.append(f"{str(error).partition(' is ')[0]}{'' if isinstance(error, RuntimeError) else ' alone'}")
    return said


def test_mistakes_name_the_field(run_ranks: Any):
    expected = [
        "all_reduce of group 0: dtype",
        "all_reduce of group 0: op",
        "all_gather of group 0: outputs",
        "all_to_all_single of group 0: output",
        "pg_options",
    ]
    assert run_ranks("mistakes", 2) == {0: expected, 1: expected}
