"""One operation of a process group, as torch knows it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from openmrc.collectives import CollectiveError, Work
from openmrc.torch.failures import OperationTimeoutError, ProcessGroupError

if TYPE_CHECKING:
    from openmrc.collectives import Group
    from openmrc.torch.job import Job

__all__ = ["MrcWork"]

_SLICE_S = 0.1


class MrcWork(dist.Work):
    """Operations that were started, and what is to be done with the results when all have ended.

    Args:
        job: What they belong to.
        group: Their ranks.
        name: Of the collective, for messages.
        parts: The operations.
        after: Brings results to where the caller wants them.
        value: Of the future: the tensors with the results.
        timeout_s: How long they may take, from now on.
    """

    def __init__(
        self,
        job: Job,
        group: Group,
        name: str,
        parts: Sequence[Work],
        after: Sequence[Callable[[], None]],
        value: list[Any],
        timeout_s: float,
    ) -> None:
        super().__init__()
        self._job, self._group, self._name = job, group, name
        self._parts, self._after, self._value = list(parts), list(after), value
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._lock, self._advancing = threading.Lock(), threading.Lock()
        self._over = False
        self._error: ProcessGroupError | None = None
        self._promise: Any = None
        self._future: Any = None

    @classmethod
    def of_all(cls, job: Job, group: Group, works: Sequence[MrcWork], timeout_s: float) -> MrcWork:
        """One for several that were started together; they need not be waited for any more."""
        parts = [part for work in works for part in work._parts]
        after = [action for work in works for action in work._after]
        value = [tensor for work in works for tensor in work._value]
        return cls(job, group, "coalesced operations", parts, after, value, timeout_s)

    # --- as torch calls it

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Returns when it is done and the results are in place.

        Args:
            timeout: From now on; zero: that of the process group, from when it was started.

        Raises:
            ProcessGroupError: it failed; `.rank` and `.ports` say at whom.
            OperationTimeoutError: the time is over.
        """
        limit_s = timeout.total_seconds()
        deadline = time.monotonic() + limit_s if limit_s > 0 else self._deadline
        while not self.advance(min(_SLICE_S, max(deadline - time.monotonic(), 0.0))):
            if time.monotonic() >= deadline:
                self._end(self._timed_out(limit_s if limit_s > 0 else self._timeout_s))
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """As `wait`."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it has ended, with success or not."""
        return self.advance(0)

    def is_success(self) -> bool:
        """Whether it has ended with success."""
        return self._over and self._error is None

    def exception(self) -> ProcessGroupError | None:
        """Why it failed; None while it runs and after success."""
        return self._error

    def result(self) -> list[Any]:
        """The tensors with the results."""
        return self._value

    def source_rank(self) -> int:
        """Of a receive that has succeeded: the sender, in the group's numbers."""
        source = self._parts[0].source if self._parts else None
        if source is None:
            msg = f"{self._name} has no source rank"
            raise ProcessGroupError(msg)
        return source

    _source_rank = source_rank

    def get_future(self) -> Any:
        """A future that completes by itself with the tensors, or with the failure."""
        with self._lock:
            if self._future is None:
                self._promise = torch.futures.Future()
                # Raised in a callback, a failure reaches C++ as an error; as a result it would be taken for tensors.
                self._future = self._promise.then(self._outcome)
                start = True
            else:
                start = False
            over = self._over
        if over and start:
            self._promise.set_result(None)
        elif start:
            self._job.completer.add(self)
        return self._future

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

    # --- inside

    def _advance(self, wait_s: float, until: float) -> bool:
        try:
            for part in self._parts:
                if not part.done:
                    if wait_s <= 0:
                        return self._give_up()
                    part.wait(max(until - time.monotonic(), 0.0))
                if part.error is not None:
                    raise part.error
        except TimeoutError:
            return self._give_up()
        except CollectiveError as error:
            self._end(self._explained(error))
            return True
        self._end(None)
        return True

    def _give_up(self) -> bool:
        """Ends it if somebody has died, who may be needed at another rank alone, or if the time is over."""
        dead = self._job.dead(self._group)
        if dead is not None:
            reason = self._job.world.missing[dead]
            self._end(
                self._explained(CollectiveError(f"{self._name} failed at rank {dead}: it is gone: {reason}", dead))
            )
        elif time.monotonic() >= self._deadline and self._promise is not None:
            self._end(self._timed_out(self._timeout_s))
        return self._over

    def _explained(self, error: CollectiveError) -> ProcessGroupError:
        dead = self._job.dead(self._group)
        number = error.rank if dead is None else dead
        if number is None:
            return ProcessGroupError(f"{self._name}: {error}")
        ports, rank = self._job.world.ports_of(number), self._job.ranks[number]
        reason = self._job.world.missing.get(number)
        said = f"rank {rank} is gone: {reason}" if reason else str(error)
        return ProcessGroupError(f"{self._name} failed: {said} (rank {rank}: ports {', '.join(ports)})", rank, ports)

    def _timed_out(self, limit_s: float) -> ProcessGroupError:
        return OperationTimeoutError(f"{self._name} of group {self._group.name} is not done after {limit_s:g} s")

    def _end(self, error: ProcessGroupError | None) -> None:
        with self._lock:
            if self._over:
                return
            if error is None:
                for action in self._after:
                    action()
            else:
                self._error, self._job.failed = error, True
            self._after.clear()
            self._over = True
            promise = self._promise
        if promise is not None:
            promise.set_result(None)

    def _outcome(self, _promise: Any) -> list[Any]:
        if self._error is not None:
            raise self._error
        return self._value
