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
    """A collective, or another operation, as far as an operation that waits for it needs it."""

    @property
    def done(self) -> bool:
        """Whether it has ended, with success or not."""

    @property
    def error(self) -> CollectiveError | None:
        """Why it failed."""

    def wait(self, timeout_s: float) -> None:
        """Returns when it has ended, or raises TimeoutError or CollectiveError."""


class Watcher(Protocol):
    """The native work, as far as the operation needs it."""

    def _finish(self, error: ProcessGroupError | None) -> None:
        """Completes the future, whose callbacks may block the calling thread for as long as they like."""


class Operation:
    """Collectives that were started, and the steps that follow when they have ended.

    The native work calls `poll`, `wait`, `failure`, `source_rank`, `abort` and `watch`.

    Args:
        job: Connected ranks, whose completer looks after operations that nobody waits for.
        group: Members.
        name: Name of the collective, for messages.
        parts: Collectives that were started.
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
        """One operation for several that were started together; nobody waits for those any more."""
        parts = [part for one in operations for part in one._parts]
        steps = [step for one in operations for step in one._steps]
        return cls(job, group, "coalesced operations", parts, steps, timeout_s)

    # --- as the native work calls it

    def poll(self) -> bool:
        """Whether it is over, with success or not."""
        return self.advance(0)

    def wait(self, limit_s: float) -> None:
        """Returns when it is done and the results are in place.

        Args:
            limit_s: From now on, after which the caller gives up and the operation goes on; 0: until the operation's
                own deadline, after which it has failed.

        Raises:
            ProcessGroupError: it failed; `.rank` and `.ports` name the culprit.
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
        """Why it failed; None while it runs and after success."""
        return self._error

    def source_rank(self) -> int:
        """Sender of a receive that has succeeded, in the group's numbers."""
        source: int | None = getattr(self._parts[0], "source", None) if self._parts else None
        if source is None:
            msg = f"{self._name} of {self._group.name} has no source rank: it is no receive that has ended with success"
            raise ProcessGroupError(msg)
        return source

    def abort(self) -> None:
        """Fails it, if it still runs."""
        self._end(ProcessGroupError(f"{self._name} of {self._group.name} was aborted"))
        self._job.completer.finish(self)

    def watch(self, watcher: Watcher) -> None:
        """From now on it goes on and ends by itself, and `watcher` is called when it is over."""
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
        """Whether it has been seen to be over."""
        return self._over

    def as_part(self) -> Part:
        """For another operation, which is done when this one is, whatever comes of this one."""
        return _Whole(self)

    # --- as the completer calls it

    def advance(self, wait_s: float) -> bool:
        """Waits for at most this long, and finishes what is done; whether it is over."""
        if self._over:
            return True
        until = time.monotonic() + wait_s
        # One thread at a time, and nobody waits here longer than it has asked for.
        if not self._advancing.acquire(timeout=max(0, wait_s)):
            return self._over
        try:
            return self._advance(wait_s, until)
        finally:
            self._advancing.release()

    def expire(self) -> bool:
        """Ends it if its time is over, although nobody waits for it; whether it is over."""
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
        """Places results; it is over after the last step."""
        while (step := self._next_step()) is not None:
            if further := step():
                self._parts = list(further)
                return
        self._end(None)

    def _next_step(self) -> Step | None:
        with self._lock:  # a timeout elsewhere drops those that are left
            return self._steps.popleft() if self._steps else None

    def _give_up(self) -> bool:
        """Ends it if a member has died: that may concern another rank alone, which cannot go on."""
        dead = self._job.dead(self._group)
        if dead is not None:
            # Looked at again: the last message of a rank that is gone may say why.
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
        # A rank whose call differs ends soon after: that it is gone then says less.
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
    """An operation as a part of another one. Its failure is its own."""

    error = None

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    @property
    def done(self) -> bool:
        return self._operation.poll()

    def wait(self, timeout_s: float) -> None:
        if not self._operation.advance(timeout_s):
            raise TimeoutError
