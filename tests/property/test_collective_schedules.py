"""Schedules of all ranks, run by a small machine that delivers messages and executes steps in any permitted order."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from openmrc.collectives.elements import ElementType, ReduceOp
from openmrc.collectives.planner import ALGORITHMS, Request, choose, schedule_of
from openmrc.collectives.schedule import Schedule, Step, StepKind
from openmrc.errors import ConfigError

Bytes = np.ndarray
FACTOR = 3


class Machine:
    """All ranks' buffers, and their steps in a random order permitted by the dependencies.

    A sent message appears in the receiver's buffer at any later time: at once, or just before the receive is done.
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
        waiting = [
            (rank, number) for rank, schedule in enumerate(self.schedules) for number in range(len(schedule.steps))
        ]
        stuck = False
        while waiting and not stuck:
            self.random.shuffle(waiting)
            later = []
            for rank, number in waiting:
                step = self.schedules[rank].steps[number]
                if not self.may(rank, number, step, order):
                    later.append((rank, number))
                    continue
                self.do(rank, step, order[rank].get(number, 0))
                self.done[rank].add(number)
            stuck = len(later) == len(waiting)
            waiting = later
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
        elif step.kind is StepKind.SCALE:
            numbers = into.view(self.dtype)
            numbers *= FACTOR
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


COUNTS = (0, 1, 2, 7, 64, 250)
SHAPES = {"ranks": st.integers(1, 9), "count": st.sampled_from(COUNTS), "seed": st.integers(0, 2**32)}
OPS = (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PREMUL_SUM)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many chunks of few bytes, to exercise pipelines and segments that share scratch memory."""
    monkeypatch.setattr("openmrc.collectives.planner.CHUNK_BYTES", 64)
    monkeypatch.setattr("openmrc.collectives.planner.WHOLE_BYTES_MAX", 400)
    monkeypatch.setattr("openmrc.collectives.planner.SEGMENT_BYTES", 200)


@st.composite
def sites_of(draw: st.DrawFn, ranks: int) -> tuple[tuple[int, ...], ...]:
    """Ranks on sites of any size, in any order."""
    where = [draw(st.integers(0, 3)) for _ in range(ranks)]
    order = draw(st.permutations(range(ranks)))
    sites = [tuple(rank for rank in order if where[rank] == site) for site in range(4)]
    return tuple(site for site in sites if site)


def expected(op: ReduceOp, parts: list[Bytes]) -> Bytes:
    total = np.sum(parts, axis=0, dtype=parts[0].dtype)
    return {ReduceOp.SUM: total, ReduceOp.AVG: total // len(parts), ReduceOp.PREMUL_SUM: total * FACTOR}[op]


@given(**SHAPES, algorithm=st.sampled_from(ALGORITHMS["all_reduce"]), op=st.sampled_from(OPS), data=st.data())
def test_all_reduce_is_the_sum_at_every_rank(
    ranks: int, count: int, seed: int, algorithm: str, op: ReduceOp, data: st.DataObject
):
    sites = data.draw(sites_of(ranks))
    assume(algorithm != "hierarchical" or len(sites) > 1)
    machine = run(
        lambda rank: Request(
            "all_reduce", rank, ranks, (4 * count,), ElementType.INT32, op, algorithm=algorithm, sites=sites
        ),
        ranks,
        seed,
        lambda rank, machine: put(machine, rank, 0, numbers(rank, count)),
    )
    for rank in range(ranks):
        np.testing.assert_array_equal(
            got(machine, rank, 0, count), expected(op, [numbers(rank, count) for rank in range(ranks)])
        )


@given(ranks=st.integers(2, 9), count=st.sampled_from((7, 250)), algorithm=st.sampled_from(ALGORITHMS["all_reduce"]))
def test_the_bits_of_a_sum_do_not_depend_on_the_order_of_events(ranks: int, count: int, algorithm: str):
    sites = (tuple(range(ranks // 2)), tuple(range(ranks // 2, ranks)))
    request = Request("all_reduce", 0, ranks, (4 * count,), ElementType.FLOAT32, algorithm=algorithm, sites=sites)
    found = []
    for seed in (1, 2):
        machine = run(
            lambda rank: replace(request, rank=rank),
            ranks,
            seed,
            lambda rank, machine: put(
                machine, rank, 0, np.random.default_rng(rank).standard_normal(count).astype("<f4") * 10.0**rank
            ),
            "<f4",
        )
        found += [got(machine, rank, 0, count).tobytes() for rank in range(ranks)]
    assert len(set(found)) == 1


@given(
    **{**SHAPES, "count": st.sampled_from((0, 1, 2, 7, 33))},
    algorithm=st.sampled_from(ALGORITHMS["reduce_scatter"]),
    op=st.sampled_from(OPS),
    data=st.data(),
)
def test_reduce_scatter_gives_every_rank_its_block(
    ranks: int, count: int, seed: int, algorithm: str, op: ReduceOp, data: st.DataObject
):
    sizes, sites = (4 * count * ranks, 4 * count), data.draw(sites_of(ranks))
    assume(algorithm != "hierarchical" or len(sites) > 1)
    machine = run(
        lambda rank: Request(
            "reduce_scatter", rank, ranks, sizes, ElementType.INT32, op, algorithm=algorithm, sites=sites
        ),
        ranks,
        seed,
        lambda rank, machine: put(machine, rank, 0, numbers(rank, count * ranks)),
    )
    total = expected(op, [numbers(rank, count * ranks) for rank in range(ranks)])
    for rank in range(ranks):
        np.testing.assert_array_equal(got(machine, rank, 1, count), total[rank * count : (rank + 1) * count])
        np.testing.assert_array_equal(got(machine, rank, 0, count * ranks), numbers(rank, count * ranks))


@given(**SHAPES, algorithm=st.sampled_from(ALGORITHMS["all_gather"]), data=st.data())
def test_all_gather_puts_all_blocks_side_by_side(
    ranks: int, count: int, seed: int, algorithm: str, data: st.DataObject
):
    sites = data.draw(sites_of(ranks))
    assume(algorithm != "hierarchical" or len(sites) > 1)
    machine = run(
        lambda rank: Request(
            "all_gather", rank, ranks, (4 * count, 4 * count * ranks), algorithm=algorithm, sites=sites
        ),
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


@given(**SHAPES, algorithm=st.sampled_from(ALGORITHMS["reduce"]), op=st.sampled_from(OPS), data=st.data())
def test_reduce_is_the_sum_at_the_root(
    ranks: int, count: int, seed: int, algorithm: str, op: ReduceOp, data: st.DataObject
):
    root = data.draw(st.integers(0, ranks - 1))
    machine = run(
        lambda rank: Request(
            "reduce", rank, ranks, (4 * count,), ElementType.INT32, op, root=root, algorithm=algorithm
        ),
        ranks,
        seed,
        lambda rank, machine: put(machine, rank, 0, numbers(rank, count)),
    )
    total = expected(op, [numbers(rank, count) for rank in range(ranks)])
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


@given(
    ranks=st.integers(2, 17), one_host=st.booleans(), crowded=st.booleans(), seed=st.integers(0, 2**32), data=st.data()
)
def test_no_rank_leaves_a_barrier_before_all_have_come(
    ranks: int, one_host: bool, crowded: bool, seed: int, data: st.DataObject
):
    near = {"one_host": one_host, "crowded": crowded}
    schedules = [schedule_of(Request("barrier", rank, ranks, (0,), **near)) for rank in range(ranks)]
    late = data.draw(st.integers(0, ranks - 1))
    machine = Machine(schedules, seed, "<i4", ranks)
    may = machine.may
    machine.may = lambda rank, *step: rank != late and may(rank, *step)  # type: ignore[method-assign]
    with pytest.raises(AssertionError, match="never happen"):
        machine.run()
    assert not [rank for rank in range(ranks) if len(machine.done[rank]) == len(schedules[rank].steps)]
    Machine(schedules, seed, "<i4", ranks).run()


def test_small_buffers_take_few_rounds_and_large_ones_few_bytes():
    assert choose(Request("all_reduce", 0, 4, (8,))) == "doubling"
    assert choose(Request("all_reduce", 0, 4, (256 << 10,))) == "halving"
    assert choose(Request("all_reduce", 0, 6, (256 << 10,))) == "ring"
    assert choose(Request("all_reduce", 0, 4, (64 << 20,))) == "ring"
    assert choose(Request("broadcast", 0, 4, (64,))) == "tree"


@pytest.mark.parametrize("ranks", [4, 5, 16])
def test_ranks_that_share_processors_send_fewer_messages(ranks: int):
    for kind, size in (("barrier", 0), ("all_reduce", 8)):

        def sent(kind: str, size: int, crowded: bool) -> int:
            requests = [Request(kind, rank, ranks, (size,), crowded=crowded) for rank in range(ranks)]
            return sum(step.kind is StepKind.SEND for one in requests for step in schedule_of(one).steps)

        assert sent(kind, size, crowded=True) == 2 * (ranks - 1) < sent(kind, size, crowded=False)
    assert choose(Request("all_reduce", 0, 4, (64 << 10,), crowded=True)) == "halving"
    assert choose(Request("all_reduce", 0, 4, (8,), crowded=True, one_host=True)) == "direct"


def test_ranks_of_one_host_take_fewer_rounds():
    def chosen(ranks: int, size: int) -> str:
        return choose(Request("all_reduce", 0, ranks, (size,), one_host=True))

    assert [chosen(4, size) for size in (8, 256, 257, 32 << 10)] == ["direct", "direct", "doubling", "doubling"]
    assert [chosen(4, size) for size in (8 << 20, (8 << 20) + 4)] == ["halving", "ring"]
    assert [chosen(8, 8), chosen(9, 8)] == ["direct", "doubling"]
    rounds = [schedule_of(Request("barrier", 0, ranks, (0,), one_host=True)).steps for ranks in (8, 9)]
    assert [max(len(step.waits) for step in steps) for steps in rounds] == [0, 3]


def test_only_scratch_memory_is_named_as_such():
    """All contents of an operation's own buffers matter when it is done."""
    for kind, sizes in (("all_reduce", (64,)), ("reduce_scatter", (64, 16)), ("reduce", (64,))):
        assert schedule_of(Request(kind, 0, 4, sizes, ElementType.INT32)).scratch == len(sizes)
    for kind, sizes in (("all_gather", (16, 64)), ("broadcast", (64,)), ("barrier", (0,))):
        assert schedule_of(Request(kind, 0, 4, sizes)).scratch is None


def test_sites_are_used_where_bytes_count():
    sites = ((0, 1), (2, 3))
    assert choose(Request("all_reduce", 0, 4, (64 << 20,), sites=sites)) == "hierarchical"
    assert choose(Request("all_reduce", 0, 4, (8 << 10,), sites=sites)) == "doubling"
    assert choose(Request("all_gather", 0, 4, (1 << 20,), sites=sites)) == "hierarchical"
    assert choose(Request("reduce_scatter", 0, 4, (1 << 20, 1 << 18), sites=sites)) == "hierarchical"
    assert choose(Request("reduce_scatter", 0, 4, (64, 16), sites=sites)) == "ring"
    assert choose(Request("all_reduce", 0, 4, (64 << 20,), algorithm="ring", sites=sites)) == "ring"


def test_an_algorithm_that_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="ring") as refused:
        choose(Request("all_reduce", 0, 4, (8,), algorithm="rign"))
    assert refused.value.field == "algorithm"
    for sites in ((), ((0, 1, 2, 3),)):
        with pytest.raises(ConfigError, match="sites"):
            choose(Request("all_reduce", 0, 4, (8,), algorithm="hierarchical", sites=sites))


@pytest.mark.parametrize("algorithm", ["ring", "hierarchical"])
def test_between_sites_passes_one_buffer_each_way_for_one_all_reduce(algorithm: str):
    sites, ranks, total = ((0, 1, 2, 3), (4, 5, 6, 7)), 8, 400
    crossing = 0
    for rank in sites[0]:
        request = Request("all_reduce", rank, ranks, (total,), algorithm=algorithm, sites=sites)
        crossing += sum(
            step.bytes for step in schedule_of(request).steps if step.kind is StepKind.SEND and step.peer in sites[1]
        )
    assert crossing == {"ring": total * 2 * (ranks - 1) // ranks, "hierarchical": total}[algorithm]


def test_every_site_has_something_for_the_other_one_from_the_beginning(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("openmrc.collectives.planner.WHOLE_BYTES_MAX", 1 << 20)
    sites = ((0, 1), (2, 3))
    for rank in range(4):
        own = next(site for site in sites if rank in site)
        request = Request("all_reduce", rank, 4, (16384,), algorithm="hierarchical", sites=sites)
        steps = schedule_of(request).steps
        within = [number for number, step in enumerate(steps) if step.kind is StepKind.RECEIVE and step.peer in own]
        first = next(step for step in steps if step.kind is StepKind.SEND and step.peer not in own)
        needed, waiting = set(first.waits), list(first.waits)
        while waiting:
            fresh = set(steps[waiting.pop()].waits) - needed
            needed |= fresh
            waiting += fresh
        assert len(within) > 32
        assert max(within.index(number) for number in needed & set(within)) <= 1


@pytest.mark.parametrize("algorithm", ALGORITHMS["all_reduce"])
def test_halving_and_rings_send_no_more_than_they_must(algorithm: str):
    ranks, total = 8, 400
    sites = ((0, 1, 2, 3), (4, 5, 6, 7))
    steps = schedule_of(Request("all_reduce", 0, ranks, (total,), algorithm=algorithm, sites=sites)).steps
    sent = sum(step.bytes for step in steps if step.kind is StepKind.SEND)
    least = 2 * total * (ranks - 1) // ranks
    assert sent == {"doubling": 3 * total, "direct": 7 * total, "tree": 3 * total}.get(algorithm, least)


@pytest.mark.parametrize(
    ("kind", "algorithm", "element"),
    [
        ("all_reduce", "ring", ElementType.FLOAT64),
        ("reduce", "chain", ElementType.UINT8),
        ("reduce_scatter", "ring", ElementType.UINT8),
    ],
)
def test_scratch_memory_does_not_grow_with_the_operation(kind: str, algorithm: str, element: ElementType):
    def scratch(total: int) -> int:
        sizes = (total, total // 4) if kind == "reduce_scatter" else (total,)
        return schedule_of(Request(kind, 1, 4, sizes, element, algorithm=algorithm)).buffer_bytes[-1]

    assert scratch(400) == 400
    assert scratch(40_000) == 400


@pytest.mark.parametrize("total", [400, 40_000])
def test_rings_of_short_elements_combine_all_that_arrives_in_scratch_memory(total: int):
    """The executor then never touches that memory, so it may be as large as the operation."""
    schedule = schedule_of(Request("all_reduce", 1, 4, (total,), ElementType.FLOAT32, algorithm="ring"))
    assert schedule.buffer_bytes == (total, total)
    arrivals = [n for n, step in enumerate(schedule.steps) if step.kind is StepKind.RECEIVE and step.into.buffer == 1]
    users = [step for step in schedule.steps if step.kind is not StepKind.RECEIVE and step.source.buffer == 1]
    assert [(step.kind, step.waits) for step in users] == [(StepKind.REDUCE, (number,)) for number in arrivals]
    assert len({step.source for step in users}) == len(users)
    assert not any(step.into.buffer == 1 for step in schedule.steps if step.kind is StepKind.REDUCE)


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize(("path_bytes", "turns"), [(0, 4), (128, 4), (129, 5), (10 * 64, 12), (1 << 20, 25)])
def test_a_rank_of_a_ring_sends_a_few_chunks_ahead_of_what_arrives(
    monkeypatch: pytest.MonkeyPatch, kind: str, path_bytes: int, turns: int
):
    """More on longer paths; 25 chunks are all of its own block."""
    monkeypatch.setattr("openmrc.collectives.planner.WHOLE_BYTES_MAX", 1 << 20)
    ranks, block = 4, 25 * 64
    sizes = {"all_reduce": (4 * block,), "reduce_scatter": (4 * block, block), "all_gather": (block, 4 * block)}[kind]
    request = Request(kind, 0, ranks, sizes, ElementType.INT32, algorithm="ring", path_bytes=path_bytes)
    done: set[int] = set()
    sends = 0
    for number, step in enumerate(schedule_of(request).steps):
        if step.kind is not StepKind.RECEIVE and set(step.waits) <= done:
            done.add(number)
            sends += step.kind is StepKind.SEND
    assert sends == turns
