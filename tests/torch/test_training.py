"""Common uses of a process group work, and train the same weights as with Gloo."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

pytestmark = [pytest.mark.live]


def model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 3))


def batches(count: int) -> list[Any]:
    generator = torch.Generator().manual_seed(50 + dist.get_rank())
    return [torch.randn(8, 20, generator=generator) for _ in range(count)]


def weights(trained: nn.Module) -> Any:
    return torch.cat([parameter.detach().flatten() for parameter in trained.parameters()])


def train_ddp(group: Any, *, accumulate: bool, hook: bool = False) -> Any:
    from contextlib import nullcontext

    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
    from torch.nn.parallel import DistributedDataParallel

    trained = DistributedDataParallel(model(), process_group=group, bucket_cap_mb=0.01)
    if hook:
        trained.register_comm_hook(group, fp16_compress_hook)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.05, momentum=0.9)
    for step, inputs in enumerate(batches(6)):
        last = step % 2 == 1
        with trained.no_sync() if accumulate and not last else nullcontext():
            trained(inputs).square().mean().backward()
        if last or not accumulate:
            optimizer.step()
            optimizer.zero_grad()
    return weights(trained)


def train_fsdp(backend: str) -> Any:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor

    group = None if backend == "mrc" else dist.new_group(backend=backend)
    mesh = DeviceMesh.from_group(group or dist.group.WORLD, "cpu")
    sharded = model()
    for layer in sharded:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    optimizer = torch.optim.Adam(sharded.parameters(), lr=0.01)
    for inputs in batches(4):
        sharded(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    full = [one.full_tensor() if isinstance(one, DTensor) else one for one in sharded.parameters()]
    return torch.cat([one.detach().flatten() for one in full])


def training() -> dict[str, bool]:
    gloo = dist.new_group(backend="gloo")
    found = {}
    for accumulate in (False, True):
        ours, theirs = (train_ddp(group, accumulate=accumulate) for group in (None, gloo))
        found[f"ddp, no_sync {accumulate}"] = torch.equal(ours, theirs)
    ours, theirs = (train_ddp(group, accumulate=False, hook=True) for group in (dist.group.WORLD, gloo))
    found["ddp, hook"] = torch.equal(ours, theirs)
    found["fsdp"] = torch.allclose(train_fsdp("mrc"), train_fsdp("gloo"), atol=1e-6)
    return found


def test_ddp_and_fsdp_train_the_weights_that_gloo_trains(run_ranks: Any):
    """With two ranks, bit for bit with DDP, since a sum of two numbers has one order."""
    found = run_ranks("training", 2)
    assert all(found[0].values()), found[0]
    assert found[0] == found[1]
    assert len(found[0]) == 4


def more_ranks() -> dict[str, bool]:
    gloo = dist.new_group(backend="gloo")
    ours, again, theirs = (train_ddp(group, accumulate=False) for group in (None, None, gloo))
    return {"close to gloo": torch.allclose(ours, theirs, atol=1e-5), "the same again": torch.equal(ours, again)}


def test_ddp_of_three_ranks_gives_the_same_bits_each_time(run_ranks: Any):
    assert run_ranks("more_ranks", 3)[0] == {"close to gloo": True, "the same again": True}


def meshes() -> dict[str, Any]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    found: dict[str, Any] = {}
    mine = torch.tensor([float(rank)])
    dist.all_reduce(mine, group=mesh["tp"].get_group())
    found["sum in row"] = mine.item() == (rank // 2) * 4 + 1
    whole = torch.arange(36.0).view(9, 4)
    sharded = distribute_tensor(whole, mesh, [Shard(0), Shard(1)])
    found["full tensor"] = torch.equal(sharded.full_tensor(), whole)
    found["redistribute"] = torch.equal(sharded.redistribute(mesh, [Replicate(), Shard(0)]).full_tensor(), whole)
    product = sharded @ distribute_tensor(torch.ones(4, 2), mesh, [Replicate(), Replicate()])
    found["matmul"] = torch.equal(product.full_tensor(), whole @ torch.ones(4, 2))
    return found


def test_device_mesh_and_dtensor(run_ranks: Any):
    for found in run_ranks("meshes", 4).values():
        assert all(found.values()), found


def checkpoint() -> bool:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    folder: list[Any] = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    whole = torch.arange(40.0).view(10, 4)
    dcp.save({"weights": distribute_tensor(whole, mesh, [Shard(0)])}, checkpoint_id=folder[0])
    state = {"weights": distribute_tensor(torch.zeros(10, 4), mesh, [Shard(0)])}
    dcp.load(state, checkpoint_id=folder[0])
    return torch.equal(state["weights"].full_tensor(), whole) and Path(folder[0], ".metadata").exists()


def test_distributed_checkpoint(run_ranks: Any):
    assert run_ranks("checkpoint", 2) == {0: True, 1: True}


def functional() -> dict[str, bool]:
    """The functional collectives, which reach the group through C++."""
    import torch.distributed._functional_collectives as funcol

    rank, ranks, group = dist.get_rank(), dist.get_world_size(), dist.group.WORLD
    ones = torch.ones(6) * (rank + 1)
    found = {
        "all_reduce": (funcol.all_reduce(ones, "sum", group), torch.full((6,), 3.0)),
        "all_gather": (funcol.all_gather_tensor(ones, 0, group), torch.tensor([1.0] * 6 + [2.0] * 6)),
        "reduce_scatter": (funcol.reduce_scatter_tensor(ones, "sum", 0, group), torch.full((3,), 3.0)),
        "broadcast": (funcol.broadcast(ones, 1, group), torch.full((6,), 2.0)),
        "all_to_all": (funcol.all_to_all_single(ones, None, None, group), torch.tensor([1.0] * 3 + [2.0] * 3)),
    }
    assert ranks == 2
    return {name: torch.equal(funcol.wait_tensor(one), expected) for name, (one, expected) in found.items()}


def test_functional_collectives(run_ranks: Any):
    for found in run_ranks("functional", 2).values():
        assert all(found.values()), found
