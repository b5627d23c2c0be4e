"""Requests to plans: chooses the algorithm, writes its schedule, and converts it to a native plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from openmrc._native import collectives as native
from openmrc.collectives.algorithms.blocks import Block, blocks_of, chunks_of, pieces_of, rows_of
from openmrc.collectives.algorithms.direct import (
    direct_all_gather,
    direct_all_reduce,
    direct_all_to_all,
    direct_barrier,
    direct_gather,
    direct_scatter,
    dissemination_barrier,
)
from openmrc.collectives.algorithms.doubling import doubling_all_reduce, doubling_rounds
from openmrc.collectives.algorithms.halving import halving_all_reduce, halving_scratch_bytes
from openmrc.collectives.algorithms.hierarchical import (
    site_all_gather,
    site_all_reduce,
    site_reduce_scatter,
    site_scratch_bytes,
)
from openmrc.collectives.algorithms.ring import (
    Cut,
    Pieces,
    Ring,
    Waits,
    ring_collect,
    ring_distribute,
    ring_reduce_scatter,
)
from openmrc.collectives.algorithms.segments import IN_FLIGHT, Turns, scaled_first, write_segments
from openmrc.collectives.algorithms.tree import (
    chain_broadcast,
    chain_reduce,
    tree_all_reduce,
    tree_barrier,
    tree_broadcast,
    tree_reduce,
    tree_rounds,
)
from openmrc.collectives.elements import ElementType, ReduceOp
from openmrc.collectives.schedule import CallNumbers, Place, Schedule
from openmrc.errors import ConfigError, did_you_mean

__all__ = ["ALGORITHMS", "Request", "call_of", "choose", "plan_of", "schedule_of"]

CHUNK_BYTES = 512 << 10
TURNS_MIN = 4  # of a ring, under way at a time
LITTLE_BYTES = 32 << 10
# In shared memory a message costs less than a further round, in which ranks take turns on their processors.
ONE_ROUND_BYTES = 256
ONE_ROUND_RANKS = 8
MIDDLE_BYTES_ON_ONE_HOST = 8 << 20
MIDDLE_BYTES = 1 << 20
HALVING_RANKS_MIN = 4
WHOLE_BYTES_MAX = 64 << 20  # larger reductions go segment by segment, to limit scratch memory
SEGMENT_BYTES = 32 << 20
# The first one is for large buffers.
ALGORITHMS = {
    "all_reduce": ("ring", "direct", "doubling", "halving", "hierarchical", "tree"),
    "reduce_scatter": ("ring", "hierarchical"),
    "all_gather": ("ring", "direct", "hierarchical"),
    "broadcast": ("chain", "tree"),
    "reduce": ("chain", "tree"),
}
_FOR_LITTLE = {"all_reduce": "doubling", "all_gather": "direct", "broadcast": "tree", "reduce": "tree"}


@dataclass(frozen=True, slots=True)
class Request:
    """One rank's call of a collective, reduced to the inputs of the schedule. Sizes in bytes, by buffer.

    `sites`: the ranks of each site; every rank is in one of them. Empty: irrelevant. `one_host`: all ranks are on one
    host, and share memory there. `crowded`: some machine has more ranks than processors. `path_bytes`: on the way to
    another rank and back, at most.
    """

    kind: str
    rank: int
    ranks: int
    buffer_bytes: tuple[int, ...]
    element: ElementType = ElementType.UINT8
    op: ReduceOp = ReduceOp.SUM
    root: int = 0
    algorithm: str = "auto"
    parts: tuple[tuple[int, ...], ...] = ()
    factor: float = 1.0
    sites: tuple[tuple[int, ...], ...] = ()
    one_host: bool = False
    crowded: bool = False
    path_bytes: int = 0


def choose(request: Request) -> str:
    """The algorithm of a request: the requested one, or one by size and shape.

    Few rounds for small buffers, few bytes for large ones, and few bytes between sites if there are several.

    Raises:
        ConfigError: an algorithm that this collective does not have, or one for sites without any.
    """
    known = ALGORITHMS.get(request.kind, ())
    if request.algorithm != "auto":
        if request.algorithm not in known:
            hint = did_you_mean(request.algorithm, known)
            raise ConfigError("algorithm", request.algorithm, ", ".join(("auto", *known)), hint=hint)
        if request.algorithm == "hierarchical" and len(request.sites) < 2:
            hint = "give the sites: World(..., sites=[[0, 1], [2, 3]])"
            raise ConfigError("algorithm", "hierarchical", "ranks on at least two sites", hint=hint)
        return request.algorithm
    if not known:
        return "direct"
    size = request.buffer_bytes[0]
    if _in_one_round(request) and size <= ONE_ROUND_BYTES and request.kind == "all_reduce":
        return "direct"
    if size <= LITTLE_BYTES and request.kind == "all_reduce" and _saves_messages(request):
        return "tree"
    if size <= LITTLE_BYTES:
        return _FOR_LITTLE.get(request.kind, known[0])
    if len(request.sites) > 1 and "hierarchical" in known:
        return "hierarchical"
    halves = request.ranks >= HALVING_RANKS_MIN and request.ranks & (request.ranks - 1) == 0
    middle = MIDDLE_BYTES_ON_ONE_HOST if request.one_host else MIDDLE_BYTES
    if halves and size <= middle and "halving" in known:
        return "halving"
    return known[0]


def _in_one_round(request: Request) -> bool:
    return request.one_host and request.ranks <= ONE_ROUND_RANKS


def _saves_messages(request: Request) -> bool:
    return request.crowded and not request.one_host


def plan_of(request: Request, members: Sequence[int], world: int) -> native.Plan:
    """The native plan; `members` are the executor's numbers of the group's ranks, `world` is the executor's number of
    ranks.
    """
    average = request.op is ReduceOp.AVG
    return schedule_of(request).plan(
        request.element,
        request.op,
        factor=request.factor,
        divisor=request.ranks if average else 1,
        members=members,
        world=world,
        call=call_of(request),
    )


def call_of(request: Request) -> CallNumbers:
    """Arguments that must be equal at all ranks; messages carry them, so that an error can name the difference."""
    kind = "message" if request.kind in ("send", "recv") else request.kind
    reduces = kind in ("all_reduce", "reduce_scatter", "reduce")
    sizes = {"scatter": request.buffer_bytes[1:], "all_to_all": (), "barrier": ()}.get(kind, request.buffer_bytes)
    return (
        native.CALL_KINDS.index(kind),
        native.CALL_ALGORITHMS.index(choose(request)),
        int(request.element) if reduces else 0,
        int(request.op) if reduces else 0,
        request.root if kind in ("broadcast", "reduce", "gather", "scatter") else 0,
        sizes[0] if sizes else 0,
    )


def schedule_of(request: Request) -> Schedule:
    """The steps of one rank.

    Raises:
        ConfigError: an algorithm that this collective does not have.
    """
    schedule = _WRITERS[request.kind](request, choose(request))
    if len(schedule.buffer_bytes) > len(request.buffer_bytes):
        schedule.scratch = len(request.buffer_bytes)
    return schedule


def _all_reduce(request: Request, algorithm: str) -> Schedule:
    (total,) = request.buffer_bytes
    ranks, element, divide = request.ranks, request.element.bytes, request.op is ReduceOp.AVG
    segments = _segments(Block(0, total), total, element)
    need = _all_reduce_scratch(request, algorithm, segments[0].bytes)
    areas = len(segments) if _combines_on_arrival(request, algorithm) else min(len(segments), IN_FLIGHT)
    schedule = Schedule(request.rank, ranks, (total, need * areas))
    ring, turns = _ring_of(request, schedule)

    def write(segment: Block, slot: int) -> None:
        scratch, chunk = Place(1, slot * need), _chunk(element)
        if algorithm == "direct":
            direct_all_reduce(schedule, Place(0, segment.offset), scratch, segment.bytes, divide=divide)
        elif algorithm == "doubling":
            doubling_all_reduce(schedule, Place(0, segment.offset), scratch, segment.bytes, divide=divide)
        elif algorithm == "tree":
            tree_all_reduce(schedule, Place(0, segment.offset), scratch, segment.bytes, divide=divide)
        elif algorithm == "halving":
            halving_all_reduce(schedule, 0, scratch, segment, chunk, element, divide=divide)
        elif algorithm == "hierarchical":
            site_all_reduce(schedule, request.sites, 0, scratch, segment, chunk, element, divide=divide)
        else:
            for row in rows_of(pieces_of(blocks_of(segment, ranks, element), chunk, element)):
                turns.write(partial(turn, scratch + -segment.offset, row))

    def turn(scratch: Place, row: Pieces) -> None:
        ready = ring_collect(schedule, ring, 0, scratch, row, divide=divide)
        ring_distribute(schedule, ring, 0, row, ready)

    write_segments(schedule, 1, segments, _scaling(schedule, request, write), areas)
    return schedule


def _combines_on_arrival(request: Request, algorithm: str) -> bool:
    """True if the executor never touches the scratch memory of an all-reduce, which then takes addresses alone."""
    scales = request.op is ReduceOp.PREMUL_SUM
    return algorithm == "ring" and not scales and request.element.bytes <= native.COMBINED_BYTES_MAX


def _all_reduce_scratch(request: Request, algorithm: str, length: int) -> int:
    if algorithm == "direct":
        return length * request.ranks
    if algorithm == "doubling":
        return length * doubling_rounds(request.ranks)
    if algorithm == "tree":
        return length * tree_rounds(request.ranks)
    if algorithm == "halving":
        return halving_scratch_bytes(length, request.ranks, request.element.bytes)
    if algorithm == "hierarchical":
        return site_scratch_bytes(length, request.sites, request.element.bytes)
    return length


def _scaling(schedule: Schedule, request: Request, write: Callable[[Block, int], None]) -> Callable[[Block, int], None]:
    """`write` with a preceding multiplication of own data, if the operation requires it."""
    if request.op is not ReduceOp.PREMUL_SUM:
        return write

    def scaled(segment: Block, slot: int) -> None:
        scaled_first(schedule, 0, segment, _chunk(request.element.bytes), lambda: write(segment, slot))

    return scaled


def _reduce_scatter(request: Request, algorithm: str) -> Schedule:
    total, own = request.buffer_bytes
    ranks, element, divide = request.ranks, request.element.bytes, request.op is ReduceOp.AVG
    scales = request.op is ReduceOp.PREMUL_SUM
    segments = _segments(Block(0, own), total, element)
    areas = ranks * segments[0].bytes
    copies = areas if scales else 0  # own data, multiplied
    arrivals = len(request.sites) * segments[0].bytes if algorithm == "hierarchical" else 0
    need = areas + copies + arrivals
    schedule = Schedule(request.rank, ranks, (total, own, need * min(len(segments), IN_FLIGHT)))
    if ranks == 1:
        copied = schedule.copy(Place(1), Place(0), own)
        if scales:
            schedule.scale(Place(1), own, [copied])
        return schedule
    ring, turns = _ring_of(request, schedule)

    def write(segment: Block, slot: int) -> None:
        scratch, ready = Place(2, slot * need), Waits()
        cuts: list[list[Cut]] = [[] for _ in range(ranks)]
        for rank in range(ranks):
            for piece in chunks_of(segment, _chunk(element), element):
                given = Place(0, rank * own + piece.offset)
                arriving = scratch + (rank * segment.bytes + piece.offset - segment.offset)
                data = arriving + areas if scales else given
                if scales:
                    copied = schedule.copy(data, given, piece.bytes)
                    ready[data.offset] = [schedule.scale(data, piece.bytes, [copied])]
                cuts[rank].append(Cut(data, arriving, Place(1, piece.offset), piece.bytes))
        if algorithm == "hierarchical":
            beyond = scratch + (areas + copies)
            site_reduce_scatter(schedule, request.sites, cuts, beyond, segment.bytes, ready, divide=divide)
        else:
            for row in rows_of(cuts):
                turns.write(partial(ring_reduce_scatter, schedule, ring, row, ready, divide=divide))

    write_segments(schedule, 2, segments, write)
    return schedule


def _all_gather(request: Request, algorithm: str) -> Schedule:
    own, total = request.buffer_bytes
    schedule = Schedule(request.rank, request.ranks, (own, total))
    blocks = [Block(rank * own, own) for rank in range(request.ranks)]
    placed = schedule.copy(Place(1, request.rank * own), Place(0), own)
    if algorithm == "direct":
        direct_all_gather(schedule, 1, blocks, CHUNK_BYTES, after=[placed])
    elif algorithm == "hierarchical":
        site_all_gather(schedule, request.sites, 1, own, CHUNK_BYTES, [placed])
    else:
        ring, turns = _ring_of(request, schedule)
        pieces = pieces_of(blocks, CHUNK_BYTES)
        ready = {piece.offset: [placed] for piece in pieces[request.rank]}
        for row in rows_of(pieces):
            turns.write(partial(ring_distribute, schedule, ring, 1, row, ready))
    return schedule


def _broadcast(request: Request, algorithm: str) -> Schedule:
    (total,) = request.buffer_bytes
    schedule = Schedule(request.rank, request.ranks, (total,))
    if algorithm == "tree":
        tree_broadcast(schedule, Place(0), total, request.root)
    else:
        chain_broadcast(schedule, 0, total, request.root, CHUNK_BYTES)
    return schedule


def _reduce(request: Request, algorithm: str) -> Schedule:
    (total,) = request.buffer_bytes
    element, divide = request.element.bytes, request.op is ReduceOp.AVG
    segments = _segments(Block(0, total), total, element)
    need = segments[0].bytes * (tree_rounds(request.ranks) if algorithm == "tree" else 1)
    schedule = Schedule(request.rank, request.ranks, (total, need * min(len(segments), IN_FLIGHT)))

    def write(segment: Block, slot: int) -> None:
        scratch = Place(1, slot * need)
        if algorithm == "tree":
            tree_reduce(schedule, Place(0, segment.offset), scratch, segment.bytes, request.root, divide=divide)
        else:
            chunks = chunks_of(segment, _chunk(element), element)
            chain_reduce(schedule, 0, scratch + -segment.offset, chunks, request.root, divide=divide)

    write_segments(schedule, 1, segments, _scaling(schedule, request, write))
    return schedule


def _gather(request: Request, _algorithm: str) -> Schedule:
    schedule = Schedule(request.rank, request.ranks, request.buffer_bytes)
    direct_gather(schedule, 0, 1, request.buffer_bytes[0], request.root, CHUNK_BYTES)
    return schedule


def _scatter(request: Request, _algorithm: str) -> Schedule:
    schedule = Schedule(request.rank, request.ranks, request.buffer_bytes)
    direct_scatter(schedule, 0, 1, request.buffer_bytes[1], request.root, CHUNK_BYTES)
    return schedule


def _all_to_all(request: Request, _algorithm: str) -> Schedule:
    schedule = Schedule(request.rank, request.ranks, request.buffer_bytes)
    leaving, arriving = (_running(parts) for parts in request.parts)
    schedule.shifts, schedule.shifted_buffer = [block.offset for block in arriving], 1
    direct_all_to_all(schedule, 0, 1, leaving, arriving, CHUNK_BYTES)
    return schedule


def _send(request: Request, _algorithm: str) -> Schedule:
    schedule = Schedule(request.rank, request.ranks, request.buffer_bytes, offered=True)
    for block in _running_chunks(request.buffer_bytes[0]):
        place = Place(0, block.offset)
        schedule.send(request.root, place, place, block.bytes)
    return schedule


def _recv(request: Request, _algorithm: str) -> Schedule:
    schedule = Schedule(request.rank, request.ranks, request.buffer_bytes)
    for block in _running_chunks(request.buffer_bytes[0]):
        schedule.receive(request.root, Place(0, block.offset), block.bytes)
    return schedule


def _barrier(request: Request, _algorithm: str) -> Schedule:
    schedule = Schedule(request.rank, request.ranks, (0,), fence=True)
    if _in_one_round(request):
        direct_barrier(schedule)
    elif _saves_messages(request):
        tree_barrier(schedule)
    else:
        dissemination_barrier(schedule)
    return schedule


def _segments(part: Block, total_bytes: int, element_bytes: int) -> list[Block]:
    """`part` for an operation of this size, in one piece or in as many as its scratch memory requires."""
    if total_bytes <= WHOLE_BYTES_MAX:
        return [part]
    return blocks_of(part, -(-total_bytes // SEGMENT_BYTES), element_bytes)


def _ring_of(request: Request, schedule: Schedule) -> tuple[Ring, Turns]:
    """The ring of all ranks, with enough turns under way to fill the paths."""
    depth = max(TURNS_MIN, 2 + -(-request.path_bytes // CHUNK_BYTES))
    return Ring(range(request.ranks), request.rank), Turns(schedule, depth)


def _chunk(element_bytes: int) -> int:
    return CHUNK_BYTES // element_bytes * element_bytes


def _running(parts: Sequence[int]) -> list[Block]:
    blocks, offset = [], 0
    for length in parts:
        blocks.append(Block(offset, length))
        offset += length
    return blocks


def _running_chunks(total: int) -> list[Block]:
    """At least one, so that even an empty range is a message."""
    return [Block(at, min(CHUNK_BYTES, total - at)) for at in range(0, max(total, 1), CHUNK_BYTES)]


_WRITERS: dict[str, Callable[[Request, str], Schedule]] = {
    "all_reduce": _all_reduce,
    "reduce_scatter": _reduce_scatter,
    "all_gather": _all_gather,
    "broadcast": _broadcast,
    "reduce": _reduce,
    "gather": _gather,
    "scatter": _scatter,
    "all_to_all": _all_to_all,
    "send": _send,
    "recv": _recv,
    "barrier": _barrier,
}
