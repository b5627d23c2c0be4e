"""Every overload of the operations of a ProcessGroup in torch's own stub, beside Gloo."""

from __future__ import annotations

import ast
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllgatherOptions

pytestmark = [pytest.mark.live]
LIMIT = timedelta(seconds=30)
MAX = dist.ReduceOp.MAX
Signature = tuple[str, tuple[str, ...]]


def declared() -> list[Signature]:
    """Name and parameters of every method of ProcessGroup that starts an operation."""
    stub = Path(torch.__file__).parent / "_C" / "_distributed_c10d.pyi"
    classes = [node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ClassDef)]
    group = next(node for node in classes if node.name == "ProcessGroup")
    return [
        (node.name, tuple(one.arg for one in node.args.args[1:]))
        for node in group.body
        if isinstance(node, ast.FunctionDef)
        and node.returns is not None
        and ast.unparse(node.returns) == "Work"
        and not node.name.startswith("_end")
    ]


class Values:
    """Arguments of the calls: by the words in a parameter's name that several operations share."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.one = torch.arange(float(size)) + 10 * rank
        self.long = torch.arange(float(size * size)) + 100 * rank
        self.several = [self.one + other for other in range(size)]

    def simple(self, name: str, parameter: str) -> Any:
        options = {
            "broadcast": dist.BroadcastOptions,
            "reduce": dist.ReduceOptions,
            "gather": dist.GatherOptions,
            "scatter": dist.ScatterOptions,
            "barrier": dist.BarrierOptions,
            "allreduce": dist.AllreduceOptions,
            "alltoall": dist.AllToAllOptions,
            "alltoall_base": dist.AllToAllOptions,
            "all_to_all_single": dist.AllToAllOptions,
        }
        if parameter == "opts":
            if "reduce_scatter" in name:
                return dist.ReduceScatterOptions()
            coalesced = name == "allreduce_coalesced"
            return dist.AllreduceCoalescedOptions() if coalesced else options.get(name, AllgatherOptions)()
        values = {"timeout": LIMIT, "root": 0, "op": MAX, "tag": 3, "dstRank": 1 - self.rank, "srcRank": 1 - self.rank}
        return [1] * self.size if "split_sizes" in parameter else values[parameter]

    def tensors(self, name: str, parameters: tuple[str, ...]) -> list[Any]:
        """Leading arguments, those with tensors."""
        one, long, several = self.one, self.long, self.several
        lists = "timeout" not in parameters
        at_root = several if self.rank == 0 else []
        root_lists = [several] if self.rank == 0 else []
        return {
            "broadcast": [[one]] if lists else [one],
            "allreduce": [[one]] if parameters[:1] == ("tensors",) else [one],
            "allreduce_coalesced": [[one, one * 2]],
            "reduce": [[one]] if lists else [one],
            "allgather": [[several], [one]] if lists else [several, one],
            "all_gather_single": [long, one],
            "_allgather_base": [long, one],
            "allgather_coalesced": [[[other.clone()] for other in several], [one]],
            "all_gather_single_coalesced": [[long], [one]],
            "allgather_into_tensor_coalesced": [[long], [one]],
            "gather": [root_lists, [one]] if lists else [at_root, one],
            "scatter": [[one], root_lists] if lists else [one, at_root],
            "reduce_scatter": [[one], [several]] if lists else [one, several],
            "reduce_scatter_single": [one, long],
            "_reduce_scatter_base": [one, long],
            "reduce_scatter_single_coalesced": [[one], [long]],
            "reduce_scatter_tensor_coalesced": [[one], [long]],
            "all_to_all_single": [torch.empty_like(one), one],
            "alltoall_base": [torch.empty_like(one), one],
            "alltoall": [[torch.empty(self.size) for _ in several], several],
            "send": [[one]],
            "recv": [[one]],
            "recv_anysource": [[one]],
            "barrier": [],
        }[name]


def flat(values: Any) -> list[Any]:
    if isinstance(values, torch.Tensor):
        return [values]
    return [one for value in values for one in flat(value)] if isinstance(values, list) else []


def called(group: Any, name: str, parameters: tuple[str, ...]) -> list[Any]:
    """The tensors of a call, once it is done. By position: the stub's names sometimes differ from those of the
    bindings.
    """
    values = Values(group.rank(), group.size())
    given = values.tensors(name, parameters)
    rest = parameters[len(given) :]
    arguments = [*given, *(values.simple(name, one) for one in rest)]
    call: Callable[..., Any] = getattr(group, name)
    pairs = {"send": group.recv, "recv": group.send, "recv_anysource": group.send}
    work = call(*arguments)
    if name in pairs:  # the other half
        other = [torch.ones(group.size())]
        pairs[name](other, 1 - group.rank(), 3).wait()
        given = [*given, other]
    work.wait()
    return flat(given)


def refusal_of(group: Any, name: str, parameters: tuple[str, ...]) -> str:
    try:
        called(group, name, parameters)
    except TypeError as error:
        return str(error)
    return ""


def overloads() -> list[str]:
    wrong = []
    ours, gloo = dist.new_group(), dist.new_group(backend="gloo")
    for name, parameters in declared():
        try:
            found = called(ours, name, parameters)
        except TypeError:  # declared by the stub but missing in the binding
            if "incompatible" not in refusal_of(gloo, name, parameters):
                wrong.append(f"{name}{parameters}: refused")
            continue
        except Exception as error:
            wrong.append(f"{name}{parameters}: {type(error).__name__}: {error}".partition("\n")[0])
            continue
        try:
            expected = called(gloo, name, parameters)
        except RuntimeError:  # Gloo has no such operation
            continue
        if [one.tolist() for one in found] != [one.tolist() for one in expected]:
            wrong.append(f"{name}{parameters}: {found}, not {expected}")
    return wrong


@pytest.mark.slow
def test_every_overload_gives_what_gloo_gives(run_ranks: Any):
    assert len(declared()) > (30 if torch.__version__ >= (2, 13) else 29)
    assert run_ranks("overloads", 2) == {0: [], 1: []}


def sparse() -> list[str]:
    """Sums of sparse tensors, beside Gloo; several at once, followed by a barrier."""
    rank, size = dist.get_rank(), dist.get_world_size()
    gloo = dist.new_group(backend="gloo")
    wrong = []
    for dtype in (torch.float32, torch.float64):
        for dense_dims in (0, 1):
            shape = (7, 5) if dense_dims == 0 else (7, 3)
            places = torch.tensor([[rank, rank + 1, 6], [rank, 0, 4]])[: 2 - dense_dims]
            values = (
                torch.arange(3.0 * (3 if dense_dims else 1), dtype=dtype).view(3, *([3] if dense_dims else [])) + rank
            )
            made = [torch.sparse_coo_tensor(places, values, shape) for _ in range(2)]
            dist.all_reduce(made[0])
            dist.all_reduce(made[1], group=gloo)
            if not torch.equal(made[0].to_dense(), made[1].to_dense()):
                wrong.append(f"{dtype} {dense_dims}")
    empty = torch.sparse_coo_tensor(torch.empty(1, 0, dtype=torch.int64), [], (4,))
    works = [dist.all_reduce(torch.eye(size).to_sparse() if one else empty, async_op=True) for one in range(2)]
    several = [torch.eye(3).to_sparse() for _ in range(4)]
    works += [dist.all_reduce(one, async_op=True) for one in several]
    dist.barrier()
    if any(not torch.equal(one.to_dense(), torch.eye(3) * size) for one in several):
        wrong.append("not done behind a barrier")
    for work in reversed(works):
        work.wait()
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_sparse_sums_are_those_of_gloo(run_ranks: Any, ranks: int):
    assert run_ranks("sparse", ranks) == {rank: [] for rank in range(ranks)}


def refusals() -> list[str]:
    """Calls that torch refuses itself, for backends other than Gloo and NCCL, or without an accelerator."""
    said = []
    for attempt in (dist.monitored_barrier, lambda: dist.split_group(split_ranks=[[0], [1]])):
        try:
            attempt()
        except (ValueError, RuntimeError) as error:
            said.append(str(error))
    dist.group.WORLD.monitored_barrier(LIMIT)
    half = dist.group.WORLD.split_group([dist.get_rank()])
    half.allreduce(torch.ones(1)).wait()
    said.append(str(dist.group.WORLD.split_group([0]) is None))
    return said


def test_calls_that_torch_refuses_exist_on_the_group(run_ranks: Any):
    by_torch = [
        "monitored_barrier is only implemented for GLOO backend.",
        "No device associated with the default pg, not safe to split any process groups",
    ]
    assert run_ranks("refusals", 2) == {0: [*by_torch, "False"], 1: [*by_torch, "True"]}
