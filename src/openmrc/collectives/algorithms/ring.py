"""Rings: every rank sends only to the next one, chunk after chunk. The fewest bytes on every link for large buffers.

Block b's partial result starts at position b + 1 and collects one rank's part at every hop until it is complete at
position b: always in ring order, so the result does not depend on timing.

Blocks are given as the pieces that follow each other through the ring. Dependencies of pieces are stored by offset.
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
    """Some ranks in a circle, from the view of one of them."""

    members: Sequence[int]
    position: int

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.members)

    @property
    def next(self) -> int:
        """The rank to send to."""
        return self.members[(self.position + 1) % self.size]

    @property
    def previous(self) -> int:
        """The rank to receive from."""
        return self.members[(self.position - 1) % self.size]

    def block(self, hops_back: int) -> int:
        """Number of the block that started this many positions before."""
        return (self.position - hops_back) % self.size


def ring_distribute(schedule: Schedule, ring: Ring, data: int, pieces: Pieces, ready: Waits) -> Waits:
    """Sends every rank's own block, in its place in `data`, once around.

    Args:
        schedule: Destination of the steps.
        ring: The participants.
        data: Number of the buffer.
        pieces: Of every block, by position in the ring.
        ready: Dependencies of the own block's pieces.

    Returns:
        The steps after which each piece has arrived here.
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
    """Combines block p of all ranks in its place in `data` at position p; the first half of an all-reduce.

    Partial results arrive in scratch, and are combined with the own part in its place. A complete block may overwrite
    any other rank's partial result of it, which has been sent and has arrived before.

    Args:
        schedule: Destination of the steps.
        ring: The participants.
        data: Number of the buffer.
        scratch: Offset in scratch memory that corresponds to offset 0 of `data`.
        pieces: Of every block, by position in the ring.
        ready: Dependencies of own data.
        divide: In the end, by the plan's divisor.

    Returns:
        The steps after which each piece of the own block is complete.
    """
    own = ready or {}
    waits = dict(own)
    for hop in range(ring.size - 1):
        for piece in pieces[ring.block(hop + 1)]:
            mine, into = Place(data, piece.offset), scratch + piece.offset
            schedule.send(ring.next, mine, into, piece.bytes, waits.get(piece.offset, []))
        last = hop == ring.size - 2
        for piece in pieces[ring.block(hop + 2)]:
            partial, mine = scratch + piece.offset, Place(data, piece.offset)
            before = [schedule.receive(ring.previous, partial, piece.bytes), *own.get(piece.offset, [])]
            done = schedule.reduce(mine, partial, piece.bytes, before, theirs_first=True)
            if last and divide:
                done = schedule.divide(mine, piece.bytes, [done])
            waits[piece.offset] = [done]
    return waits


@dataclass(frozen=True, slots=True)
class Cut:
    """A piece of a reduction that is not in place: own part, place of partial results, and place of the result.

    `partial` and `final` are the same at all ranks. Dependencies of pieces are stored by the offset of `data`.
    """

    data: Place
    partial: Place
    final: Place
    bytes: int


def ring_reduce_scatter(
    schedule: Schedule, ring: Ring, cuts: Sequence[Sequence[Cut]], ready: Waits, *, divide: bool = False
) -> Waits:
    """Combines block p of all ranks in its `final` places at position p; `data` is unchanged.

    Args:
        schedule: Destination of the steps.
        ring: The participants.
        cuts: The pieces of every block, by position in the ring.
        ready: Dependencies of own data.
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
