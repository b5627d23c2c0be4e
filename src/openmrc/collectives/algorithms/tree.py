"""Trees and chains with a root: broadcast and reduce. Binomial trees for small buffers, chains of chunks for large.

Ranks are counted from the root: relative rank 0 is the root. Up a tree and down again, a barrier or an all-reduce takes
more rounds than by doubling, but fewer messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from openmrc.collectives.algorithms.blocks import Block, chunks_of
from openmrc.collectives.schedule import Place, Schedule

__all__ = [
    "chain_broadcast",
    "chain_reduce",
    "tree_all_reduce",
    "tree_barrier",
    "tree_broadcast",
    "tree_reduce",
    "tree_rounds",
]


def tree_rounds(ranks: int) -> int:
    """Rounds of a binomial tree, and number of scratch areas of a reduction."""
    return max((ranks - 1).bit_length(), 1)


def tree_broadcast(schedule: Schedule, place: Place, length: int, root: int, ready: Sequence[int] = ()) -> None:
    """The root's buffer to all, once it is `ready`: in every round, each rank that has it sends it to one more."""
    ranks = schedule.ranks
    relative = (schedule.rank - root) % ranks
    have = list(ready)
    if relative:
        parent = relative & (relative - 1)
        have = [schedule.receive((parent + root) % ranks, place, length)]
    lowest = relative & -relative if relative else 1 << tree_rounds(ranks)
    bit = lowest >> 1
    while bit:
        child = relative | bit
        if child < ranks:
            schedule.send((child + root) % ranks, place, place, length, have)
        bit >>= 1


def tree_reduce(
    schedule: Schedule, place: Place, scratch: Place, length: int, root: int, *, divide: bool = False
) -> list[int]:
    """The result in the root's `place`; the buffers of the others are overwritten. Needs scratch of
    `tree_rounds(ranks)` times `length`.

    Returns:
        The steps after which the root has the result; none elsewhere.
    """
    ranks = schedule.ranks
    relative = (schedule.rank - root) % ranks
    done: list[int] = []
    for number in range(tree_rounds(ranks)):
        bit = 1 << number
        area = scratch + number * length
        if relative & bit:
            schedule.send((relative - bit + root) % ranks, place, area, length, done)
            return []
        if relative + bit < ranks:
            arrived = schedule.receive((relative + bit + root) % ranks, area, length)
            done = [schedule.reduce(place, area, length, [arrived, *done])]
    return [schedule.divide(place, length, done)] if divide else done


def tree_all_reduce(schedule: Schedule, place: Place, scratch: Place, length: int, *, divide: bool = False) -> None:
    """In place, by rank 0; needs scratch as `tree_reduce`."""
    tree_broadcast(schedule, place, length, 0, tree_reduce(schedule, place, scratch, length, 0, divide=divide))


def tree_barrier(schedule: Schedule) -> None:
    """Each rank notifies the one above it once all below have notified it; then rank 0 releases all, down the tree."""
    ranks, rank, nothing = schedule.ranks, schedule.rank, Place(0)
    heard: list[int] = []
    for bit in (1 << number for number in range(tree_rounds(ranks))):
        if rank & bit:
            schedule.send(rank - bit, nothing, nothing, 0, heard)
            heard = []
            break
        if rank + bit < ranks:
            heard.append(schedule.receive(rank + bit, nothing, 0))
    tree_broadcast(schedule, nothing, 0, 0, heard)


def chain_broadcast(schedule: Schedule, data: int, length: int, root: int, chunk_bytes: int) -> None:
    """Chunk after chunk from the root through all ranks."""
    ranks, rank = schedule.ranks, schedule.rank
    relative = (rank - root) % ranks
    for chunk in chunks_of(Block(0, length), chunk_bytes, 1):
        place = Place(data, chunk.offset)
        have = [schedule.receive((rank - 1) % ranks, place, chunk.bytes)] if relative else []
        if relative < ranks - 1:
            schedule.send((rank + 1) % ranks, place, place, chunk.bytes, have)


def chain_reduce(
    schedule: Schedule,
    data: int,
    scratch: Place,
    chunks: Iterable[Block],
    root: int,
    *,
    divide: bool = False,
) -> None:
    """Partial results backwards from the rank before the root to the root; `data` of the others is unchanged.

    Args:
        schedule: Destination of the steps.
        data: Number of the buffer.
        scratch: Offset in scratch memory that corresponds to offset 0 of `data`.
        chunks: The range to reduce, in pieces.
        root: Destination of the result.
        divide: In the end, by the plan's divisor.
    """
    ranks, rank = schedule.ranks, schedule.rank
    relative = (rank - root) % ranks
    for chunk in chunks:
        own, partial = Place(data, chunk.offset), scratch + chunk.offset
        source, done = own, []
        if relative < ranks - 1:
            arrived = schedule.receive((rank + 1) % ranks, partial, chunk.bytes)
            if relative:
                done = [schedule.reduce(partial, own, chunk.bytes, [arrived], theirs_first=True)]
                source = partial
            else:
                complete = schedule.reduce(own, partial, chunk.bytes, [arrived])
                if divide:
                    schedule.divide(own, chunk.bytes, [complete])
        if relative:
            schedule.send((rank - 1) % ranks, source, partial, chunk.bytes, done)
