"""Schedules of all ranks, run by a small machine that lets messages arrive and steps happen in any order they may."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmrc.collectives.elements import ElementType, ReduceOp
from openmrc.collectives.schedule import Schedule, Step, StepKind
from openmrc.collectives.schedules import ALGORITHMS, Request, choose, schedule_of
from openmrc.errors import ConfigError

Bytes = np.ndarray


class Machine:
    """All ranks' buffers, and their steps in a random order that the waits allow.

    What is sent lies in the receiver's buffer at any time after that: at once, or just before the receive is done.
    """

    def __init__(self, schedules: list[Schedule], seed: int, dtype: str, average_of: int) -> None:
        self.schedules = schedules
        self.random = random.Random(seed)
        self.dtype = dtype
        self.average_of = average_of
        self.buffers = [
            [np.full(size, 0xA5, dtype=np.uint8) for size in schedule.buffer_bytes] for schedule in schedules
        ]
        self.done: list[set[int]] = [set() for _ in schedules]
        self.wire: dict[tuple[int, int], list[tuple[Step, Bytes] | None]] = defaultdict(list)

    def run(self) -> None:
        pairs: dict[tuple[int, int], int] = defaultdict(int)
        order: list[dict[int, int]] = [{} for _ in self.schedules]
        for rank, schedule in enumerate(self.schedules):
            for number, step in enumerate(schedule.steps):
                if step.kind in (StepKind.SEND, StepKind.RECEIVE):
                    key = (rank, step.peer, int(step.kind))
                    order[rank][number] = pairs[key]  # type: ignore[index]
                    pairs[key] += 1  # type: ignore[index]
        while True:
            able = [
                (rank, number)
                for rank, schedule in enumerate(self.schedules)
                for number, step in enumerate(schedule.steps)
                if number not in self.done[rank] and self.may(rank, number, step, order)
            ]
            if not able:
                break
            rank, number = self.random.choice(able)
            self.do(rank, self.schedules[rank].steps[number], order[rank].get(number, 0))
            self.done[rank].add(number)
        left = [len(schedule.steps) - len(done) for schedule, done in zip(self.schedules, self.done, strict=True)]
        assert not any(left), f"steps that can never happen: {left}"

    def may(self, rank: int, number: int, step: Step, order: list[dict[int, int]]) -> bool:
        if not set(step.waits) <= self.done[rank]:
            return False
        if step.kind is not StepKind.RECEIVE:
            return True
        sent = self.wire[step.peer, rank]
        index = order[rank][number]
        return index < len(sent) and sent[index] is not None

    def do(self, rank: int, step: Step, index: int) -> None:
        own = self.buffers[rank]
        if step.kind is StepKind.SEND:
            data = own[step.source.buffer][step.source.offset : step.source.offset + step.bytes].copy()
            assert len(data) == step.bytes
            slots = self.wire[rank, step.peer]
            slots.extend([None] * (index + 1 - len(slots)))
            slots[index] = (step, data)
            if self.random.random() < 0.5:
                self.place(rank, step.peer, step, data)
            return
        into = own[step.into.buffer][step.into.offset : step.into.offset + step.bytes]
        assert len(into) == step.bytes
        if step.kind is StepKind.RECEIVE:
            sent = self.wire[step.peer, rank][index]
            assert sent is not None
            assert sent[0].bytes == step.bytes
            shift = self.shift(rank, step.peer, step.into.buffer)
            assert (sent[0].into.buffer, sent[0].into.offset + shift) == (step.into.buffer, step.into.offset)
            self.place(step.peer, rank, *sent)
        elif step.kind is StepKind.COPY:
            into[:] = own[step.source.buffer][step.source.offset : step.source.offset + step.bytes]
        elif step.kind is StepKind.REDUCE:
            other = own[step.source.buffer][step.source.offset : step.source.offset + step.bytes]
            numbers = into.view(self.dtype)
            numbers += other.view(self.dtype)
        elif step.kind is StepKind.DIVIDE:
            numbers = into.view(self.dtype)
            numbers //= self.average_of

    def shift(self, rank: int, peer: int, buffer: int) -> int:
        schedule = self.schedules[rank]
        return schedule.shifts[peer] if schedule.shifts and buffer == schedule.shifted_buffer else 0

    def place(self, rank: int, peer: int, step: Step, data: Bytes) -> None:
        offset = step.into.offset + self.shift(peer, rank, step.into.buffer)
        self.buffers[peer][step.into.buffer][offset : offset + step.bytes] = data


def run(
    make: Callable[[int], Request], ranks: int, seed: int, fill: Callable[[int, Machine], None], dtype: str = "<i4"
) -> Machine:
    machine = Machine([schedule_of(make(rank)) for rank in range(ranks)], seed, dtype, ranks)
    for rank in range(ranks):
        fill(rank, machine)
    machine.run()
    return machine


def numbers(rank: int, count: int) -> Bytes:
    return (np.arange(count, dtype="<i4") * 7 + rank * 1000).astype("<i4")


def put(machine: Machine, rank: int, buffer: int, values: Bytes) -> None:
    machine.buffers[rank][buffer][: values.nbytes] = values.view(np.uint8)


def got(machine: Machine, rank: int, buffer: int, count: int) -> Bytes:
    return machine.buffers[rank][buffer][: count * 4].view("<i4")


SHAPES = {"ranks": st.integers(1, 9), "count": st.sampled_from((0, 1, 2, 7, 64, 1000)), "seed": st.integers(0, 2**32)}


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many chunks of few bytes, so that pipelines show."""
    monkeypatch.setattr("openmrc.collectives.schedules.CHUNK_BYTES", 512)


@given(**SHAPES, algorithm=st.sampled_from(ALGORITHMS["all_reduce"]), average=st.booleans())
def test_all_reduce_is_the_sum_at_every_rank(ranks: int, count: int, seed: int, algorithm: str, average: bool):
    op = ReduceOp.AVG if average else ReduceOp.SUM
    machine = run(
        lambda rank: Request("all_reduce", rank, ranks, (4 * count,), ElementType.INT32, op, algorithm=algorithm),
        ranks,
        seed,
        lambda rank, machine: put(machine, rank, 0, numbers(rank, count)),
    )
    total = np.sum([numbers(rank, count) for rank in range(ranks)], axis=0)
    for rank in range(ranks):
        np.testing.assert_array_equal(got(machine, rank, 0, count), total // ranks if average else total)


@given(**SHAPES)
def test_reduce_scatter_gives_every_rank_its_block(ranks: int, count: int, seed: int):
    machine = run(
        lambda rank: Request("reduce_scatter", rank, ranks, (4 * count * ranks, 4 * count), ElementType.INT32),
        ranks,
        seed,
        lambda rank, machine: put(machine, rank, 0, numbers(rank, count * ranks)),
    )
    total = np.sum([numbers(rank, count * ranks) for rank in range(ranks)], axis=0)
    for rank in range(ranks):
        np.testing.assert_array_equal(got(machine, rank, 1, count), total[rank * count : (rank + 1) * count])
        np.testing.assert_array_equal(got(machine, rank, 0, count * ranks), numbers(rank, count * ranks))


@given(**SHAPES, algorithm=st.sampled_from(ALGORITHMS["all_gather"]))
def test_all_gather_puts_all_blocks_side_by_side(ranks: int, count: int, seed: int, algorithm: str):
    machine = run(
        lambda rank: Request("all_gather", rank, ranks, (4 * count, 4 * count * ranks), algorithm=algorithm),
        ranks,
        seed,
        lambda rank, machine: put(machine, rank, 0, numbers(rank, count)),
    )
    everything = np.concatenate([numbers(rank, count) for rank in range(ranks)])
    for rank in range(ranks):
        np.testing.assert_array_equal(got(machine, rank, 1, count * ranks), everything)


@given(**SHAPES, algorithm=st.sampled_from(ALGORITHMS["broadcast"]), data=st.data())
def test_broadcast_is_the_roots(ranks: int, count: int, seed: int, algorithm: str, data: st.DataObject):
    root = data.draw(st.integers(0, ranks - 1))
    machine = run(
        lambda rank: Request("broadcast", rank, ranks, (4 * count,), root=root, algorithm=algorithm),
        ranks,
        seed,
        lambda rank, machine: put(machine, rank, 0, numbers(rank, count)),
    )
    for rank in range(ranks):
        np.testing.assert_array_equal(got(machine, rank, 0, count), numbers(root, count))


@given(**SHAPES, algorithm=st.sampled_from(ALGORITHMS["reduce"]), data=st.data())
def test_reduce_is_the_sum_at_the_root(ranks: int, count: int, seed: int, algorithm: str, data: st.DataObject):
    root = data.draw(st.integers(0, ranks - 1))
    machine = run(
        lambda rank: Request("reduce", rank, ranks, (4 * count,), ElementType.INT32, root=root, algorithm=algorithm),
        ranks,
        seed,
        lambda rank, machine: put(machine, rank, 0, numbers(rank, count)),
    )
    total = np.sum([numbers(rank, count) for rank in range(ranks)], axis=0)
    np.testing.assert_array_equal(got(machine, root, 0, count), total)


@given(ranks=st.integers(1, 7), seed=st.integers(0, 2**32), data=st.data())
def test_all_to_all_moves_every_part(ranks: int, seed: int, data: st.DataObject):
    sizes = st.integers(0, 300)
    counts = [[data.draw(sizes) for _ in range(ranks)] for _ in range(ranks)]

    def request(rank: int) -> Request:
        leaving = tuple(4 * one for one in counts[rank])
        arriving = tuple(4 * counts[peer][rank] for peer in range(ranks))
        return Request("all_to_all", rank, ranks, (sum(leaving), sum(arriving)), parts=(leaving, arriving))

    def fill(rank: int, machine: Machine) -> None:
        parts = [numbers(rank * 10 + peer, counts[rank][peer]) for peer in range(ranks)]
        put(machine, rank, 0, np.concatenate(parts))

    machine = run(request, ranks, seed, fill)
    for rank in range(ranks):
        parts = [numbers(peer * 10 + rank, counts[peer][rank]) for peer in range(ranks)]
        np.testing.assert_array_equal(got(machine, rank, 1, sum(map(len, parts))), np.concatenate(parts))


@given(**SHAPES, data=st.data())
def test_gather_and_scatter_meet_at_the_root(ranks: int, count: int, seed: int, data: st.DataObject):
    root = data.draw(st.integers(0, ranks - 1))

    def sizes(rank: int) -> int:
        return 4 * count * ranks if rank == root else 0

    machine = run(
        lambda rank: Request("gather", rank, ranks, (4 * count, sizes(rank)), root=root),
        ranks,
        seed,
        lambda rank, machine: put(machine, rank, 0, numbers(rank, count)),
    )
    everything = np.concatenate([numbers(rank, count) for rank in range(ranks)])
    np.testing.assert_array_equal(got(machine, root, 1, count * ranks), everything)
    machine = run(
        lambda rank: Request("scatter", rank, ranks, (sizes(rank), 4 * count), root=root),
        ranks,
        seed,
        lambda rank, machine: put(machine, rank, 0, everything) if rank == root else None,
    )
    for rank in range(ranks):
        np.testing.assert_array_equal(got(machine, rank, 1, count), numbers(rank, count))


@given(ranks=st.integers(2, 17), seed=st.integers(0, 2**32), data=st.data())
def test_no_rank_leaves_a_barrier_before_all_have_come(ranks: int, seed: int, data: st.DataObject):
    schedules = [schedule_of(Request("barrier", rank, ranks, (0,))) for rank in range(ranks)]
    late = data.draw(st.integers(0, ranks - 1))
    machine = Machine(schedules, seed, "<i4", ranks)
    may = machine.may
    machine.may = lambda rank, *step: rank != late and may(rank, *step)  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="never happen"):
        machine.run()
    assert not [rank for rank in range(ranks) if len(machine.done[rank]) == len(schedules[rank].steps)]
    Machine(schedules, seed, "<i4", ranks).run()


def test_little_takes_few_rounds_and_much_takes_few_bytes():
    assert choose(Request("all_reduce", 0, 4, (8,))) == "doubling"
    assert choose(Request("all_reduce", 0, 4, (64 << 20,))) == "ring"
    assert choose(Request("broadcast", 0, 4, (64,))) == "tree"
    with pytest.raises(ConfigError, match="algorithm"):
        choose(Request("all_reduce", 0, 4, (8,), algorithm="rign"))
