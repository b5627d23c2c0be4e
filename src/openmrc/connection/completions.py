"""Delivery of one CQ's completions to several waiters: threads, event loops, or both."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from openmrc.verbs import CompletionQueue, WorkCompletion

_FOLLOW_S = 0.05


class Completions:
    """One waiter at a time fetches for all; the others are woken after each batch.

    Args:
        cq: Exclusive: nothing else may fetch from it.
        dispatch: Called with every completion, in order, by one thread at a time.
    """

    def __init__(self, cq: CompletionQueue, dispatch: Callable[[WorkCompletion], None]) -> None:
        self._cq = cq
        self._dispatch = dispatch
        self._fetching = threading.Lock()
        self._changed = threading.Condition()
        self._loop_fetching = False
        self._followers: list[asyncio.Future[None]] = []

    def poll(self) -> None:
        """Dispatches pending completions, without waiting."""
        if self._fetching.acquire(blocking=False):
            try:
                self._deliver(self._cq.poll(256))
            finally:
                self._fetching.release()

    def wait_until(self, satisfied: Callable[[], bool], timeout_s: float | None) -> bool:
        """Fetches until `satisfied`; False after `timeout_s`."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self.poll()
        while not satisfied():
            left = 1.0 if deadline is None else deadline - time.monotonic()
            if left <= 0 or self._cq.device.closed:
                return False
            if self._fetching.acquire(blocking=False):
                try:
                    self._deliver(self._cq.wait(min(left, 1.0), 256))
                finally:
                    self._fetching.release()
            else:
                with self._changed:
                    self._changed.wait(min(left, _FOLLOW_S))
        return True

    async def wait_until_async(self, satisfied: Callable[[], bool]) -> None:
        """As `wait_until`, from an event loop; bound it with `asyncio.timeout`."""
        self.poll()
        while not satisfied() and not self._cq.device.closed:
            if self._loop_fetching:
                follower = asyncio.get_running_loop().create_future()
                self._followers.append(follower)
                await follower
                continue
            self._loop_fetching = True
            try:
                self._deliver(await self._cq.wait_async(256))
            finally:
                self._loop_fetching = False
                followers, self._followers = self._followers, []
                for follower in followers:
                    if not follower.done():
                        follower.set_result(None)

    def _deliver(self, done: list[WorkCompletion]) -> None:
        for completion in done:
            self._dispatch(completion)
        if done:
            with self._changed:
                self._changed.notify_all()
