"""Schedule of one rank in a collective: steps with dependencies, to be converted to a native plan.

Buffers have numbers: the caller's first, scratch memory last. All offsets and lengths are bytes. The n-th send of rank
a to rank b belongs to the n-th receive of b from a, and specifies the destination in b's buffers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from openmrc._native import collectives as native
from openmrc.collectives.elements import ElementType, ReduceOp

__all__ = ["CallNumbers", "Place", "Schedule", "Step", "StepKind"]

CallNumbers = tuple[int, int, int, int, int, int]
"""Kind, algorithm, type, reduction, root, and bytes of the buffer that is equally large at all ranks."""


class StepKind(IntEnum):
    """Kind of a step, with the numbers of the native plan."""

    SEND = 0
    RECEIVE = 1
    REDUCE = 2
    COPY = 3
    SCALE = 4
    DIVIDE = 5


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a buffer."""

    buffer: int
    offset: int = 0

    def __add__(self, offset: int) -> Place:
        return Place(self.buffer, self.offset + offset)


_NOWHERE = Place(0)


@dataclass(frozen=True, slots=True)
class Step:
    """One step; `waits` are numbers of earlier steps of the same schedule."""

    kind: StepKind
    bytes: int
    into: Place
    source: Place
    peer: int
    reversed: bool
    waits: tuple[int, ...]


@dataclass(slots=True)
class Schedule:
    """Steps of one rank, under construction.

    Args:
        rank: The rank that runs these steps.
        ranks: Number of participants.
        buffer_bytes: Size of each buffer, by number.
        shifts: Position in `shifted_buffer` of a sender's offset 0, by rank; for senders that do not know our layout.
        shifted_buffer: The number of that buffer.
        offered: Large sends announce themselves to the receiver and wait for a receive, which may choose among senders.
        scratch: Number of the buffer without defined contents after the operation; None: there is none.
        fence: Begins when all operations of its group that were started before have ended.
        circle: Every rank sends the same message to each other one and receives one from each, so that one write may
            reach all of them.
    """

    rank: int
    ranks: int
    buffer_bytes: Sequence[int]
    steps: list[Step] = field(default_factory=list)
    shifts: Sequence[int] = ()
    shifted_buffer: int = 0
    offered: bool = False
    fence: bool = False
    circle: bool = False
    scratch: int | None = None

    def send(self, peer: int, source: Place, into: Place, length: int, after: Iterable[int] = ()) -> int:
        """Adds a send of an own buffer's bytes into a buffer of the peer; done when the own bytes may change. Returns
        the step's number.
        """
        return self._add(StepKind.SEND, length, into, source, after, peer=peer)

    def receive(self, peer: int, into: Place, length: int) -> int:
        """Adds a receive; done when the peer's bytes are here. They may arrive at any time, so nothing else may use the
        place before.
        """
        return self._add(StepKind.RECEIVE, length, into, _NOWHERE, (), peer=peer)

    def reduce(
        self, into: Place, source: Place, length: int, after: Iterable[int] = (), *, theirs_first: bool = False
    ) -> int:
        """`into = into op source`; with `theirs_first`, `source op into`."""
        return self._add(StepKind.REDUCE, length, into, source, after, is_reversed=theirs_first)

    def copy(self, into: Place, source: Place, length: int, after: Iterable[int] = ()) -> int:
        """`into = source`."""
        return self._add(StepKind.COPY, length, into, source, after)

    def scale(self, into: Place, length: int, after: Iterable[int] = ()) -> int:
        """`into = into * factor`, the factor of the plan."""
        return self._add(StepKind.SCALE, length, into, _NOWHERE, after)

    def divide(self, into: Place, length: int, after: Iterable[int] = ()) -> int:
        """`into = into / divisor`, the divisor of the plan."""
        return self._add(StepKind.DIVIDE, length, into, _NOWHERE, after)

    def _add(
        self,
        kind: StepKind,
        length: int,
        into: Place,
        source: Place,
        after: Iterable[int],
        *,
        peer: int = 0,
        is_reversed: bool = False,
    ) -> int:
        self.steps.append(Step(kind, length, into, source, peer, is_reversed, tuple(sorted(set(after)))))
        return len(self.steps) - 1

    def plan(
        self,
        element: ElementType = ElementType.UINT8,
        op: ReduceOp = ReduceOp.SUM,
        *,
        factor: float = 1.0,
        divisor: int = 1,
        members: Sequence[int] | None = None,
        world: int | None = None,
        call: CallNumbers = (0, 0, 0, 0, 0, 0),
    ) -> native.Plan:
        """The native plan, which an executor can run repeatedly.

        Args:
            element: Type of the reduced elements.
            op: Reduce operation.
            factor: Of SCALE steps.
            divisor: Of DIVIDE steps.
            members: The executor's number of each rank here; None: the same.
            world: Number of ranks of the executor.
            call: Arguments that must be equal at all ranks; kind 0: none.
        """
        names = list(range(self.ranks)) if members is None else members
        rows = np.array(
            [
                (
                    s.kind,
                    s.reversed,
                    names[s.peer],
                    s.source.buffer,
                    s.into.buffer,
                    s.source.offset,
                    s.into.offset,
                    s.bytes,
                )
                for s in self.steps
            ],
            dtype=np.uint64,
        ).reshape(-1, 8)
        waits = np.array(
            [(number, before) for number, step in enumerate(self.steps) for before in step.waits], dtype=np.uint32
        ).reshape(-1, 2)
        count = world or self.ranks
        shifts = [0] * count if self.shifts else []
        for name, shift in zip(names, self.shifts, strict=False):
            shifts[name] = shift
        numbers = int(element), int(op.combines)
        sizes = list(self.buffer_bytes)
        shifted = shifts, self.shifted_buffer
        traits = self.offered, self.fence, self.circle
        scratch = len(sizes) if self.scratch is None else self.scratch
        return native.Plan(count, rows, waits, sizes, *numbers, factor, divisor, *shifted, *traits, call, scratch)
