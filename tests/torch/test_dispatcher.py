"""Torch's tools for communication see this backend: it is of torch's own kind, behind the dispatcher."""

from __future__ import annotations

import ctypes
import json
import os
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

pytestmark = [pytest.mark.live]
CPU = torch.device("cpu")


def counted() -> dict[str, int]:
    from torch.distributed.tensor.debug import CommDebugMode

    with CommDebugMode() as mode:
        dist.all_reduce(torch.ones(3))
        dist.broadcast(torch.ones(3), 0)
        dist.all_gather_into_tensor(torch.empty(6), torch.ones(3))
    return {str(name): count for name, count in mode.get_comm_counts().items()}


def test_comm_debug_mode_counts_operations(run_ranks: Any):
    for found in run_ranks("counted", 2).values():
        assert found == {"c10d.allreduce_": 1, "c10d.broadcast_": 1, "c10d._allgather_base_": 1}


def test_the_flight_recorder_of_torch_cannot_be_reached_from_outside():
    """As documented in docs/guides/pytorch.md; when this fails, the backend can record its operations there."""
    folder = Path(torch.__file__).parent
    library = ctypes.CDLL(str(folder / "lib" / "libtorch_cpu.so"))
    assert hasattr(library, "_ZN4c10d18dump_fr_trace_jsonB5cxx11Ebb"), "the names of torch's symbols have changed"
    get = "N4c10d14FlightRecorderIN3c105EventEE3getEv"
    assert not [name for name in (f"_Z{get}", f"_ZZ{get}E8instance") if hasattr(library, name)]
    assert not list((folder / "include").glob("**/nlohmann/json.hpp"))


def profiled() -> list[str]:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        dist.all_reduce(torch.ones(7))
        work = dist.barrier(async_op=True)
        work.wait()
        own, other = torch.ones(3), torch.empty(3)
        peer = 1 - dist.get_rank()
        for one in (dist.isend(own, peer), dist.irecv(other, peer)):
            one.wait()
    found = [event for event in profiler.events() if event.name.startswith(("mrc:", "c10d::"))]
    shapes = [event.input_shapes for event in found if event.name == "mrc:all_reduce"]
    return [*sorted(event.name for event in found), str(shapes)]


def test_the_profiler_shows_operations(run_ranks: Any):
    for found in run_ranks("profiled", 2).values():
        assert found == [
            "c10d::allreduce_",
            "c10d::barrier",
            "c10d::recv_",
            "c10d::send",
            "mrc:all_reduce",
            "mrc:barrier",
            "mrc:recv",
            "mrc:send",
            "[[[7]]]",
        ]


def described() -> dict[str, Any]:
    group = dist.group.WORLD
    backend = group._get_backend(CPU)
    before = backend._get_sequence_number_for_group()
    dist.all_reduce(torch.ones(1))
    dist.send(torch.ones(1), 1) if dist.get_rank() == 0 else dist.recv(torch.ones(1), 0)
    backend._set_sequence_number_for_group()
    group.set_timeout(timedelta(seconds=77))
    found = {
        "backend": (type(backend).__mro__[1] is torch._C._distributed_c10d.Backend, backend.name()),
        "sequence": backend._get_sequence_number_for_group() - before,
        "options": (backend.options._timeout, backend.options.backend, backend.options.global_ranks_in_group),
        "splits": (backend.supports_splitting, backend.supports_coalescing),
        "error": str(backend.get_error()),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch sets it for NCCL and Gloo alone, with a warning
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=5))
    return found


def test_the_backend_describes_itself(run_ranks: Any):
    for found in run_ranks("described", 2).values():
        assert found == {
            "backend": (True, "mrc"),
            "sequence": 1,  # collectives alone
            "options": (timedelta(seconds=77), "mrc", [0, 1]),
            "splits": (True, True),
            "error": "ErrorType.SUCCESS",
        }


def functional() -> list[str]:
    """Every functional collective, in all three forms, beside Gloo."""
    import torch.distributed._functional_collectives as functions

    rank, size = dist.get_rank(), dist.get_world_size()
    gloo = dist.new_group(backend="gloo")
    ops, wait = torch.ops._c10d_functional, torch.ops._c10d_functional.wait_tensor
    own = torch.arange(8.0) + rank
    wrong = []

    def compare(name: str, call: Any) -> None:
        found, expected = call(dist.group.WORLD.group_name), call(gloo.group_name)
        if not torch.equal(found, expected):
            wrong.append(f"{name}: {found.tolist()}, not {expected.tolist()}")

    compare("all_reduce", lambda name: wait(ops.all_reduce(own, "sum", name)))
    compare("all_reduce_", lambda name: wait(ops.all_reduce_(own.clone(), "max", name)))
    compare("all_gather_into_tensor", lambda name: wait(ops.all_gather_into_tensor(own, size, name)))
    compare(
        "all_gather_into_tensor_out",
        lambda name: wait(ops.all_gather_into_tensor_out(own, size, name, out=torch.empty(8 * size))),
    )
    compare("reduce_scatter_tensor", lambda name: wait(ops.reduce_scatter_tensor(own, "sum", size, name)))
    compare("broadcast", lambda name: wait(ops.broadcast(own, size - 1, name)))
    compare(
        "all_to_all_single",
        lambda name: wait(ops.all_to_all_single(own, [8 // size] * size, [8 // size] * size, name)),
    )
    compare(
        "all_reduce_coalesced",
        lambda name: torch.cat([wait(one) for one in ops.all_reduce_coalesced([own, own * 2], "sum", name)]),
    )
    compare(
        "all_gather_into_tensor_coalesced",
        lambda name: torch.cat([wait(one) for one in ops.all_gather_into_tensor_coalesced([own, own * 2], size, name)]),
    )
    compare(
        "reduce_scatter_tensor_coalesced",
        lambda name: torch.cat(
            [wait(one) for one in ops.reduce_scatter_tensor_coalesced([own, own * 2], "sum", size, name)]
        ),
    )
    found = functions.all_reduce(own, "sum", dist.group.WORLD)
    if type(found).__name__ != "AsyncCollectiveTensor" or not torch.equal(
        found + 0, wait(ops.all_reduce(own, "sum", gloo.group_name))
    ):
        wrong.append("AsyncCollectiveTensor")
    return wrong


def test_functional_collectives_give_what_gloo_gives(run_ranks: Any):
    assert run_ranks("functional", 2) == {0: [], 1: []}


def compiled() -> list[Any]:
    import torch.distributed._functional_collectives as functions

    def step(tensor: Any) -> Any:
        total = functions.all_reduce(tensor * 2, "sum", dist.group.WORLD)
        return functions.all_gather_tensor(total + 1, 0, dist.group.WORLD) * 3

    def in_place(tensor: Any) -> Any:
        result = tensor * 2
        dist.all_reduce(result)
        return result + 1

    own = torch.arange(4.0) + dist.get_rank()
    torch._dynamo.reset()
    found = []
    for function in (step, in_place):
        graphed = torch.compile(function, backend="aot_eager", fullgraph=True)
        found.append(torch.equal(graphed(own), function(own)))
    return found


@pytest.mark.slow
def test_torch_compile_traces_collectives_as_one_graph(run_ranks: Any):
    assert run_ranks("compiled", 2) == {0: [True, True], 1: [True, True]}


def in_detail() -> list[str]:
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    dist.set_debug_level_from_env()
    rank = dist.get_rank()
    group = dist.new_group(timeout=timedelta(seconds=20))
    found = [type(group._get_backend(CPU)).__name__]
    own = torch.full((3,), rank + 1.0)
    dist.all_reduce(own, group=group)
    gathered = [torch.empty(3), torch.empty(3)]
    dist.all_gather(gathered, own, group=group)
    found.append(str(gathered[1].tolist()))
    dist.barrier(group)
    try:
        dist.all_reduce(torch.ones(3 + rank), group=group)
    except RuntimeError as error:
        found.append(str(error).partition("\n")[0])
    return found


def test_the_debug_wrapper_checks_operations(run_ranks: Any):
    for rank, found in run_ranks("in_detail", 2).items():
        assert found[:2] == ["_ProcessGroupWrapper", "[3.0, 3.0, 3.0]"]
        assert f"Detected mismatch between collectives on ranks. Rank {rank}" in found[2]
        assert "TensorShape=" in found[2]


def recorded() -> dict[str, Any]:
    """Entries of torch's flight recorder that an operation of each backend leaves."""
    from torch._C._distributed_c10d import _dump_fr_trace_json

    found = {}
    for backend in ("gloo", "mrc"):
        group = dist.new_group(backend=backend)
        before = len(json.loads(_dump_fr_trace_json()).get("entries", []))
        dist.all_reduce(torch.ones(3), group=group)
        found[backend] = len(json.loads(_dump_fr_trace_json()).get("entries", [])) - before
    return found
