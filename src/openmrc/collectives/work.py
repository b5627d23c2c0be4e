"""One running operation."""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

from openmrc._native import collectives as native
from openmrc.collectives.buffers import Scratch, View
from openmrc.errors import OpenmrcError

__all__ = ["CollectiveError", "OpState", "Receive", "Work"]

_SLICE_NS = 100_000_000  # Ctrl-C is noticed between slices


class CollectiveError(OpenmrcError):
    """A collective failed: a rank died, the paths to it broke, or its call differs.

    Attributes:
        rank: The rank that failed, in the world's numbers; None: none in particular.
    """

    def __init__(self, text: str, rank: int | None = None) -> None:
        super().__init__(text)
        self.rank = rank


def failure_of(kind: str, where: str, rank: int, reason: str) -> CollectiveError:
    """The error of an operation of this kind and group; a negative `rank` stands for no rank."""
    at = f" at rank {rank}" if rank >= 0 else ""
    return CollectiveError(f"{kind} of {where} failed{at}: {reason}", None if rank < 0 else rank)


def lateness_of(kind: str, where: str, timeout_s: float, delayed: bool) -> TimeoutError:
    """The error of a wait that was too short. `delayed`: the operation has not begun."""
    msg = f"{kind} of {where} is not done after {timeout_s:g} s"
    if delayed:
        msg += ": it has not begun, as an earlier operation that it must not overtake has not ended"
    return TimeoutError(msg)


class OpState(IntEnum):
    """State of an operation in the native executor."""

    RUNNING = 0
    DONE = 1
    FAILED = 2
    UNKNOWN = 3


_RUNNING = OpState.RUNNING
_STATES = tuple(OpState)


class _WorkType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return super().__instancecheck__(instance) or (cls is Work and isinstance(instance, native.Started))


class Work(metaclass=_WorkType):
    """A started operation: wait for it before accessing its buffers.

    Repeated all-reduces and barriers have a native class with the same methods.

    Attributes:
        algorithm: Such as "ring".
        source: Of a receive that has succeeded: the sender, in the group's numbers.
    """

    source: int | None = None

    __slots__ = ("_executor", "_failure", "_keep", "_kind", "_number", "_scratch", "_state", "_where", "algorithm")

    def __init__(
        self,
        executor: native.Executor,
        number: int,
        kind: str,
        where: str,
        keep: list[tuple[list[View], Any]],
        scratch: Scratch,
        algorithm: str,
    ) -> None:
        self.algorithm = algorithm
        self._executor = executor
        self._number = number
        self._kind, self._where = kind, where
        self._keep = keep
        self._scratch = scratch
        self._state = _RUNNING
        self._failure: CollectiveError | None = None

    @property
    def done(self) -> bool:
        """True once it has ended, with or without success."""
        return self._state is not _RUNNING or self._note(_STATES[self._executor.state(self._number)])

    @property
    def settled(self) -> bool:
        """True once it is done and nothing reads or writes its buffers any more."""
        return not self._keep or (self.done and self._release())

    @property
    def error(self) -> CollectiveError | None:
        """Error of a failed operation; None while it runs and after success."""
        return self._failure

    def wait(self, timeout_s: float | None = None) -> None:
        """Returns when the operation is done at this rank: results are in place, inputs may change.

        Raises:
            CollectiveError: it failed; `.rank` is the culprit.
            TimeoutError: `timeout_s` has passed; the operation continues.
        """
        deadline = None if timeout_s is None else time.monotonic_ns() + int(timeout_s * 1e9)
        while self._state is _RUNNING:
            left = _SLICE_NS if deadline is None else min(_SLICE_NS, max(deadline - time.monotonic_ns(), 0))
            over = self._note(_STATES[self._executor.wait(self._number, left)])
            if not over and timeout_s is not None and deadline is not None and time.monotonic_ns() >= deadline:
                raise lateness_of(self._kind, self._where, timeout_s, self._executor.delayed(self._number))
        if self._failure is not None:
            raise self._failure

    def _note(self, state: OpState) -> bool:
        # Several threads may wait, and the executor forgets released operations: the thread that learns the result
        # stores it before the release, and a later thread finds it stored.
        if state is _RUNNING or self._state is not _RUNNING:
            return self._state is not _RUNNING
        if state is OpState.FAILED:
            failure = failure_of(self._kind, self._where, *self._executor.failure(self._number))
            if self._failure is None and self._state is _RUNNING:
                self._failure = failure
        self._state = state
        self._release()
        return True

    def _release(self) -> bool:
        """True if nothing uses the buffers any more; they are then released."""
        if self._keep and self._executor.release(self._number):
            try:
                _, scratch = self._keep.pop()
            except IndexError:  # another thread was faster
                return True
            if scratch is not None:
                self._scratch.give_back(scratch)
        return not self._keep


class Receive(Work):
    """A receive, whose source may be unknown until it is done."""

    __slots__ = ("_members", "source")

    def __init__(
        self,
        executor: native.Executor,
        number: int,
        where: str,
        view: View,
        scratch: Scratch,
        members: Sequence[int],
    ) -> None:
        super().__init__(executor, number, "recv", where, [([view], None)], scratch, "direct")
        self.source = None
        self._members = members

    def _note(self, state: OpState) -> bool:
        # Stored before the operation is visibly done; if this is too late, another thread has stored it.
        if state is OpState.DONE and (rank := self._executor.source(self._number)) >= 0:
            self.source = self._members.index(rank)
        return super()._note(state)
