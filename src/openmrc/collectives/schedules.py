"""From a request to a plan: the algorithm is chosen, its schedule written, and made native."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from openmrc._native import collectives as native
from openmrc.collectives.algorithms.blocks import Block, blocks_of
from openmrc.collectives.algorithms.direct import (
    direct_all_gather,
    direct_all_to_all,
    direct_gather,
    direct_scatter,
    dissemination_barrier,
)
from openmrc.collectives.algorithms.doubling import doubling_all_reduce, doubling_rounds
from openmrc.collectives.algorithms.ring import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from openmrc.collectives.algorithms.tree import (
    chain_broadcast,
    chain_reduce,
    tree_broadcast,
    tree_reduce,
    tree_rounds,
)
from openmrc.collectives.elements import ElementType, ReduceOp
from openmrc.collectives.schedule import Place, Schedule
from openmrc.errors import ConfigError, did_you_mean

__all__ = ["ALGORITHMS", "Request", "choose", "plan_of", "schedule_of"]

CHUNK_BYTES = 512 << 10
LITTLE_BYTES = 32 << 10
ALGORITHMS = {
    "all_reduce": ("ring", "doubling"),
    "reduce_scatter": ("ring",),
    "all_gather": ("ring", "direct"),
    "broadcast": ("chain", "tree"),
    "reduce": ("chain", "tree"),
}


@dataclass(frozen=True, slots=True)
class Request:
    """One rank's call of a collective, as far as the schedule depends on it. Sizes in bytes, by buffer."""

    kind: str
    rank: int
    ranks: int
    buffer_bytes: tuple[int, ...]
    element: ElementType = ElementType.UINT8
    op: ReduceOp = ReduceOp.SUM
    root: int = 0
    algorithm: str = "auto"
    parts: tuple[tuple[int, ...], ...] = ()


def choose(request: Request) -> str:
    """The algorithm of a request: the one asked for, or by size, few rounds for little and few bytes for much.

    Raises:
        ConfigError: an algorithm that this collective does not have.
    """
    known = ALGORITHMS.get(request.kind, ())
    if request.algorithm != "auto":
        if request.algorithm not in known:
            hint = did_you_mean(request.algorithm, known)
            raise ConfigError("algorithm", request.algorithm, ", ".join(("auto", *known)), hint=hint)
        return request.algorithm
    if not known:
        return "direct"
    little = request.buffer_bytes[0] <= LITTLE_BYTES
    return known[1] if little and len(known) > 1 else known[0]


def plan_of(request: Request, members: Sequence[int], world: int) -> native.Plan:
    """The native plan; `members` are the executor's ranks of the group's, `world` is how many it has."""
    average = request.op is ReduceOp.AVG
    return schedule_of(request).plan(
        request.element, request.op, divisor=request.ranks if average else 1, members=members, world=world
    )


def schedule_of(request: Request) -> Schedule:
    """The steps of one rank.

    Raises:
        ConfigError: an algorithm that this collective does not have.
    """
    return _WRITERS[request.kind](request, choose(request))


def _all_reduce(request: Request, algorithm: str) -> Schedule:
    (total,) = request.buffer_bytes
    element, divide = request.element.bytes, request.op is ReduceOp.AVG
    areas = doubling_rounds(request.ranks) if algorithm == "doubling" else 1
    schedule = Schedule(request.rank, request.ranks, (total, total * areas))
    if algorithm == "doubling":
        doubling_all_reduce(schedule, 0, 1, total, divide=divide)
    elif request.ranks > 1:
        blocks = blocks_of(total, request.ranks, element)
        ring_all_reduce(schedule, 0, 1, blocks, _chunk(element), element, divide=divide)
    return schedule


def _reduce_scatter(request: Request, _algorithm: str) -> Schedule:
    total, own = request.buffer_bytes
    element = request.element.bytes
    schedule = Schedule(request.rank, request.ranks, (total, own, total))
    if request.ranks == 1:
        schedule.copy(Place(1), Place(0), own)
        return schedule
    blocks = [Block(rank * own, own) for rank in range(request.ranks)]
    divide = request.op is ReduceOp.AVG
    ring_reduce_scatter(schedule, 0, 2, Place(1), blocks, _chunk(element), element, divide=divide)
    return schedule


def _all_gather(request: Request, algorithm: str) -> Schedule:
    own, total = request.buffer_bytes
    schedule = Schedule(request.rank, request.ranks, (own, total))
    blocks = [Block(rank * own, own) for rank in range(request.ranks)]
    placed = schedule.copy(Place(1, request.rank * own), Place(0), own)
    if algorithm == "direct":
        direct_all_gather(schedule, 1, blocks, CHUNK_BYTES, after=[placed])
    else:
        offsets = range(request.rank * own, (request.rank + 1) * own, CHUNK_BYTES)
        ring_all_gather(schedule, 1, blocks, CHUNK_BYTES, {offset: [placed] for offset in offsets})
    return schedule


def _broadcast(request: Request, algorithm: str) -> Schedule:
    (total,) = request.buffer_bytes
    schedule = Schedule(request.rank, request.ranks, (total,))
    if algorithm == "tree":
        tree_broadcast(schedule, 0, total, request.root)
    else:
        chain_broadcast(schedule, 0, total, request.root, CHUNK_BYTES)
    return schedule


def _reduce(request: Request, algorithm: str) -> Schedule:
    (total,) = request.buffer_bytes
    element, divide = request.element.bytes, request.op is ReduceOp.AVG
    areas = tree_rounds(request.ranks) if algorithm == "tree" else 1
    schedule = Schedule(request.rank, request.ranks, (total, total * areas))
    if algorithm == "tree":
        tree_reduce(schedule, 0, 1, total, request.root, divide=divide)
    else:
        chain_reduce(schedule, 0, 1, total, request.root, _chunk(element), element, divide=divide)
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
    schedule = Schedule(request.rank, request.ranks, request.buffer_bytes)
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
    schedule = Schedule(request.rank, request.ranks, (0,))
    dissemination_barrier(schedule)
    return schedule


def _chunk(element_bytes: int) -> int:
    return CHUNK_BYTES // element_bytes * element_bytes


def _running(parts: Sequence[int]) -> list[Block]:
    blocks, offset = [], 0
    for length in parts:
        blocks.append(Block(offset, length))
        offset += length
    return blocks


def _running_chunks(total: int) -> list[Block]:
    """At least one, so that even nothing is a message."""
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
