"""One operation of a process group, from its start to its result."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from openmrc.collectives import CollectiveError, Work
from openmrc.torch.failures import OperationTimeoutError, ProcessGroupError

if TYPE_CHECKING:
    from openmrc.collectives import Group
    from openmrc.torch.job import Job

__all__ = ["Operation", "Part", "Step", "Watcher"]

Step = Callable[[], Sequence[Work] | None]
"""Called when all parts have ended: places results, and may return further parts."""

_SLICE_S = 0.1


class Part(Protocol):
    """Interface of a collective, or of another operation, for an operation that waits for it."""

    @property
    def done(self) -> bool:
        """True once it has ended, with or without success."""

    @property
    def error(self) -> CollectiveError | None:
        """Error of a failed one, else None."""

    def wait(self, timeout_s: float) -> None:
        """Returns when it has ended, or raises TimeoutError or CollectiveError."""


class Watcher(Protocol):
    """Interface of the native work for the operation."""

    def _finish(self, error: ProcessGroupError | None) -> None:
        """Completes the future, whose callbacks may block the calling thread for as long as they like."""


class Operation:
    """Started collectives, and the steps that follow their end.

    The native work calls `poll`, `wait`, `failure`, `source_rank`, `abort` and `watch`.

    Args:
        job: Connected ranks, whose completer drives operations that nobody waits for.
        group: Members.
        name: Name of the collective, for messages.
        parts: Started collectives.
        steps: Called one after another, each when all parts have ended.
        timeout_s: Limit from now on.
    """

    __slots__ = (
        "_advancing",
        "_deadline",
        "_error",
        "_group",
        "_job",
        "_lock",
        "_name",
        "_over",
        "_parts",
        "_steps",
        "_timeout_s",
        "_watcher",
    )

    def __init__(
        self, job: Job, group: Group, name: str, parts: Sequence[Part], steps: Sequence[Step], timeout_s: float
    ) -> None:
        self._job, self._group, self._name = job, group, name
        self._parts: list[Part] = list(parts)
        self._steps = deque(steps)
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._lock, self._advancing = threading.Lock(), threading.Lock()
        self._over = False
        self._error: ProcessGroupError | None = None
        self._watcher: Watcher | None = None

    @classmethod
    def of_all(cls, job: Job, group: Group, operations: Sequence[Operation], timeout_s: float) -> Operation:
        """One operation for several that were started together, which are no longer waited for themselves."""
        parts = [part for one in operations for part in one._parts]
        steps = [step for one in operations for step in one._steps]
        return cls(job, group, "coalesced operations", parts, steps, timeout_s)

    # --- as the native work calls it

    def poll(self) -> bool:
        """True once it is over, with or without success."""
        over = self.advance(0)
        if over and self._watcher is not None:
            self._job.completer.finish(self)
        return over

    def wait(self, limit_s: float) -> None:
        """Returns when it is done and the results are in place.

        Args:
            limit_s: From now on, after which the caller gives up and the operation continues; 0: until the operation's
            own
                deadline, after which it has failed.

        Raises:
            ProcessGroupError: it failed; `.rank` and `.ports` identify the culprit.
            OperationTimeoutError: the time is over.
        """
        deadline = time.monotonic() + limit_s if limit_s > 0 else self._deadline
        while not self.advance(min(_SLICE_S, max(deadline - time.monotonic(), 0.0))):
            if time.monotonic() >= deadline:
                if limit_s > 0:
                    raise self._timed_out(limit_s)
                self._end(self._timed_out(self._timeout_s))
        if self._watcher is not None:
            self._job.completer.finish(self)
        if self._error is not None:
            raise self._error

    @property
    def group(self) -> Group:
        """Members."""
        return self._group

    def failure(self) -> ProcessGroupError | None:
        """Error of a failed operation; None while it runs and after success."""
        return self._error

    def source_rank(self) -> int:
        """Sender of a receive that has succeeded, in the group's numbers."""
        source: int | None = getattr(self._parts[0], "source", None) if self._parts else None
        if source is None:
            msg = f"{self._name} of {self._group.name} has no source rank: it is no receive that has ended with success"
            raise ProcessGroupError(msg)
        return source

    def abort(self) -> None:
        """Makes it fail, if it is still running."""
        self._end(ProcessGroupError(f"{self._name} of {self._group.name} was aborted"))
        self._job.completer.finish(self)

    def watch(self, watcher: Watcher) -> None:
        """From now on it proceeds and ends by itself, and `watcher` is called when it is over."""
        with self._lock:
            over = self._over
            if not over:
                self._watcher = watcher
        if over:
            watcher._finish(self._error)
        else:
            self._job.completer.add(self)

    # --- as others call it

    @property
    def over(self) -> bool:
        """True once its end has been seen."""
        return self._over

    def as_part(self) -> Part:
        """Part of another operation, done when this one is, with or without success."""
        return _Whole(self)

    # --- as the completer calls it

    def advance(self, wait_s: float) -> bool:
        """Waits at most this long, and finishes parts that are done; True once it is over."""
        if self._over:
            return True
        until = time.monotonic() + wait_s
        # One thread at a time; waiting here counts towards the requested limit.
        if not self._advancing.acquire(timeout=max(0, wait_s)):
            return self._over
        try:
            return self._advance(wait_s, until)
        finally:
            self._advancing.release()

    def expire(self) -> bool:
        """Ends it if its time is over, although nobody waits for it; True once it is over."""
        if not self._over and time.monotonic() >= self._deadline:
            self._end(self._timed_out(self._timeout_s))
        return self._over

    def notify(self) -> None:
        """Calls the watcher, once, after the end. Callbacks may block the calling thread."""
        with self._lock:
            watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher._finish(self._error)

    # --- inside

    def _advance(self, wait_s: float, until: float) -> bool:
        try:
            while not self._over:
                for part in self._parts:
                    if not part.done:
                        if wait_s <= 0:
                            return self._give_up()
                        part.wait(max(until - time.monotonic(), 0.0))
                    if part.error is not None:
                        raise part.error
                self._take_step()
        except TimeoutError:
            return self._give_up()
        except CollectiveError as error:
            self._end(self._explained(error))
        except Exception as error:  # noqa: BLE001  # a step, such as a copy into a tensor whose memory is gone
            self._end(ProcessGroupError(f"{self._name} of {self._group.name} failed: {error}"))
        return True

    def _take_step(self) -> None:
        """Places results; the operation is over after the last step."""
        while (step := self._next_step()) is not None:
            if further := step():
                self._parts = list(further)
                return
        self._end(None)

    def _next_step(self) -> Step | None:
        with self._lock:  # a timeout elsewhere drops the remaining ones
            return self._steps.popleft() if self._steps else None

    def _give_up(self) -> bool:
        """Ends the operation if a member has died: a failure of another rank may make progress impossible."""
        dead = self._job.dead(self._group)
        if dead is not None:
            # Checked again: the last message of a lost rank may contain the reason.
            failures = (part.error for part in self._parts if part.done)
            gone = CollectiveError(self._job.world.missing[dead], dead)
            self._end(self._explained(next(filter(None, failures), gone)))
        return self._over

    def _explained(self, error: CollectiveError) -> ProcessGroupError:
        dead = self._job.dead(self._group)
        number = error.rank if dead is None else dead
        if number is None:
            return ProcessGroupError(str(error))
        ports, rank = self._job.world.ports_of(number), self._job.ranks[number]
        # A rank with a different call ends soon afterwards; the difference is the better explanation.
        faulty = number == error.rank and self._job.world.executor.faulty(number)
        reason = None if faulty else self._job.world.missing.get(number)
        said = f"{self._name} of {self._group.name} failed: rank {rank} is gone: {reason}" if reason else str(error)
        return ProcessGroupError(f"{said} (rank {rank}: ports {', '.join(ports)})", rank, ports)

    def _timed_out(self, limit_s: float) -> ProcessGroupError:
        where = f"{self._name} of {self._group.name}"
        return OperationTimeoutError(f"{where} timed out: it is not done after its timeout of {limit_s:g} s")

    def _end(self, error: ProcessGroupError | None) -> None:
        with self._lock:
            if self._over:
                return
            if error is not None:
                self._error, self._job.failed = error, True
            self._steps.clear()
            self._over = True


class _Whole:
    """An operation as a part of another one, with a failure of its own."""

    error = None

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    @property
    def done(self) -> bool:
        return self._operation.poll()

    def wait(self, timeout_s: float) -> None:
        if not self._operation.advance(timeout_s):
            raise TimeoutError
