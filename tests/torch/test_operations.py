"""Every operation equals Gloo's result on the same inputs, or the arithmetic result if Gloo lacks it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

pytestmark = [pytest.mark.live]

SIZES = (0, 1, 7, 1021)
TYPES = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
)
GLOO_TYPES = (torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.int8, torch.uint8)
OPS = {
    "SUM": (dist.ReduceOp.SUM, torch.add),
    "PRODUCT": (dist.ReduceOp.PRODUCT, torch.mul),
    "MIN": (dist.ReduceOp.MIN, torch.minimum),
    "MAX": (dist.ReduceOp.MAX, torch.maximum),
}
BITS = {
    "BAND": (dist.ReduceOp.BAND, torch.bitwise_and),
    "BOR": (dist.ReduceOp.BOR, torch.bitwise_or),
    "BXOR": (dist.ReduceOp.BXOR, torch.bitwise_xor),
}


class Checks:
    """Runs calls on both backends and records differences."""

    def __init__(self) -> None:
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.gloo = dist.new_group(backend="gloo")
        self.wrong: list[str] = []

    def equal(self, what: str, found: Any, expected: Any) -> None:
        if found.dtype != expected.dtype or not torch.equal(found, expected):
            self.wrong.append(f"{what}: {found.flatten()[:5].tolist()}, not {expected.flatten()[:5].tolist()}")

    def as_gloo(self, what: str, call: Any, make: Any) -> None:
        """`call(group, *tensors)` on the same tensors, twice; all tensors afterwards are compared."""
        ours, theirs = make(), make()
        call(None, *ours)
        call(self.gloo, *theirs)
        for number, (found, expected) in enumerate(zip(flat(ours), flat(theirs), strict=True)):
            self.equal(f"{what} {number}", found, expected)


def flat(tensors: Any) -> list[Any]:
    return [one for each in tensors for one in (flat(each) if isinstance(each, list | tuple) else [each])]


def values(rank: int, count: int, dtype: Any, top: int = 3) -> Any:
    """Small whole numbers: sums are exact in every type and order."""
    generator = torch.Generator().manual_seed(1000 + rank)
    return torch.randint(0, top, (count,), generator=generator).to(dtype)


def reductions() -> list[str]:
    checks = Checks()
    for dtype in TYPES:
        whole = not dtype.is_floating_point
        for name, (op, function) in (OPS | (BITS if whole else {})).items():
            for size in SIZES:
                parts = [values(rank, size, dtype) for rank in range(checks.ranks)]
                expected = parts[0]
                for part in parts[1:]:
                    expected = function(expected, part)
                found = parts[checks.rank].clone()
                dist.all_reduce(found, op)
                checks.equal(f"all_reduce {name} {dtype} {size}", found, expected.to(dtype))
                if dtype in GLOO_TYPES and size:
                    theirs = parts[checks.rank].clone()
                    dist.all_reduce(theirs, op, group=checks.gloo)
                    checks.equal(f"all_reduce {name} {dtype} {size} as gloo", found, theirs)
                    checks.as_gloo(
                        f"reduce_scatter {name} {dtype} {size}",
                        lambda group, out, ins, op=op: dist.reduce_scatter(out, ins, op, group=group),
                        lambda size=size, dtype=dtype: (
                            torch.empty(size, dtype=dtype),
                            [values(checks.rank * 10 + other, size, dtype) for other in range(checks.ranks)],
                        ),
                    )
    checks.wrong += other_reductions(checks)
    return checks.wrong


def other_reductions(checks: Checks) -> list[str]:
    """AVG, PREMUL_SUM, bool, numbers whose sum depends on the order, and reduce."""
    ranks = checks.ranks
    found = torch.full((1021,), checks.rank * 2.0)
    dist.all_reduce(found, dist.ReduceOp.AVG)
    checks.equal("avg", found, torch.full((1021,), ranks - 1.0))
    flags = torch.tensor([checks.rank == 0, True, False])
    dist.all_reduce(flags, dist.ReduceOp.MAX)
    checks.equal("bool", flags, torch.tensor([True, True, False]))
    floats = torch.randn(5003, generator=torch.Generator().manual_seed(checks.rank))
    theirs = floats.clone()
    dist.all_reduce(floats)
    dist.all_reduce(theirs, group=checks.gloo)
    if not torch.allclose(floats, theirs, atol=1e-5):
        checks.wrong.append("sum of floats is far from gloo's")
    copies = [torch.empty_like(floats) for _ in range(ranks)]
    dist.all_gather(copies, floats)
    if any(not torch.equal(copy, floats) for copy in copies):
        checks.wrong.append("ranks have different sums")
    for root in {0, ranks - 1}:
        mine = values(checks.rank, 1021, torch.int64)
        dist.reduce(mine, root)
        expected = sum(values(rank, 1021, torch.int64) for rank in range(ranks))
        checks.equal("reduce", mine, expected if checks.rank == root else values(checks.rank, 1021, torch.int64))
    multiplied(checks)
    return []


def multiplied(checks: Checks) -> None:
    """PREMUL_SUM: a factor for each rank, a number or a tensor. Each position belongs to one rank, so that sums are
    exact.
    """
    rank, ranks, size = checks.rank, checks.ranks, 1021
    factors = (0.1, torch.tensor(2.5, dtype=torch.float64), torch.tensor([0.3]), 7.0)
    op = dist._make_nccl_premul_sum(factors[rank])
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int32):
        parts = [values(other, size, dtype, top=99) for other in range(ranks)]
        products = [
            (part * float(factor) if dtype.is_floating_point else part.double() * float(factor)).to(dtype)
            for part, factor in zip(parts, factors, strict=False)
        ]
        own, expected = torch.zeros(ranks, size, dtype=dtype), torch.stack(products)
        own[rank] = parts[rank]
        found = own.clone()
        dist.all_reduce(found, op)
        checks.equal(f"all_reduce premul {dtype}", found, expected)
        found = own.clone()
        dist.reduce(found, ranks - 1, op)
        checks.equal(f"reduce premul {dtype}", found, expected if rank == ranks - 1 else own)
        found = own.new_empty(size)
        dist.reduce_scatter_tensor(found, own.flatten(), op)
        checks.equal(f"reduce_scatter premul {dtype}", found, expected[rank])
        dist.reduce_scatter(found, list(own), op)
        checks.equal(f"reduce_scatter of a list premul {dtype}", found, expected[rank])


def movements() -> list[str]:
    checks = Checks()
    rank, ranks = checks.rank, checks.ranks
    for dtype in (torch.float32, torch.int8):
        for size in SIZES:
            own = values(rank, size, dtype)
            pieces = [values(rank * 10 + other, size, dtype) for other in range(ranks)]
            checks.as_gloo(
                f"all_gather {size}",
                lambda group, outs, own: dist.all_gather(outs, own, group=group),
                lambda own=own: ([torch.empty_like(own) for _ in range(ranks)], own),
            )
            if size:
                checks.as_gloo(
                    f"all_gather_into_tensor {size}",
                    lambda group, out, own: dist.all_gather_into_tensor(out, own, group=group),
                    lambda own=own: (own.new_empty(ranks * len(own)), own),
                )
                checks.as_gloo(
                    f"all_to_all_single {size}",
                    lambda group, out, own: dist.all_to_all_single(out, own, group=group),
                    lambda pieces=pieces: (torch.empty_like(torch.cat(pieces)), torch.cat(pieces)),
                )
            for root in {0, ranks - 1}:
                checks.as_gloo(
                    f"broadcast {size} from {root}",
                    lambda group, own, root=root: dist.broadcast(own, root, group=group),
                    lambda own=own: (own.clone(),),
                )
                checks.as_gloo(
                    f"gather {size} to {root}",
                    lambda group, own, outs, root=root: dist.gather(own, outs or None, root, group=group),
                    lambda own=own, root=root: (own, [torch.empty_like(own) for _ in range(ranks) if rank == root]),
                )
                checks.as_gloo(
                    f"scatter {size} from {root}",
                    lambda group, own, ins, root=root: dist.scatter(own, ins or None, root, group=group),
                    lambda own=own, root=root, pieces=pieces: (torch.empty_like(own), pieces if rank == root else []),
                )
    checks.wrong += uneven(checks) + [f"object {one}" for one in objects(checks)] + between_pairs(checks)
    return checks.wrong


def uneven(checks: Checks) -> list[str]:
    """Different sizes at every rank, some of which Gloo refuses."""
    rank, ranks = checks.rank, checks.ranks
    outs = [torch.empty(other + 1, 3) for other in range(ranks)]
    dist.all_gather(outs, torch.full((rank + 1, 3), float(rank)))
    for other, out in enumerate(outs):
        checks.equal("all_gather uneven", out, torch.full((other + 1, 3), float(other)))
    out = torch.empty(rank + 2)
    dist.reduce_scatter(out, [torch.full((other + 2,), float(rank)) for other in range(ranks)])
    checks.equal("reduce_scatter uneven", out, torch.full((rank + 2,), ranks * (ranks - 1) / 2))
    outs = [torch.empty(rank * 3 + other) for other in range(ranks)]
    dist.all_to_all(outs, [torch.full((other * 3 + rank,), float(rank)) for other in range(ranks)])
    for other, out in enumerate(outs):
        checks.equal("all_to_all uneven", out, torch.full((rank * 3 + other,), float(other)))
    checks.as_gloo(
        "all_to_all_single with splits",
        lambda group, out, own: dist.all_to_all_single(
            out, own, [rank + 1] * ranks, [other + 1 for other in range(ranks)], group=group
        ),
        lambda: (torch.empty(ranks * (rank + 1), 2), torch.full((ranks * (ranks + 1) // 2, 2), float(rank))),
    )
    return []


def objects(checks: Checks) -> list[str]:
    rank, ranks = checks.rank, checks.ranks
    found: list[Any] = [None] * ranks
    dist.all_gather_object(found, {"rank": rank, "text": "x" * rank})
    wrong = [] if found == [{"rank": one, "text": "x" * one} for one in range(ranks)] else ["all_gather"]
    said: list[Any] = ["from root", 3] if rank == ranks - 1 else [None, None]
    dist.broadcast_object_list(said, ranks - 1)
    wrong += [] if said == ["from root", 3] else ["broadcast"]
    gathered: list[Any] = [None] * ranks
    dist.gather_object(rank, gathered if rank == 0 else None)
    wrong += [] if rank or gathered == list(range(ranks)) else ["gather"]
    given: list[Any] = [None]
    dist.scatter_object_list(given, [str(one) for one in range(ranks)] if rank == 0 else None)
    return wrong + ([] if given == [str(rank)] else ["scatter"])


def between_pairs(checks: Checks) -> list[str]:
    rank, ranks = checks.rank, checks.ranks
    if ranks == 1:
        return []
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    for size in (0, 5, 100_003):
        out = torch.empty(size)
        works = dist.batch_isend_irecv(
            [dist.P2POp(dist.irecv, out, left), dist.P2POp(dist.isend, torch.full((size,), float(rank)), right)]
        )
        for work in works:
            work.wait()
        checks.equal(f"batch {size}", out, torch.full((size,), float(left)))
    # Tags are matched in any order.
    first, second = torch.empty(3), torch.empty(3)
    sent = [dist.isend(torch.full((3,), float(tag)), right, tag=tag) for tag in (1, 2)]
    works = [dist.irecv(second, left, tag=2), dist.irecv(first, left, tag=1)]
    for work in works + sent:
        work.wait()
    checks.equal("tags", torch.cat([first, second]), torch.tensor([1.0] * 3 + [2.0] * 3))
    return [] if works[0].source_rank() == left else ["source rank"]


def layouts() -> list[str]:
    """Tensors that are not contiguous, coalesced calls, batches, complex numbers."""
    checks = Checks()
    rank, ranks = checks.rank, checks.ranks
    block = torch.arange(24.0).view(4, 6) + rank
    total = block * 0 + torch.arange(24.0).view(4, 6) * ranks + ranks * (ranks - 1) / 2
    for name, view in (("columns", lambda whole: whole[:, ::2]), ("transposed", lambda whole: whole.t())):
        whole = block.clone()
        dist.all_reduce(view(whole))
        checks.equal(f"all_reduce {name}", view(whole), view(total))
        outs = [view(torch.zeros(4, 6)) for _ in range(ranks)]
        dist.all_gather(outs, view(block))
        checks.equal(f"all_gather {name}", outs[-1], view(torch.arange(24.0).view(4, 6) + ranks - 1))
        whole = block.clone()
        dist.broadcast(view(whole), 0)
        checks.equal(f"broadcast {name}", view(whole), view(torch.arange(24.0).view(4, 6)))
    tensors = [torch.full((size,), float(rank)) for size in (3, 0, 1021)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    checks.equal("coalesced all_reduce", torch.cat(tensors), torch.full((1024,), ranks * (ranks - 1) / 2))
    outs = [torch.empty(ranks * size) for size in (2, 5)]
    with dist._coalescing_manager(async_ops=True) as batch:
        for out, size in zip(outs, (2, 5), strict=True):
            dist.all_gather_into_tensor(out, torch.full((size,), float(rank)))
    batch.wait()
    expected = torch.cat([torch.arange(float(ranks)).repeat_interleave(size) for size in (2, 5)])
    checks.equal("coalesced all_gather", torch.cat(outs), expected)
    outs = [torch.empty(2), torch.empty(5)]
    with dist._coalescing_manager(device=torch.device("cpu")):
        for out in outs:
            dist.reduce_scatter_tensor(out, torch.ones(ranks * len(out)))
    checks.equal("coalesced reduce_scatter", torch.cat(outs), torch.full((7,), float(ranks)))
    complexes = torch.tensor([1 + 2j]) * (rank + 1)
    dist.all_reduce(complexes)
    checks.equal("complex", complexes, torch.tensor([1 + 2j]) * (ranks * (ranks + 1) // 2))
    element = torch.full((1, 2), float(rank))[:, 0]
    dist.broadcast(element, ranks - 1)
    checks.equal("one element of a column", element, torch.tensor([ranks - 1.0]))
    scalar = torch.tensor(float(rank))
    dist.all_reduce(scalar)
    checks.equal("scalar", scalar, torch.tensor(ranks * (ranks - 1) / 2))
    return checks.wrong


def everything() -> list[str]:
    return reductions() + movements() + layouts()


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_operation_gives_what_gloo_gives(run_ranks: Any, ranks: int):
    assert run_ranks("everything", ranks) == {rank: [] for rank in range(ranks)}


def large() -> list[str]:
    checks = Checks()
    count = (64 << 20) // 4 + 3
    own = torch.full((count,), checks.rank + 1.0)
    dist.all_reduce(own)
    checks.equal("all_reduce", own, torch.full((count,), 3.0))
    out = torch.empty(2 * count)
    dist.all_gather_into_tensor(out, own)
    checks.equal("all_gather", out, torch.full((2 * count,), 3.0))
    return checks.wrong


def test_large_tensors(run_ranks: Any):
    assert run_ranks("large", 2) == {0: [], 1: []}


def test_eight_ranks(run_ranks: Any):
    assert run_ranks("layouts", 8) == {rank: [] for rank in range(8)}
