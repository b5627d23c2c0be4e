"""Random schedules of collectives on several groups, several at once, and from several threads; NumPy is the oracle."""

from __future__ import annotations

import os
import random
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collective_ranks import Body, run_ranks

from openmrc.collectives import Group, ReduceOp, Work, World

pytestmark = pytest.mark.live

RANKS = 3
HOSTS = ("a", "a", "b")  # ranks with the same name share memory
OPERATIONS = 120
DTYPES = ("float64", "float32", "int64", "int32", "int16", "int8", "uint8")
COUNTS = (0, 1, 2, 13, 509, 1021, 4099, 40_009, 150_001)
UFUNCS = {ReduceOp.SUM: np.add, ReduceOp.PROD: np.multiply, ReduceOp.MIN: np.minimum, ReduceOp.MAX: np.maximum}
Started = tuple[list[Work], Callable[[], bool]]


def run(folder: Path, body: Body, *, shared: bool = False) -> list[Any]:
    return run_ranks(RANKS, folder, body, sites=[[0, 1], [2]], hosts=HOSTS if shared else ())


class Random:
    """Random operations from a seed, the same at all ranks; and their expected results at this rank."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kinds = (self.all_reduce, self.reduce_scatter, self.all_gather, self.broadcast, self.reduce)
        self.more = (self.gather, self.scatter, self.all_to_all, self.pair)

    def next(self, group: Group | None, size: int) -> Started | None:
        """Starts the next operation; returns None, without a start, if this rank is not a member of its group."""
        kind = self.random.choice(self.kinds + self.more)
        dtype, count, seed = self.random.choice(DTYPES), self.random.choice(COUNTS), self.random.random()
        root, lane = self.random.randrange(size), self.random.choice(("bulk", "critical"))
        op = self.random.choice(list(UFUNCS))
        if group is None:
            return None
        draw = np.random.default_rng(int(seed * 2**32))
        if kind in (self.reduce_scatter, self.scatter, self.all_to_all):
            parts = [draw.integers(0, 3, count * size).astype(dtype) for _ in range(size)]
        else:
            parts = [draw.integers(0, 3, count).astype(dtype) for _ in range(size)]
        return kind(group, parts, root, op, lane)

    def all_reduce(self, group: Group, parts: list[np.ndarray], _root: int, op: ReduceOp, lane: str) -> Started:
        mine = parts[group.rank].copy()
        wanted = UFUNCS[op].reduce(parts, dtype=mine.dtype)
        algorithm = ("auto", "ring", "direct", "doubling", "halving")[len(mine) % 5]
        work = group.all_reduce(mine, op, algorithm=algorithm, traffic_class=lane)
        return [work], lambda: np.array_equal(mine, wanted)

    def reduce_scatter(self, group: Group, parts: list[np.ndarray], _root: int, op: ReduceOp, lane: str) -> Started:
        count = len(parts[0]) // group.size
        out = np.empty(count, parts[0].dtype)
        wanted = UFUNCS[op].reduce(parts, dtype=out.dtype)[group.rank * count : (group.rank + 1) * count]
        work = group.reduce_scatter(out, parts[group.rank], op, traffic_class=lane)
        return [work], lambda: np.array_equal(out, wanted)

    def all_gather(self, group: Group, parts: list[np.ndarray], _root: int, _op: ReduceOp, lane: str) -> Started:
        out = np.empty(len(parts[0]) * group.size, parts[0].dtype)
        work = group.all_gather(out, parts[group.rank], traffic_class=lane)
        return [work], lambda: np.array_equal(out, np.concatenate(parts))

    def broadcast(self, group: Group, parts: list[np.ndarray], root: int, _op: ReduceOp, lane: str) -> Started:
        mine = parts[group.rank].copy()
        return [group.broadcast(mine, root, traffic_class=lane)], lambda: np.array_equal(mine, parts[root])

    def reduce(self, group: Group, parts: list[np.ndarray], root: int, op: ReduceOp, lane: str) -> Started:
        mine = parts[group.rank].copy()
        wanted = UFUNCS[op].reduce(parts, dtype=mine.dtype)
        work = group.reduce(mine, root, op, traffic_class=lane)
        return [work], lambda: group.rank != root or np.array_equal(mine, wanted)

    def gather(self, group: Group, parts: list[np.ndarray], root: int, _op: ReduceOp, lane: str) -> Started:
        out = np.empty(len(parts[0]) * group.size, parts[0].dtype) if group.rank == root else None
        work = group.gather(out, parts[group.rank], root, traffic_class=lane)
        return [work], lambda: out is None or np.array_equal(out, np.concatenate(parts))

    def scatter(self, group: Group, parts: list[np.ndarray], root: int, _op: ReduceOp, lane: str) -> Started:
        count = len(parts[0]) // group.size
        out = np.empty(count, parts[0].dtype)
        work = group.scatter(out, parts[root] if group.rank == root else None, root, traffic_class=lane)
        wanted = parts[root][group.rank * count : (group.rank + 1) * count]
        return [work], lambda: np.array_equal(out, wanted)

    def all_to_all(self, group: Group, parts: list[np.ndarray], _root: int, _op: ReduceOp, lane: str) -> Started:
        out = np.empty_like(parts[0])
        work = group.all_to_all(out, parts[group.rank], traffic_class=lane)
        wanted = np.concatenate([np.split(part, group.size)[group.rank] for part in parts])
        return [work], lambda: np.array_equal(out, wanted)

    def pair(self, group: Group, parts: list[np.ndarray], root: int, _op: ReduceOp, lane: str) -> Started:
        """Two messages from the root to the next rank, whose order must be kept."""
        to = (root + 1) % group.size
        first, second = parts[root], parts[to][: len(parts[to]) // 2]
        if group.rank == root:
            return [group.send(one, to, traffic_class=lane) for one in (first, second)], lambda: True
        if group.rank != to:
            return [], lambda: True
        out = [np.empty_like(first), np.empty_like(second)]
        works = [group.recv(one, root, traffic_class=lane) for one in out]
        return works, lambda: np.array_equal(out[0], first) and np.array_equal(out[1], second)


def random_schedule(seed: int) -> Body:
    def body(world: World) -> list[int]:
        groups: list[Group | None] = [world.group]
        sizes = [RANKS]
        for name, members in (("backwards", (2, 1, 0)), ("ends", (2, 0)), ("again", (0, 1, 2))):
            groups.append(world.new_group(members, name) if world.rank in members else None)
            sizes.append(len(members))
        source, own, choice = Random(seed), random.Random(world.rank), random.Random(seed)
        running: list[tuple[int, Started]] = []
        wrong = []
        for number in range(OPERATIONS):
            which = choice.randrange(len(groups))
            started = source.next(groups[which], sizes[which])
            if started is not None:
                running.append((number, started))
            while running and (own.random() < 0.4 or len(running) > 12 or number == OPERATIONS - 1):
                index, (works, is_right) = running.pop(own.randrange(len(running)))
                own.shuffle(works)
                for work in works:
                    work.wait(60)
                if not is_right():
                    wrong.append(index)
        return wrong

    return body


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_random_schedules_give_what_numpy_gives(tmp_path: Path, seed: int, shared: bool):
    assert run(tmp_path, random_schedule(seed), shared=shared) == [[]] * RANKS


def threads_at_work(world: World) -> list[str]:
    """Four threads, each with a group of its own, which do not wait for each other."""
    wrong: list[str] = []

    def work(group: Group, seed: int) -> None:
        try:
            source = Random(seed)
            for number in range(30):
                started = source.next(group, RANKS)
                assert started is not None
                for one in started[0]:
                    one.wait(60)
                if not started[1]():
                    wrong.append(f"{group.name}: {number}")
        except BaseException:
            wrong.append(traceback.format_exc())

    groups = [world.new_group((0, 1, 2), f"thread{number}") for number in range(4)]
    threads = [threading.Thread(target=work, args=(group, seed)) for seed, group in enumerate(groups)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


@pytest.mark.parametrize("shared", [False, True])
def test_groups_are_used_from_several_threads_at_once(tmp_path: Path, shared: bool):
    assert run(tmp_path, threads_at_work, shared=shared) == [[]] * RANKS


def factors(world: World) -> list[str]:
    wrong = []
    group, count = world.group, 50_021
    parts = [np.random.default_rng(rank).integers(-9, 9, count * RANKS).astype(np.float64) for rank in range(RANKS)]
    wanted = sum((rank + 1) * 0.5 * part for rank, part in enumerate(parts))
    mine = (group.rank + 1) * 0.5
    for algorithm in ("ring", "direct", "doubling", "halving", "hierarchical", "tree"):
        buffer = parts[group.rank].copy()
        group.all_reduce(buffer, ReduceOp.PREMUL_SUM, factor=mine, algorithm=algorithm).wait(30)
        if not np.array_equal(buffer, wanted):
            wrong.append(algorithm)
    out, whole = np.empty(count), parts[group.rank].copy()
    group.reduce_scatter(out, whole, ReduceOp.PREMUL_SUM, factor=mine).wait(30)
    if not np.array_equal(out, wanted[group.rank * count : (group.rank + 1) * count]):
        wrong.append("reduce_scatter")
    if not np.array_equal(whole, parts[group.rank]):
        wrong.append("reduce_scatter changed its input")
    for algorithm in ("chain", "tree"):
        buffer = parts[group.rank].copy()
        group.reduce(buffer, 2, ReduceOp.PREMUL_SUM, factor=mine, algorithm=algorithm).wait(30)
        if group.rank == 2 and not np.array_equal(buffer, wanted):
            wrong.append(f"reduce {algorithm}")
    return wrong


def test_every_rank_has_its_own_factor(tmp_path: Path):
    assert run(tmp_path, factors) == [[]] * RANKS


def larger_than_scratch(world: World) -> tuple[bool, str, str]:
    """66 MiB and 3 bytes, segment by segment."""
    count = (66 << 20) + 3
    mine = np.arange(count, dtype=np.uint8) + np.uint8(world.rank)
    world.group.all_reduce(mine).wait(60)
    wanted = np.arange(count, dtype=np.uint8) * np.uint8(RANKS) + np.uint8(RANKS * (RANKS - 1) // 2)
    return (
        bool(np.array_equal(mine, wanted)),
        world.group.algorithm_for("all_reduce", count),
        world.new_group((0, 1, 2), "other").algorithm_for("all_reduce", 8),
    )


@pytest.mark.parametrize("shared", [False, True])
def test_operations_larger_than_the_scratch_memory(tmp_path: Path, shared: bool):
    little = "tree" if (os.cpu_count() or RANKS) < RANKS else "doubling"
    assert run(tmp_path, larger_than_scratch, shared=shared) == [(True, "hierarchical", little)] * RANKS
