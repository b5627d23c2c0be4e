"""Concurrent operations: a barrier follows those before it, and those on the same tensors run in order."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

pytestmark = [pytest.mark.live]

RANKS = 3
ROWS, COLUMNS = 60, 50
OPERATIONS = 80


def behind_a_barrier() -> list[str]:
    """Results read after a barrier instead of waits for works; returns the missing ones."""
    missing, ranks = [], dist.get_world_size()
    for number in range(5):
        reduced = [torch.ones(2_000) for _ in range(100)]
        columns = torch.ones(300, 7)
        lists = [[torch.zeros(900) for _ in range(ranks)] for _ in range(5)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in reduced]
        works += [dist.all_reduce(columns.t(), async_op=True)]
        works += [dist.all_gather(pieces, torch.full((900,), 1.0 + dist.get_rank()), async_op=True) for pieces in lists]
        dist.barrier()
        missing += [f"{number}: all_reduce" for tensor in reduced if not (tensor == ranks).all()]
        if not (columns == ranks).all():
            missing.append(f"{number}: columns")
        for pieces in lists:
            missing += [f"{number}: {rank}" for rank, piece in enumerate(pieces) if not (piece == rank + 1).all()]
        for work in works:
            work.wait()
    return missing


def test_a_barrier_ends_after_the_operations_before_it(run_ranks: Any):
    assert run_ranks("behind_a_barrier", RANKS) == {rank: [] for rank in range(RANKS)}


def coalesced() -> list[str]:
    """Tensors that overlap in one call: differences from Gloo's results."""
    gloo, wrong = dist.new_group(backend="gloo"), []

    def reduce(group: Any, parts: Callable[[Any], list[Any]]) -> Any:
        whole = torch.arange(12.0) + dist.get_rank()
        dist.all_reduce_coalesced(parts(whole), group=group)
        return whole

    for name, parts in {
        "twice": lambda whole: [whole, whole],
        "overlapping": lambda whole: [whole[:8], whole[4:]],
        "inside": lambda whole: [whole, whole[3:5]],
        "apart": lambda whole: [whole[:4], whole[4:]],
    }.items():
        found, expected = reduce(None, parts), reduce(gloo, parts)
        if not torch.equal(found, expected):
            wrong.append(f"{name}: {found.tolist()}, not {expected.tolist()}")
    return wrong


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_coalesced_tensors_that_overlap_are_reduced_as_gloo_does(run_ranks: Any):
    assert run_ranks("coalesced", RANKS) == {rank: [] for rank in range(RANKS)}


class Overlaps:
    """Random operations on views of one matrix, the same at all ranks."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kinds = (self.all_reduce, self.coalesced, self.broadcast, self.all_gather, self.all_to_all, self.scatter)

    def start(self, matrix: Any) -> Any:
        """The next operation."""
        return self.random.choice(self.kinds)(matrix)

    def views(self, matrix: Any, count: int) -> list[Any]:
        """Blocks of one size, contiguous only if they have all columns, or transposed."""
        rows, columns = self.random.choice(((1, COLUMNS), (3, COLUMNS), (20, COLUMNS), (5, 7), (12, 3), (1, 1)))
        turned = self.random.random() < 0.2
        found = []
        for _ in range(count):
            top, left = self.random.randrange(ROWS - rows + 1), self.random.randrange(COLUMNS - columns + 1)
            block = matrix[top : top + rows, left : left + columns]
            found.append(block.t() if turned else block)
        return found

    def all_reduce(self, matrix: Any) -> Any:
        op = self.random.choice((dist.ReduceOp.SUM, dist.ReduceOp.MAX))
        return dist.all_reduce(self.views(matrix, 1)[0], op, async_op=True)

    def coalesced(self, matrix: Any) -> Any:
        return dist.all_reduce_coalesced(self.views(matrix, 3), async_op=True)

    def broadcast(self, matrix: Any) -> Any:
        return dist.broadcast(self.views(matrix, 1)[0], self.random.randrange(RANKS), async_op=True)

    def all_gather(self, matrix: Any) -> Any:
        tensor, *pieces = self.views(matrix, RANKS + 1)
        return dist.all_gather(pieces, tensor, async_op=True)

    def all_to_all(self, matrix: Any) -> Any:
        views = self.views(matrix, 2 * RANKS)
        return dist.all_to_all(views[:RANKS], views[RANKS:], async_op=True)

    def scatter(self, matrix: Any) -> Any:
        output, *parts = self.views(matrix, RANKS + 1)
        root = self.random.randrange(RANKS)
        return dist.scatter(output, parts if dist.get_rank() == root else None, root, async_op=True)


def in_flight() -> list[int]:
    """Seeds for which concurrent operations differ from sequential ones."""
    wrong = []
    for seed in range(6):
        together = torch.randint(0, 1000, (ROWS, COLUMNS), generator=torch.Generator().manual_seed(seed))
        together += dist.get_rank()
        alone = together.clone()
        drawn, again = Overlaps(seed), Overlaps(seed)
        works = [drawn.start(together) for _ in range(OPERATIONS)]
        for work in reversed(works):
            work.wait()
        for _ in range(OPERATIONS):
            again.start(alone).wait()
        if not torch.equal(together, alone):
            wrong.append(seed)
    return wrong


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_operations_on_overlapping_views_give_what_one_after_the_other_gives(run_ranks: Any):
    assert run_ranks("in_flight", RANKS) == {rank: [] for rank in range(RANKS)}
