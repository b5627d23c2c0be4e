"""Direct exchange between all ranks: all-to-all, all-gather and all-reduce of small buffers, gather, scatter."""

from __future__ import annotations

from collections.abc import Sequence

from openmrc.collectives.algorithms.blocks import Block, chunks_of
from openmrc.collectives.schedule import Place, Schedule

__all__ = [
    "direct_all_gather",
    "direct_all_reduce",
    "direct_all_to_all",
    "direct_barrier",
    "direct_gather",
    "direct_scatter",
    "dissemination_barrier",
]


def direct_all_gather(
    schedule: Schedule, data: int, blocks: Sequence[Block], chunk_bytes: int, after: Sequence[int] = ()
) -> None:
    """Sends the own block, in its place after the steps `after`, to all ranks."""
    ranks, rank = schedule.ranks, schedule.rank
    for distance in range(1, ranks):
        for chunk in chunks_of(blocks[rank], chunk_bytes, 1):
            place = Place(data, chunk.offset)
            schedule.send((rank + distance) % ranks, place, place, chunk.bytes, after)
    for distance in range(1, ranks):
        peer = (rank - distance) % ranks
        for chunk in chunks_of(blocks[peer], chunk_bytes, 1):
            schedule.receive(peer, Place(data, chunk.offset), chunk.bytes)


def direct_all_reduce(schedule: Schedule, place: Place, scratch: Place, length: int, *, divide: bool = False) -> None:
    """In place, in one round; needs scratch of `ranks` times `length`. Every rank reduces everything, in rank order."""
    ranks, rank = schedule.ranks, schedule.rank
    schedule.circle = True
    sent = [
        schedule.send((rank + distance) % ranks, place, scratch + rank * length, length) for distance in range(1, ranks)
    ]
    arrived = {peer: schedule.receive(peer, scratch + peer * length, length) for peer in range(ranks) if peer != rank}
    done: list[int] = []
    if rank > 0:
        done = [arrived[0]]
        for lower in range(1, rank):
            done = [schedule.reduce(scratch, scratch + lower * length, length, [*done, arrived[lower]])]
        done = [schedule.reduce(place, scratch, length, [*done, *sent], theirs_first=True)]
    for higher in range(rank + 1, ranks):
        done = [schedule.reduce(place, scratch + higher * length, length, [*done, *sent, arrived[higher]])]
    if divide:
        schedule.divide(place, length, done)


def direct_all_to_all(
    schedule: Schedule,
    source: int,
    into: int,
    leaving: Sequence[Block],
    arriving: Sequence[Block],
    chunk_bytes: int,
) -> None:
    """Sends block p of `source` to rank p, in rotation, so that no rank receives from all at once.

    Offsets at the peer count from the start of our part there; the schedule's shifts give the start of each rank's
    part.
    """
    ranks, rank = schedule.ranks, schedule.rank
    if leaving[rank].bytes:
        schedule.copy(Place(into, arriving[rank].offset), Place(source, leaving[rank].offset), leaving[rank].bytes)
    for distance in range(1, ranks):
        peer = (rank + distance) % ranks
        for chunk in chunks_of(leaving[peer], chunk_bytes, 1):
            far = chunk.offset - leaving[peer].offset
            schedule.send(peer, Place(source, chunk.offset), Place(into, far), chunk.bytes)
    for distance in range(1, ranks):
        peer = (rank - distance) % ranks
        for chunk in chunks_of(arriving[peer], chunk_bytes, 1):
            schedule.receive(peer, Place(into, chunk.offset), chunk.bytes)


def direct_gather(schedule: Schedule, source: int, into: int, length: int, root: int, chunk_bytes: int) -> None:
    """Gathers all `source` buffers side by side in the root's `into`, by rank."""
    if schedule.rank == root:
        for peer in range(schedule.ranks):
            for chunk in chunks_of(Block(peer * length, length), chunk_bytes, 1):
                if peer == root:
                    schedule.copy(Place(into, chunk.offset), Place(source, chunk.offset - peer * length), chunk.bytes)
                else:
                    schedule.receive(peer, Place(into, chunk.offset), chunk.bytes)
        return
    for chunk in chunks_of(Block(0, length), chunk_bytes, 1):
        far = Place(into, schedule.rank * length + chunk.offset)
        schedule.send(root, Place(source, chunk.offset), far, chunk.bytes)


def direct_scatter(schedule: Schedule, source: int, into: int, length: int, root: int, chunk_bytes: int) -> None:
    """Part r of the root's `source` into `into` of rank r."""
    if schedule.rank != root:
        for chunk in chunks_of(Block(0, length), chunk_bytes, 1):
            schedule.receive(root, Place(into, chunk.offset), chunk.bytes)
        return
    for distance in range(schedule.ranks):
        peer = (root + distance) % schedule.ranks
        for chunk in chunks_of(Block(0, length), chunk_bytes, 1):
            part = Place(source, peer * length + chunk.offset)
            if peer == root:
                schedule.copy(Place(into, chunk.offset), part, chunk.bytes)
            else:
                schedule.send(peer, part, Place(into, chunk.offset), chunk.bytes)


def direct_barrier(schedule: Schedule) -> None:
    """In one round: every rank receives a message from every other one."""
    ranks, rank = schedule.ranks, schedule.rank
    schedule.circle = True
    for distance in range(1, ranks):
        schedule.send((rank + distance) % ranks, Place(0), Place(0), 0)
    for distance in range(1, ranks):
        schedule.receive((rank - distance) % ranks, Place(0), 0)


def dissemination_barrier(schedule: Schedule) -> None:
    """In round k, each rank notifies the rank 2^k further on and waits for the one 2^k before; the last round completes
    it.
    """
    ranks, rank = schedule.ranks, schedule.rank
    heard: list[int] = []
    distance = 1
    while distance < ranks:
        schedule.send((rank + distance) % ranks, Place(0), Place(0), 0, heard)
        heard = [*heard, schedule.receive((rank - distance) % ranks, Place(0), 0)]
        distance *= 2
