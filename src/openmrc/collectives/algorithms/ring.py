"""Rings: every rank sends to the next one only, chunk behind chunk. The least bytes on every link for large buffers.

Block b's partial result starts at position b + 1 and collects one rank's part at every hop until it is complete at
position b: always in the order of the ring, so the result does not depend on time.

Blocks are given as the pieces that follow each other through the ring. What pieces wait for is kept by their offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openmrc.collectives.algorithms.blocks import Block
from openmrc.collectives.schedule import Place, Schedule

__all__ = ["Pieces", "Ring", "Waits", "ring_collect", "ring_distribute", "ring_reduce_scatter"]

Pieces = Sequence[Sequence[Block]]
Waits = dict[int, list[int]]


@dataclass(frozen=True, slots=True)
class Ring:
    """Some ranks in a circle, seen from one of them."""

    members: Sequence[int]
    position: int

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.members)

    @property
    def next(self) -> int:
        """The rank that we send to."""
        return self.members[(self.position + 1) % self.size]

    @property
    def previous(self) -> int:
        """The rank that we receive from."""
        return self.members[(self.position - 1) % self.size]

    def block(self, hops_back: int) -> int:
        """Number of the block that started so many positions before."""
        return (self.position - hops_back) % self.size


def ring_distribute(schedule: Schedule, ring: Ring, data: int, pieces: Pieces, ready: Waits) -> Waits:
    """Every rank's own block, in its place in `data`, travels once around.

    Args:
        schedule: Where the steps go.
        ring: Who takes part.
        data: Number of the buffer.
        pieces: Of every block, by position in the ring.
        ready: What the pieces of the own block wait for.

    Returns:
        The steps after which each piece is here.
    """
    waits = dict(ready)
    for hop in range(ring.size - 1):
        for piece in pieces[ring.block(hop)]:
            place = Place(data, piece.offset)
            schedule.send(ring.next, place, place, piece.bytes, waits.get(piece.offset, []))
        for piece in pieces[ring.block(hop + 1)]:
            waits[piece.offset] = [schedule.receive(ring.previous, Place(data, piece.offset), piece.bytes)]
    return waits


def ring_collect(
    schedule: Schedule,
    ring: Ring,
    data: int,
    scratch: Place,
    pieces: Pieces,
    ready: Waits | None = None,
    *,
    divide: bool = False,
) -> Waits:
    """Block p of all, combined, in its place in `data` at position p; the first half of an all-reduce.

    Partial results pass through scratch. A complete block may be written over any other rank's own part of it, which
    has left and arrived before.

    Args:
        schedule: Where the steps go.
        ring: Who takes part.
        data: Number of the buffer.
        scratch: Where offset 0 of `data` would be in scratch memory.
        pieces: Of every block, by position in the ring.
        ready: What own data waits for.
        divide: In the end, by the plan's divisor.

    Returns:
        The steps after which each piece of the own block is complete.
    """
    own = ready or {}
    waits = dict(own)
    for hop in range(ring.size - 1):
        for piece in pieces[ring.block(hop + 1)]:
            source = Place(data, piece.offset) if hop == 0 else scratch + piece.offset
            into = scratch + piece.offset
            schedule.send(ring.next, source, into, piece.bytes, waits.get(piece.offset, []))
        last = hop == ring.size - 2
        for piece in pieces[ring.block(hop + 2)]:
            partial, mine = scratch + piece.offset, Place(data, piece.offset)
            before = [schedule.receive(ring.previous, partial, piece.bytes), *own.get(piece.offset, [])]
            if last:
                done = schedule.reduce(mine, partial, piece.bytes, before, theirs_first=True)
                if divide:
                    done = schedule.divide(mine, piece.bytes, [done])
            else:
                done = schedule.reduce(partial, mine, piece.bytes, before)
            waits[piece.offset] = [done]
    return waits


def ring_reduce_scatter(
    schedule: Schedule,
    ring: Ring,
    data: Sequence[Place],
    scratch: Sequence[Place],
    output: Place,
    pieces: Pieces,
    ready: Waits | None = None,
    *,
    divide: bool = False,
) -> None:
    """Block p of the result goes to `output` at position p; `data` stays.

    Args:
        schedule: Where the steps go.
        ring: Who takes part.
        data: Where offset 0 of the pieces of each block is in own data.
        scratch: The same in scratch memory.
        output: The same in the output, for every rank's own block.
        pieces: Of every block, by position in the ring.
        ready: What own data waits for.
        divide: In the end, by the plan's divisor.
    """
    own = ready or {}
    waits = dict(own)
    for hop in range(ring.size - 1):
        leaving, coming = ring.block(hop + 1), ring.block(hop + 2)
        last = hop == ring.size - 2
        for piece in pieces[leaving]:
            source = (data[leaving] if hop == 0 else scratch[leaving]) + piece.offset
            first = piece.offset - pieces[leaving][0].offset
            into = output + first if last else scratch[leaving] + piece.offset
            schedule.send(ring.next, source, into, piece.bytes, waits.get(piece.offset, []))
        for piece in pieces[coming]:
            first = piece.offset - pieces[coming][0].offset
            into = output + first if last else scratch[coming] + piece.offset
            arrived = schedule.receive(ring.previous, into, piece.bytes)
            before = [arrived, *own.get(piece.offset, [])]
            waits[piece.offset] = [schedule.reduce(into, data[coming] + piece.offset, piece.bytes, before)]
            if last and divide:
                schedule.divide(into, piece.bytes, waits[piece.offset])
