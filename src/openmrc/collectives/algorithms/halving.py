"""Recursive halving and doubling: as few bytes as a ring in few rounds, for buffers of medium size.

In round k of the first half a rank exchanges half of its remaining range with a rank at a given distance, and combines
the half that it keeps; in the end each rank has one complete block. The second half is the reverse of the first:
complete ranges are exchanged and double. Ranks beyond the largest power of two first pass their part to a lower rank
and receive the result from it. Each block is completed at one rank, with operands ordered by rank.
"""

from __future__ import annotations

from openmrc.collectives.algorithms.blocks import Block, Ready, blocks_of, chunks_of
from openmrc.collectives.schedule import Place, Schedule

__all__ = ["halving_all_reduce", "halving_scratch_bytes"]


def halving_scratch_bytes(total_bytes: int, ranks: int, element_bytes: int) -> int:
    """Scratch memory that a rank needs for a buffer."""
    core = 1 << (ranks.bit_length() - 1)
    return _areas(Block(0, total_bytes), ranks, core, element_bytes)[-1]


def halving_all_reduce(
    schedule: Schedule,
    data: int,
    scratch: Place,
    whole: Block,
    chunk_bytes: int,
    element_bytes: int,
    *,
    divide: bool = False,
) -> None:
    """In place; needs `halving_scratch_bytes` of the block, from `scratch` on."""
    ranks, rank = schedule.ranks, schedule.rank
    core = 1 << (ranks.bit_length() - 1)
    chunks = list(chunks_of(whole, chunk_bytes, element_bytes))
    if rank >= core:
        for chunk in chunks:
            here, there = Place(data, chunk.offset), scratch + (chunk.offset - whole.offset)
            schedule.send(rank - core, here, there, chunk.bytes)
        for chunk in chunks:
            schedule.receive(rank - core, Place(data, chunk.offset), chunk.bytes)
        return
    ready = Ready()
    if rank + core < ranks:
        for chunk in chunks:
            here, there = Place(data, chunk.offset), scratch + (chunk.offset - whole.offset)
            arrived = schedule.receive(rank + core, there, chunk.bytes)
            ready.note(chunk, schedule.reduce(here, there, chunk.bytes, [arrived]))
    areas = _areas(whole, ranks, core, element_bytes)
    blocks = blocks_of(whole, core, element_bytes)
    distances = [core >> (number + 1) for number in range(core.bit_length() - 1)]
    for number, distance in enumerate(distances):
        keep, give = _span(blocks, rank, distance), _span(blocks, rank ^ distance, distance)
        area = scratch + areas[number]
        for chunk in chunks_of(give, chunk_bytes, element_bytes):
            into = area + (chunk.offset - give.offset)
            schedule.send(rank ^ distance, Place(data, chunk.offset), into, chunk.bytes, ready.of(chunk))
        kept, theirs_first = Ready(), bool(rank & distance)
        for chunk in chunks_of(keep, chunk_bytes, element_bytes):
            partial, own = area + (chunk.offset - keep.offset), Place(data, chunk.offset)
            before = [schedule.receive(rank ^ distance, partial, chunk.bytes), *ready.of(chunk)]
            kept.note(chunk, schedule.reduce(own, partial, chunk.bytes, before, theirs_first=theirs_first))
        ready = kept
    if divide:
        for chunk in chunks_of(blocks[rank], chunk_bytes, element_bytes):
            ready.note(chunk, schedule.divide(Place(data, chunk.offset), chunk.bytes, ready.of(chunk)))
    for distance in reversed(distances):
        give, come = _span(blocks, rank, distance), _span(blocks, rank ^ distance, distance)
        for chunk in chunks_of(give, chunk_bytes, element_bytes):
            place = Place(data, chunk.offset)
            schedule.send(rank ^ distance, place, place, chunk.bytes, ready.of(chunk))
        for chunk in chunks_of(come, chunk_bytes, element_bytes):
            ready.note(chunk, schedule.receive(rank ^ distance, Place(data, chunk.offset), chunk.bytes))
    if rank + core < ranks:
        for chunk in chunks:
            place = Place(data, chunk.offset)
            schedule.send(rank + core, place, place, chunk.bytes, ready.of(chunk))


def _span(blocks: list[Block], rank: int, distance: int) -> Block:
    """The range that a rank keeps in the round of this distance: the blocks of ranks with the same bits from that bit
    upwards.
    """
    first = rank // distance * distance
    return Block(blocks[first].offset, blocks[first + distance - 1].end - blocks[first].offset)


def _areas(whole: Block, ranks: int, core: int, element_bytes: int) -> list[int]:
    """Offsets in scratch of each round's arrivals, the same at all ranks, and the end of the last area."""
    blocks = blocks_of(whole, core, element_bytes)
    offsets = [whole.bytes if ranks > core else 0]
    distance = core >> 1
    while distance:
        offsets.append(offsets[-1] + _span(blocks, 0, distance).bytes)
        distance >>= 1
    return offsets
