"""Objects that look like tensors with memory and have none, or another one: never a crash, and never wrong data."""

from __future__ import annotations

from typing import Any

import numpy as np
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
        "sparse": torch.ones(2, 2).to_sparse_csr(),
        "text": "tensor",
        "nothing": None,
        "array": np.ones(4),
    }


def attempts() -> dict[str, dict[str, str]]:
    """How each way into the backend answers each object: the name of the exception's class, or ok."""
    group = dist.group.WORLD
    backend = group._get_backend(CPU)
    found: dict[str, dict[str, str]] = {}
    ways: dict[str, Any] = {
        "dist": lambda one: dist.all_reduce(one),
        "group": lambda one: group.allreduce([one]).wait(),
        "backend": lambda one: backend.allreduce([one]).wait(),
        "gather": lambda one: dist.all_gather([one, torch.ones(4)], torch.ones(4)),
        "send": lambda one: backend.send([one], 1 - dist.get_rank(), 0).wait(),
    }
    # One rank alone: what is refused must not have begun.
    for way, call in ways.items() if dist.get_rank() == 0 else ():
        for name, one in STRANGE.items() if (STRANGE := strange_alone()) else ():
            try:
                call(one)
            except Exception as error:
                found.setdefault(name, {})[way] = f"{type(error).__name__}: {error}".partition("\n")[0]
            else:
                found.setdefault(name, {})[way] = "ok"
    return found
