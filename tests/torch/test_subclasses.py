"""Objects that resemble tensors but have no memory, or another one: never a crash, and never wrong data."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

pytestmark = [pytest.mark.live]
CPU = torch.device("cpu")


class Wrapped(torch.Tensor):
    """A tensor around another one, without memory."""

    @staticmethod
    def __new__(cls, inner: Any) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{func} of {cls.__name__}")


def freed() -> Any:
    tensor = torch.ones(1000)
    tensor.untyped_storage().resize_(0)
    return tensor


def shrunk() -> Any:
    tensor = torch.ones(1000)
    tensor.untyped_storage().resize_(16)
    return tensor


def strange() -> dict[str, Any]:
    """One of each kind, by name."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    with FakeTensorMode():
        fake = torch.ones(4)
    return {
        "wrapper": Wrapped(torch.ones(4)),
        "fake": fake,
        "dtensor": distribute_tensor(torch.ones(4), mesh, [Shard(0)]),
        "meta": torch.ones(4, device="meta"),
        "freed": freed(),
        "shrunk": shrunk(),
        "zero": torch._efficientzerotensor(4),
    }


def attempts() -> dict[str, list[str]]:
    """Result of each entry point of the backend for each object at one rank alone, as refused calls must not have
    begun.
    """
    from openmrc.collectives.buffers import view_of

    everything = strange()
    backend = dist.group.WORLD._get_backend(CPU)
    ways: dict[str, Any] = {
        "all_reduce": lambda one: backend.allreduce([one]),
        "broadcast": lambda one: backend.broadcast([one]),
        "gather": lambda one: backend.allgather([[one, torch.ones(4)]], [torch.ones(4)]),
        "scatter": lambda one: backend.scatter([torch.ones(4)], [[torch.ones(4), one]]),
        "send": lambda one: backend.send([one], 1 - dist.get_rank(), 0),
        "dispatcher": dist.all_reduce,
        "collectives": view_of,
    }
    found: dict[str, list[str]] = {}
    for name, one in everything.items() if dist.get_rank() == 0 else ():
        for way, call in ways.items():
            if way == "dispatcher" and name in ("fake", "meta"):
                continue  # traced by torch without any effect
            try:
                call(one)
            except Exception as error:
                named = type(one).__name__ in str(error) if isinstance(error, TypeError) else ""
                found.setdefault(name, []).append(f"{way}: {type(error).__name__} {named}".strip())
            else:
                found.setdefault(name, []).append(f"{way}: accepted")
    dist.barrier()
    dist.all_reduce(torch.ones(3))  # the group is unchanged
    return found


def test_tensors_without_memory_are_refused(run_ranks: Any):
    direct = ("all_reduce", "broadcast", "gather", "scatter", "send")
    subclass = [f"{way}: TypeError True" for way in direct]
    wrong = [f"{way}: ValueError" for way in direct]
    by_torch = "dispatcher: NotImplementedError"  # as with Gloo
    dtensor_by_torch = by_torch if torch.__version__ >= (2, 11) else "dispatcher: RuntimeError"
    assert run_ranks("attempts", 2)[0] == {
        "wrapper": [*subclass, by_torch, "collectives: TypeError True"],
        "fake": [*subclass, "collectives: TypeError True"],
        "dtensor": [*subclass, dtensor_by_torch, "collectives: TypeError True"],
        "meta": [*wrong, "collectives: ConfigError"],
        "freed": [*wrong, "dispatcher: ValueError", "collectives: ConfigError"],
        "shrunk": [*wrong, "dispatcher: ValueError", "collectives: ConfigError"],
        "zero": [*wrong, "dispatcher: ValueError", "collectives: ConfigError"],
    }


def asynchronous() -> list[float]:
    """The result of a functional collective, still under way, goes into other operations."""
    import torch.distributed._functional_collectives as functions

    rank = dist.get_rank()
    found = []
    pending = functions.all_reduce(torch.full((100_000,), rank + 1.0), "sum", dist.group.WORLD)
    assert type(pending).__name__ == "AsyncCollectiveTensor"
    dist.all_reduce(pending)
    found.append(pending[7].item())
    pending = functions.all_reduce(torch.full((1000,), rank + 1.0), "sum", dist.group.WORLD)
    outs = [torch.empty(1000), torch.empty(1000)]
    dist.all_gather(outs, pending)
    found.append(outs[1 - rank][3].item())
    from openmrc.collectives.buffers import view_of

    pending = functions.all_reduce(torch.full((1000,), rank + 1.0), "sum", dist.group.WORLD)
    found.append(view_of(pending).owner[3].item())
    return found


def test_results_under_way_are_awaited(run_ranks: Any):
    assert run_ranks("asynchronous", 2) == {0: [6.0, 3.0, 3.0], 1: [6.0, 3.0, 3.0]}
