"""DDP's built-in communication hooks, beside Gloo; and futures whose callbacks wait."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

pytestmark = [pytest.mark.live]

GIVES_EXCEPTIONS = torch.__version__ >= (2, 13)  # older versions cannot hand them to Python, whatever the backend
STEPS = 6
ROUNDING = {"bf16": 1e-3, "fp16": 1e-4, "fp16 powerSGD": 1e-4}  # sums of three ranks depend on their order


def hooks(group: Any) -> dict[str, Any]:
    """Registers one of torch's hooks with a model."""
    from torch.distributed.algorithms.ddp_comm_hooks import (
        default_hooks,
        post_localSGD_hook,
        powerSGD_hook,
    )

    def low_rank() -> Any:
        state = powerSGD_hook.PowerSGDState(
            group, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=0.5
        )
        return state, powerSGD_hook.powerSGD_hook

    def local() -> Any:
        state = post_localSGD_hook.PostLocalSGDState(group, group, start_localSGD_iter=3)
        return state, post_localSGD_hook.post_localSGD_hook

    def bf16(state, bucket):
        return default_hooks.bf16_compress_hook(state, bucket)  # under its own name torch refuses it without CUDA

    return {
        "allreduce": lambda: (group, default_hooks.allreduce_hook),
        "fp16": lambda: (group, default_hooks.fp16_compress_hook),
        "bf16": lambda: (group, bf16),
        "powerSGD": lambda: low_rank(),
        "fp16 powerSGD": lambda: (
            low_rank()[0],
            default_hooks.fp16_compress_wrapper(powerSGD_hook.powerSGD_hook),
        ),
        "post-localSGD": local,
    }


def trained(group: Any, hook: Any) -> Any:
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 4))
    model = nn.parallel.DistributedDataParallel(model, process_group=group, bucket_cap_mb=0.01)
    model.register_comm_hook(*hook())
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(16, 32, generator=generator)).square().mean().backward()
        optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def all_hooks() -> list[str]:
    ours, gloo = dist.new_group(), dist.new_group(backend="gloo")
    wrong = []
    for name in hooks(ours):
        found, expected = trained(ours, hooks(ours)[name]), trained(gloo, hooks(gloo)[name])
        if not torch.allclose(found, expected, rtol=1e-3, atol=ROUNDING.get(name, 1e-5)):
            wrong.append(f"{name}: differs by {(found - expected).abs().max().item():.2g}")
    return wrong


@pytest.mark.parametrize("ranks", [2, 3])
def test_built_in_hooks_train_as_with_gloo(run_ranks: Any, ranks: int):
    assert run_ranks("all_hooks", ranks) == {rank: [] for rank in range(ranks)}


def quantized() -> list[str]:
    """Torch wrote its quantization hooks for futures of NCCL, whose lists have one more level: refused as with Gloo."""
    from torch.distributed.algorithms.ddp_comm_hooks import quantization_hooks

    found = []
    for backend in ("mrc", "gloo"):
        group = dist.new_group(backend=backend)
        try:
            trained(group, lambda group=group: (group, quantization_hooks.quantization_pertensor_hook))
        except RuntimeError as error:
            found.append(str(error).partition("IndexError: ")[2].partition("\n")[0])
    return found


def test_quantization_hooks_answer_as_with_gloo(run_ranks: Any):
    for found in run_ranks("quantized", 2).values():
        assert len(found) == 2
        assert found[0] == found[1] != ""


def waiting() -> list[Any]:
    """A callback waits for a second operation, whose callback waits for a third one, and so on."""
    depth = 5

    def chained(level: int) -> Any:
        def callback(future: Any) -> Any:
            value = future.value()[0]
            if level == depth:
                return value
            return dist.all_reduce(value, async_op=True).get_future().then(chained(level + 1)).wait()

        return callback

    own = torch.ones(5000)
    found = [dist.all_reduce(own, async_op=True).get_future().then(chained(1)).wait()[0].item()]
    # A callback that waits for the program, which meanwhile waits for other operations.
    release, released = threading.Event(), threading.Event()
    store, rank = dist.distributed_c10d._get_default_store(), dist.get_rank()
    if rank == 1:
        store.wait(["registered"], timedelta(seconds=30))  # otherwise the callback would run at its registration
    held = dist.all_reduce(torch.ones(3), async_op=True)
    if rank == 0:
        held.get_future().then(lambda _: (release.wait(30), released.set()))
        store.set("registered", "1")
    held.wait()
    later = [dist.all_reduce(torch.ones(100), async_op=True).get_future() for _ in range(20)]
    found.append(sum(one.wait()[0][0].item() for one in later))
    found.append(released.is_set())
    release.set()
    found.append(rank == 1 or released.wait(30))
    return found


def test_callbacks_may_wait_for_other_operations(run_ranks: Any):
    assert run_ranks("waiting", 2) == {rank: [32.0, 40.0, False, True] for rank in (0, 1)}


def abandoned() -> list[Any]:
    """Inside a callback, the wait for an operation that another rank never starts ends with the group's timeout."""
    group = dist.new_group(timeout=timedelta(seconds=1))
    if dist.get_rank() == 1:
        dist.distributed_c10d._get_default_store().wait(["over"], timedelta(seconds=50))
        return []
    answer: list[str] = []
    done = threading.Event()

    def callback(_: Any) -> None:
        try:
            dist.all_reduce(torch.ones(3), group=group, async_op=True).get_future().wait()
        except RuntimeError as error:
            answer.append(str(error))
        done.set()

    alone = dist.new_group([0], use_local_synchronization=True)
    dist.all_reduce(torch.ones(3), group=alone, async_op=True).get_future().then(callback)
    finished = done.wait(40)
    dist.distributed_c10d._get_default_store().set("over", "1")
    return [finished, "timed out" in answer[0]]


def test_a_wait_in_a_callback_ends_with_the_timeout(run_ranks: Any):
    assert run_ranks("abandoned", 2)[0] == [True, True]


def kinds() -> list[Any]:
    """Values of futures are lists of tensors, and a failure is the backend's own exception."""
    from openmrc.torch import ProcessGroupError

    size, rank = dist.get_world_size(), dist.get_rank()
    own = torch.ones(3)
    outs = [torch.empty(3) for _ in range(size)]
    works = [
        dist.all_reduce(own, async_op=True),
        dist.all_gather(outs, own, async_op=True),
        dist.barrier(async_op=True),
        dist.reduce_scatter(torch.empty(3), outs, async_op=True),
        dist.isend(own, 1) if rank == 0 else dist.irecv(own, 0),
    ]
    found: list[Any] = [
        [len(value), all(one.shape == (3,) for one in value)] for value in (work.get_future().wait() for work in works)
    ]
    found.append([int(works[0].get_future_result().wait()), len(works[1].result())])
    if rank == 0:
        group = dist.new_group([0, 1], timeout=timedelta(milliseconds=300), use_local_synchronization=True)
        work = dist.all_reduce(own, group=group, async_op=True)
        for attempt in (work.get_future().wait, work.wait, work.get_future().value):
            try:
                attempt()
            except ProcessGroupError as error:
                found.append(type(error).__name__)
        if GIVES_EXCEPTIONS:
            found.append(type(work.exception()).__name__)
        found.append(int(work.get_future_result().wait()))
    else:
        dist.new_group([0, 1], use_local_synchronization=True)
    return found


def test_futures_hold_lists_of_tensors(run_ranks: Any):
    found = run_ranks("kinds", 2)
    values = [[1, True], [2, True], [0, True], [1, True], [1, True], [0, 2]]
    assert found[1] == values
    assert found[0] == [*values, *["OperationTimeoutError"] * (4 if GIVES_EXCEPTIONS else 3), 2]
