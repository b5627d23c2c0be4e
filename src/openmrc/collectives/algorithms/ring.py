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

__all__ = ["Cut", "Pieces", "Ring", "Waits", "ring_collect", "ring_distribute", "ring_reduce_scatter"]

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


@dataclass(frozen=True, slots=True)
class Cut:
    """A piece of a reduction that is not in place: own part, where partial results pass, where the result ends.

    `partial` and `final` are the same at all ranks. What pieces wait for is kept by the offset of `data`.
    """

    data: Place
    partial: Place
    final: Place
    bytes: int


def ring_reduce_scatter(
    schedule: Schedule, ring: Ring, cuts: Sequence[Sequence[Cut]], ready: Waits, *, divide: bool = False
) -> Waits:
    """Block p of all, combined, goes to its `final` places at position p; `data` stays.

    Args:
        schedule: Where the steps go.
        ring: Who takes part.
        cuts: The pieces of every block, by position in the ring.
        ready: What own data waits for.
        divide: In the end, by the plan's divisor.

    Returns:
        The steps after which each piece of the own block is complete.
    """
    waits = dict(ready)
    for hop in range(ring.size - 1):
        last = hop == ring.size - 2
        for cut in cuts[ring.block(hop + 1)]:
            source, into = cut.data if hop == 0 else cut.partial, cut.final if last else cut.partial
            schedule.send(ring.next, source, into, cut.bytes, waits.get(cut.data.offset, []))
        for cut in cuts[ring.block(hop + 2)]:
            into = cut.final if last else cut.partial
            before = [schedule.receive(ring.previous, into, cut.bytes), *ready.get(cut.data.offset, [])]
            done = schedule.reduce(into, cut.data, cut.bytes, before)
            if last and divide:
                done = schedule.divide(into, cut.bytes, [done])
            waits[cut.data.offset] = [done]
    return waits
