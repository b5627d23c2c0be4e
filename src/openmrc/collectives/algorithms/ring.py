"""Rings: every rank sends to the next one only, chunk behind chunk. The least bytes on every link for large buffers.

Block b's partial result starts at rank b + 1 and collects one rank's part at every hop until it is complete at rank b:
always in the order of the ring, so the result does not depend on time.
"""

from __future__ import annotations

from openmrc.collectives.algorithms.blocks import Block, chunks_of
from openmrc.collectives.schedule import Place, Schedule

__all__ = ["ring_all_gather", "ring_all_reduce", "ring_reduce_scatter"]


def ring_all_gather(
    schedule: Schedule, data: int, blocks: list[Block], chunk_bytes: int, ready: dict[int, list[int]] | None = None
) -> None:
    """Every rank's own block travels once around. `ready`: what the chunks of the own block wait for, by offset."""
    ranks, rank = schedule.ranks, schedule.rank
    waits = dict(ready or {})
    for hop in range(ranks - 1):
        leaving, coming = blocks[(rank - hop) % ranks], blocks[(rank - hop - 1) % ranks]
        for chunk in chunks_of(leaving, chunk_bytes, 1):
            place = Place(data, chunk.offset)
            schedule.send((rank + 1) % ranks, place, place, chunk.bytes, waits.get(chunk.offset, []))
        for chunk in chunks_of(coming, chunk_bytes, 1):
            waits[chunk.offset] = [schedule.receive((rank - 1) % ranks, Place(data, chunk.offset), chunk.bytes)]


def ring_reduce_scatter(
    schedule: Schedule,
    data: int,
    scratch: int,
    output: Place,
    blocks: list[Block],
    chunk_bytes: int,
    element: int,
    *,
    divide: bool = False,
) -> None:
    """Block r of the result goes to `output` of rank r; `data` stays. `divide`: in the end, by the plan's divisor."""
    ranks, rank = schedule.ranks, schedule.rank
    waits: dict[int, list[int]] = {}
    for hop in range(ranks - 1):
        leaving, coming = blocks[(rank - hop - 1) % ranks], blocks[(rank - hop - 2) % ranks]
        source = data if hop == 0 else scratch
        last = hop == ranks - 2
        for chunk in chunks_of(leaving, chunk_bytes, element):
            into = Place(scratch, chunk.offset)
            if last:  # the next rank is where this block ends
                into = output + (chunk.offset - leaving.offset)
            schedule.send(
                (rank + 1) % ranks, Place(source, chunk.offset), into, chunk.bytes, waits.get(chunk.offset, [])
            )
        for chunk in chunks_of(coming, chunk_bytes, element):
            into = output + (chunk.offset - coming.offset) if last else Place(scratch, chunk.offset)
            arrived = schedule.receive((rank - 1) % ranks, into, chunk.bytes)
            waits[chunk.offset] = [schedule.reduce(into, Place(data, chunk.offset), chunk.bytes, [arrived])]
            if last and divide:
                schedule.divide(into, chunk.bytes, waits[chunk.offset])


def ring_all_reduce(
    schedule: Schedule,
    data: int,
    scratch: int,
    blocks: list[Block],
    chunk_bytes: int,
    element: int,
    *,
    divide: bool = False,
) -> None:
    """In place: partial results pass through scratch, the complete block is put together in `data` and sent around.

    A complete block reaches a rank only after that rank's own part of it has left and arrived, so it may be written
    straight over the rank's own part.
    """
    ranks, rank = schedule.ranks, schedule.rank
    waits: dict[int, list[int]] = {}
    for hop in range(ranks - 1):
        leaving, coming = blocks[(rank - hop - 1) % ranks], blocks[(rank - hop - 2) % ranks]
        source = data if hop == 0 else scratch
        for chunk in chunks_of(leaving, chunk_bytes, element):
            into = Place(scratch, chunk.offset)
            schedule.send(
                (rank + 1) % ranks, Place(source, chunk.offset), into, chunk.bytes, waits.get(chunk.offset, [])
            )
        last = hop == ranks - 2
        for chunk in chunks_of(coming, chunk_bytes, element):
            partial, own = Place(scratch, chunk.offset), Place(data, chunk.offset)
            arrived = schedule.receive((rank - 1) % ranks, partial, chunk.bytes)
            if last:
                done = schedule.reduce(own, partial, chunk.bytes, [arrived], theirs_first=True)
                if divide:
                    done = schedule.divide(own, chunk.bytes, [done])
            else:
                done = schedule.reduce(partial, own, chunk.bytes, [arrived])
            waits[chunk.offset] = [done]
    ready = {chunk.offset: waits[chunk.offset] for chunk in chunks_of(blocks[rank], chunk_bytes, element)}
    ring_all_gather(schedule, data, blocks, chunk_bytes // element * element or element, ready)
