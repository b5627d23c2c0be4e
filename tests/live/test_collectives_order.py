"""Order within a group: a barrier ends after the operations before it; operations that share memory run in order."""

from __future__ import annotations

import mmap
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collective_ranks import Body, Ranks, run_ranks

from openmrc.collectives import CollectiveError, Group, ReduceOp, Work, World

pytestmark = pytest.mark.live

RANKS = 3
HOSTS = ("a", "a", "b")  # ranks with the same name share memory
PATIENCE_S = 60


def run(folder: Path, body: Body, *, shared: bool = False) -> list[Any]:
    return run_ranks(RANKS, folder, body, hosts=HOSTS if shared else ())


def shared_arrays(count: int) -> list[np.ndarray]:
    """An array for each rank, in memory shared by the forked ranks."""
    return [np.frombuffer(mmap.mmap(-1, count * 8), np.int64) for _ in range(RANKS)]


# --- barriers


def pending_operations(world: World) -> list[int]:
    """Of several rounds, the operations that had not ended at the end of the following barrier."""
    group, pending = world.group, []
    for number in range(4):
        traffic_class = ("bulk", "critical")[number % 2]
        works = [group.all_reduce(np.ones(20_000), traffic_class=traffic_class) for _ in range(50)]
        works += [group.broadcast(np.ones(40_000), root) for root in range(RANKS)]
        group.barrier().wait(PATIENCE_S)
        pending.append(sum(not work.done for work in works))
        for work in works:
            work.wait(PATIENCE_S)
    return pending


@pytest.mark.parametrize("shared", [False, True])
def test_a_barrier_ends_after_all_operations_of_its_group_before_it(tmp_path: Path, shared: bool):
    assert run(tmp_path, pending_operations, shared=shared) == [[0] * 4] * RANKS


def test_a_barrier_ends_after_the_operations_before_it_have_ended_at_every_rank(tmp_path: Path):
    count, rounds = 200_000, 8
    received = shared_arrays(count)

    def body(world: World) -> list[bool]:
        complete = []
        for number in range(1, rounds + 1):
            mine = np.full(count, number) if world.rank == 0 else received[world.rank]
            work = world.group.broadcast(mine, 0)
            world.group.barrier().wait(PATIENCE_S)
            complete.append(all(bool((received[rank] == number).all()) for rank in (1, 2)))
            work.wait(PATIENCE_S)
            world.group.barrier().wait(PATIENCE_S)  # keeps other ranks from overwriting data that a rank still compares
        return complete

    assert run(tmp_path, body) == [[True] * rounds] * RANKS


def messages_across_a_barrier(world: World) -> tuple[bool, bool]:
    """Receives posted before a barrier whose messages are sent after it."""
    group, count = world.group, 50_000
    before, after = np.zeros(count), np.zeros(3)
    previous, following = (world.rank - 1) % RANKS, (world.rank + 1) % RANKS
    receives = [group.recv(before, previous), group.recv(after)]
    group.barrier().wait(PATIENCE_S)
    sends = [group.send(np.full(count, world.rank + 1.0), following), group.send(np.full(3, 9.0), following)]
    group.barrier().wait(PATIENCE_S)
    for work in (*receives, *sends):
        work.wait(PATIENCE_S)
    return bool((before == previous + 1).all()), bool((after == 9).all())


def test_a_barrier_does_not_wait_for_messages_between_two_ranks(tmp_path: Path):
    assert run(tmp_path, messages_across_a_barrier) == [(True, True)] * RANKS


def barrier_of_another_group(world: World) -> list[str]:
    """A barrier passes while an operation of another group waits for a rank."""
    other = world.new_group((0, 1, 2), "other")
    late = None if world.rank == 2 else other.all_reduce(np.ones(4))
    world.group.barrier().wait(PATIENCE_S)
    late = late or other.all_reduce(np.ones(4))
    late.wait(PATIENCE_S)
    return []


def test_a_barrier_does_not_wait_for_other_groups(tmp_path: Path):
    assert run(tmp_path, barrier_of_another_group) == [[]] * RANKS


# --- shared memory


def twice(world: World) -> list[float]:
    found = []
    for count in (1, 700, 5_000, 300_000):
        buffer = np.ones(count)
        works = [world.group.all_reduce(buffer, traffic_class=name) for name in ("bulk", "critical", "bulk")]
        for work in reversed(works):
            work.wait(PATIENCE_S)
        found += sorted(set(buffer.tolist()))
    return [*found, float(world.statistics()["delayed_ops"] > 0)]


@pytest.mark.parametrize("shared", [False, True])
def test_operations_on_one_buffer_run_in_order(tmp_path: Path, shared: bool):
    assert run(tmp_path, twice, shared=shared) == [[27.0] * 4 + [1.0]] * RANKS


def separate(world: World) -> int:
    buffers = [np.ones(1000 + number) for number in range(20)]
    whole = np.ones(20_000)
    works = [world.group.all_reduce(one) for one in (*buffers, *np.split(whole, 20))]
    source = np.ones(500)  # several may read data that none writes
    works += [world.group.all_gather(np.empty(500 * RANKS), source) for _ in range(5)]
    for work in works:
        work.wait(PATIENCE_S)
    return world.statistics()["delayed_ops"]


def test_operations_on_separate_memory_do_not_wait_for_each_other(tmp_path: Path):
    assert run(tmp_path, separate) == [0] * RANKS


def survivors(world: World) -> tuple[list[int | None], list[float]]:
    """Operations behind one that fails because a rank is lost: the rank in the failure, and a result."""
    if world.rank == 2:
        world.group.barrier().wait(PATIENCE_S)
        world.close(goodbye=False)
        return [], []
    buffer, ranks = np.ones(30_000), list[int | None]()
    world.group.barrier().wait(PATIENCE_S)
    pair = world.new_group((0, 1), "pair")
    needs_all = world.group.all_reduce(buffer)
    works = [pair.broadcast(buffer[:10]), pair.all_reduce(buffer[:5]), pair.barrier()]
    for work in (needs_all, *works):
        try:
            work.wait(PATIENCE_S)
            ranks.append(None)
        except CollectiveError as error:
            ranks.append(error.rank)
    return ranks, buffer[:10].tolist()


def test_operations_behind_a_failed_one_begin_all_the_same(tmp_path: Path):
    with Ranks(RANKS, tmp_path, survivors) as ranks:
        found = ranks.answers(of=(0, 1))
    assert found[0] == found[1]
    assert found[0][0] == [2, None, None, None]


def stuck(world: World) -> str:
    buffer, text = np.zeros(4), ""
    if world.rank == 0:
        receive = world.group.recv(buffer, 1)
        work = world.group.all_reduce(buffer)
        try:
            work.wait(0.01)
        except TimeoutError as error:
            text = str(error)
        world.new_group((0, 1, 2), "go").barrier().wait(PATIENCE_S)
        receive.wait(PATIENCE_S)
    else:
        work = world.group.all_reduce(buffer)
        world.new_group((0, 1, 2), "go").barrier().wait(PATIENCE_S)
        if world.rank == 1:
            world.group.send(np.ones(4), 0).wait(PATIENCE_S)
    work.wait(PATIENCE_S)
    return text + str(buffer.tolist())


def test_a_timeout_names_the_operation_that_has_not_begun(tmp_path: Path):
    first, *others = run(tmp_path, stuck)
    assert "all_reduce of world is not done after 0.01 s: it has not begun" in first
    assert first.endswith("[1.0, 1.0, 1.0, 1.0]")
    assert others == ["[1.0, 1.0, 1.0, 1.0]"] * 2


# --- random operations on overlapping views, against one operation after the other

ELEMENTS = 60_000
OPERATIONS = 150
Step = tuple[Callable[[Group, np.ndarray], Work | None], Callable[[list[np.ndarray]], None]]


class Overlaps:
    """Draws operations on views of one array per rank, the same at all ranks.

    Each comes as two functions: one starts it at a rank, the other one applies it to the arrays of all ranks at once.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.kinds = (self.all_reduce, self.all_gather, self.reduce_scatter, self.broadcast, self.all_to_all, self.pair)

    def next(self, members: tuple[int, ...]) -> Step:
        self.lane = self.random.choice(("bulk", "critical"))
        return self.random.choice(self.kinds)(members)

    def views(self, *lengths: int) -> list[slice]:
        """Parts of a rank's array that do not overlap each other, but those of other operations."""
        start, found = self.random.randrange(ELEMENTS - sum(lengths)), []
        for length in lengths:
            found.append(slice(start, start + length))
            start += length
        return found

    def length(self) -> int:
        return self.random.choice((1, 2, 50, 600, 5_000))

    def all_reduce(self, members: tuple[int, ...]) -> Step:
        length = self.length()
        at = {rank: self.views(length)[0] for rank in members}
        lane, op = self.lane, self.random.choice((ReduceOp.SUM, ReduceOp.MAX))

        def apply(arrays: list[np.ndarray]) -> None:
            parts = [arrays[rank][at[rank]] for rank in members]
            whole = np.sum(parts, axis=0) if op is ReduceOp.SUM else np.max(parts, axis=0)
            for part in parts:
                part[:] = whole

        return lambda group, own: group.all_reduce(own[at[group.world.rank]], op, traffic_class=lane), apply

    def all_gather(self, members: tuple[int, ...]) -> Step:
        length, lane = self.length(), self.lane
        at = {rank: self.views(length * len(members), length) for rank in members}

        def start(group: Group, own: np.ndarray) -> Work:
            output, buffer = at[group.world.rank]
            return group.all_gather(own[output], own[buffer], traffic_class=lane)

        def apply(arrays: list[np.ndarray]) -> None:
            whole = np.concatenate([arrays[rank][at[rank][1]] for rank in members])
            for rank in members:
                arrays[rank][at[rank][0]] = whole

        return start, apply

    def reduce_scatter(self, members: tuple[int, ...]) -> Step:
        length, lane = self.length(), self.lane
        at = {rank: self.views(length, length * len(members)) for rank in members}

        def start(group: Group, own: np.ndarray) -> Work:
            output, buffer = at[group.world.rank]
            return group.reduce_scatter(own[output], own[buffer], traffic_class=lane)

        def apply(arrays: list[np.ndarray]) -> None:
            parts = np.split(np.sum([arrays[rank][at[rank][1]] for rank in members], axis=0), len(members))
            for rank, part in zip(members, parts, strict=True):
                arrays[rank][at[rank][0]] = part

        return start, apply

    def broadcast(self, members: tuple[int, ...]) -> Step:
        length, lane, root = self.length(), self.lane, self.random.choice(members)
        at = {rank: self.views(length)[0] for rank in members}

        def start(group: Group, own: np.ndarray) -> Work:
            return group.broadcast(own[at[group.world.rank]], members.index(root), traffic_class=lane)

        def apply(arrays: list[np.ndarray]) -> None:
            for rank in members:
                arrays[rank][at[rank]] = arrays[root][at[root]]

        return start, apply

    def all_to_all(self, members: tuple[int, ...]) -> Step:
        whole, lane = self.length() * len(members), self.lane
        at = {rank: self.views(whole, whole) for rank in members}

        def start(group: Group, own: np.ndarray) -> Work:
            output, buffer = at[group.world.rank]
            return group.all_to_all(own[output], own[buffer], traffic_class=lane)

        def apply(arrays: list[np.ndarray]) -> None:
            parts = [np.split(arrays[rank][at[rank][1]].copy(), len(members)) for rank in members]
            for number, rank in enumerate(members):
                arrays[rank][at[rank][0]] = np.concatenate([part[number] for part in parts])

        return start, apply

    def pair(self, members: tuple[int, ...]) -> Step:
        """A message from one rank to another one."""
        length, lane = self.length(), self.lane
        source, target = self.random.sample(members, 2)
        at = {rank: self.views(length)[0] for rank in (source, target)}

        def start(group: Group, own: np.ndarray) -> Work | None:
            if group.world.rank == source:
                return group.send(own[at[source]], members.index(target), traffic_class=lane)
            if group.world.rank == target:
                return group.recv(own[at[target]], members.index(source), traffic_class=lane)
            return None

        def apply(arrays: list[np.ndarray]) -> None:
            arrays[target][at[target]] = arrays[source][at[source]]

        return start, apply


def overlapping(seed: int) -> Body:
    def body(world: World) -> bool:
        groups: dict[tuple[int, ...], Group | None] = {(0, 1, 2): world.group}
        for members in ((2, 1, 0), (0, 2), (1, 2)):
            groups[members] = world.new_group(members, f"g{members}") if world.rank in members else None
        source, choice = Overlaps(seed), random.Random(seed)
        arrays = [np.random.default_rng(rank).integers(0, 1000, ELEMENTS) for rank in range(RANKS)]
        own, works = arrays[world.rank].copy(), []
        for _ in range(OPERATIONS):
            members = choice.choice(list(groups))
            start, apply = source.next(members)
            apply(arrays)
            group = groups[members]
            if group is not None and (work := start(group, own)) is not None:
                works.append(work)
        for work in works:
            work.wait(PATIENCE_S)
        return bool(np.array_equal(own, arrays[world.rank]))

    return body


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_random_operations_on_overlapping_views_give_what_one_after_the_other_gives(
    tmp_path: Path, seed: int, shared: bool
):
    assert run(tmp_path, overlapping(seed), shared=shared) == [True] * RANKS
