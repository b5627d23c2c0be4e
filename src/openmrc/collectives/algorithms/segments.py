"""Large operations in parts that follow each other: segments that share scratch memory, and turns of a ring.

Two segments are in flight. Scratch memory of a segment is reused by the second one after it. A rank writes into a
peer's scratch memory, which the peer cannot refuse; therefore the peer announces that it is free, by a message without
data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from openmrc.collectives.algorithms.blocks import Block, chunks_of
from openmrc.collectives.schedule import Place, Schedule, Step, StepKind

__all__ = ["IN_FLIGHT", "Turns", "scaled_first", "write_segments"]

IN_FLIGHT = 2
_NOTHING = Place(0)
_COMPUTES = (StepKind.REDUCE, StepKind.COPY, StepKind.SCALE, StepKind.DIVIDE)
_READS = (StepKind.SEND, StepKind.REDUCE, StepKind.COPY)


class Turns:
    """Turns of a ring, of which a few are under way at a time: what a rank sends on is still in its caches.

    A rank starts a turn when all of an earlier one has arrived. Ranks may have different depths.

    Args:
        schedule: Destination of the steps.
        depth: Turns under way at a time.
    """

    def __init__(self, schedule: Schedule, depth: int) -> None:
        self._schedule, self._depth = schedule, depth
        self._ends: list[int] = []

    def write(self, turn: Callable[[], object]) -> None:
        """Adds the steps of a turn; its sends that depend on none of them are the ones that wait."""
        steps, first = self._schedule.steps, len(self._schedule.steps)
        turn()
        added = range(first, len(steps))
        if len(self._ends) >= self._depth:
            before = self._ends[-self._depth]
            for number in added:
                step = steps[number]
                if step.kind is StepKind.SEND and all(wait < first for wait in step.waits):
                    steps[number] = replace(step, waits=tuple(sorted({*step.waits, before})))
        self._ends += [number for number in added if steps[number].kind is StepKind.RECEIVE][-1:]


@dataclass(frozen=True, slots=True)
class _Freed:
    """Steps after which a segment's scratch memory is free: our own, and that of each peer we wrote to."""

    own: int
    peers: dict[int, int]


def write_segments(
    schedule: Schedule,
    scratch: int,
    segments: Sequence[Block],
    write: Callable[[Block, int], None],
    areas: int = IN_FLIGHT,
) -> None:
    """Writes the steps of all segments, with dependencies that separate their use of scratch memory.

    Args:
        schedule: Destination of the steps.
        scratch: Number of the scratch buffer, at all ranks.
        segments: Of the operation, the same number at all ranks.
        write: Adds the steps of a segment, which uses the area of scratch memory with the given number.
        areas: Of scratch memory; segments wait for each other if they are more.
    """
    freed: list[_Freed] = []
    for number, segment in enumerate(segments):
        first = len(schedule.steps)
        write(segment, number % areas)
        if number >= areas:
            _hold(schedule, first, scratch, freed[number - areas])
        if number + areas < len(segments):
            freed.append(_free(schedule, first, scratch))


def _free(schedule: Schedule, first: int, scratch: int) -> _Freed:
    steps = list(enumerate(schedule.steps))[first:]
    users = [number for number, step in steps if _uses(step, scratch)]
    writers = sorted({step.peer for _, step in steps if _is(step, StepKind.RECEIVE, scratch)})
    readers = sorted({step.peer for _, step in steps if _is(step, StepKind.SEND, scratch)})
    own = schedule.copy(_NOTHING, _NOTHING, 0, users)
    for peer in writers:
        schedule.send(peer, _NOTHING, _NOTHING, 0, [own])
    return _Freed(own, {peer: schedule.receive(peer, _NOTHING, 0) for peer in readers})


def _hold(schedule: Schedule, first: int, scratch: int, freed: _Freed) -> None:
    for number in range(first, len(schedule.steps)):
        step = schedule.steps[number]
        if step.into.buffer != scratch or step.kind is StepKind.RECEIVE:
            continue
        before = freed.peers[step.peer] if step.kind is StepKind.SEND else freed.own
        schedule.steps[number] = replace(step, waits=tuple(sorted({*step.waits, before})))


def _uses(step: Step, buffer: int) -> bool:
    reads = step.kind in _READS and step.source.buffer == buffer
    return reads or (step.kind is not StepKind.SEND and step.into.buffer == buffer)


def _is(step: Step, kind: StepKind, buffer: int) -> bool:
    return step.kind is kind and step.into.buffer == buffer


def scaled_first(schedule: Schedule, data: int, whole: Block, chunk_bytes: int, write: Callable[[], None]) -> None:
    """Adds the steps of `write`, after own data has been multiplied by the plan's factor, chunk by chunk.

    Args:
        schedule: Destination of the steps.
        data: Number of the buffer.
        whole: The range to multiply.
        chunk_bytes: Size of the chunks, of whole elements.
        write: Adds steps.
    """
    scaled = [
        schedule.scale(Place(data, chunk.offset), chunk.bytes) for chunk in chunks_of(whole, chunk_bytes, chunk_bytes)
    ]
    first = len(schedule.steps)
    write()
    for number in range(first, len(schedule.steps)):
        step = schedule.steps[number]
        waits = set(step.waits)
        for block in _touches(step, data):
            start, end = block.offset - whole.offset, block.end - whole.offset
            waits.update(scaled[start // chunk_bytes : -(-end // chunk_bytes)])
        schedule.steps[number] = replace(step, waits=tuple(sorted(waits)))


def _touches(step: Step, buffer: int) -> Iterator[Block]:
    if step.kind in _READS and step.source.buffer == buffer:
        yield Block(step.source.offset, step.bytes)
    if step.kind in _COMPUTES and step.into.buffer == buffer:
        yield Block(step.into.offset, step.bytes)
