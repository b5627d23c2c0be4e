"""Delivery of one CQ's completions to several waiters: threads, event loops, or both."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from openmrc.verbs import CompletionQueue, WorkCompletion

_FOLLOW_S = 0.05
_BATCH = 256


class Completions:
    """The waiter that fetches does so for all, and wakes the others after each batch.

    Args:
        cq: Exclusive: nothing else may fetch from it.
        dispatch: Called with every completion, in order, by one thread at a time.
    """

    def __init__(self, cq: CompletionQueue, dispatch: Callable[[WorkCompletion], None]) -> None:
        self._cq = cq
        self._dispatch = dispatch
        self._fetching = threading.Lock()
        self._refused = False  # a task could not fetch, and waits to be woken
        self._changed = threading.Condition()
        self._waiting: dict[asyncio.AbstractEventLoop, set[asyncio.Future[None]]] = {}  # under `_changed`

    def poll(self) -> None:
        """Dispatches pending completions, without waiting."""
        self._fetch(lambda: self._cq.poll(_BATCH))

    def wait_until(self, satisfied: Callable[[], bool], timeout_s: float | None) -> bool:
        """Fetches until `satisfied`; False after `timeout_s`."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self.poll()
        while not satisfied():
            left = 1.0 if deadline is None else deadline - time.monotonic()
            if left <= 0 or self._cq.device.closed:
                return False
            span = min(left, 1.0)
            if not self._fetch(lambda span=span: self._cq.wait(span, _BATCH)):  # type: ignore[misc]
                with self._changed:
                    self._changed.wait(min(left, _FOLLOW_S))
        return True

    async def wait_until_async(self, satisfied: Callable[[], bool]) -> None:
        """As `wait_until`, from an event loop; bound it with `asyncio.timeout`."""
        self.poll()
        while not satisfied() and not self._cq.device.closed:
            with self._woken() as woken:  # from here on, so that no batch of another waiter is missed
                fetched = self._fetch(lambda: self._cq.poll(_BATCH))
                pending = fetched and self._cq.arm()
                if not pending and not satisfied():
                    await woken

    def _fetch(self, take: Callable[[], list[WorkCompletion]]) -> bool:
        """Dispatches completions; False if another waiter is doing so."""
        if not self._fetching.acquire(blocking=False):
            self._refused = True
            if not self._fetching.acquire(blocking=False):  # its holder finds the note afterwards
                return False
        done: list[WorkCompletion] = []
        try:
            done = take()
            for completion in done:
                self._dispatch(completion)
        finally:
            self._fetching.release()
            if done or self._refused:
                self._refused = False
                self._wake()
        return True

    @contextlib.contextmanager
    def _woken(self) -> Iterator[asyncio.Future[None]]:
        """A future that is done after the next batch of anyone, or when the CQ has a completion."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        with self._changed:
            futures = self._waiting.setdefault(loop, set())
            futures.add(future)
            first = len(futures) == 1
        fd = self._cq.fd
        if first and fd >= 0:
            loop.add_reader(fd, _complete_all, futures)
        try:
            yield future
        finally:
            with self._changed:
                futures.discard(future)
                last = not futures
                if last:
                    del self._waiting[loop]
            if last and fd >= 0:
                loop.remove_reader(fd)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
            waiting = [(loop, futures) for loop, futures in self._waiting.items()]
        for loop, futures in waiting:
            with contextlib.suppress(RuntimeError):  # a loop that has been closed
                loop.call_soon_threadsafe(_complete_all, futures)


def _complete_all(futures: set[asyncio.Future[None]]) -> None:
    """In the loop of the futures, which alone adds and removes them."""
    for future in futures:
        if not future.done():
            future.set_result(None)
