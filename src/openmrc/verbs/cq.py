"""Completion queues: read by polling, by waiting, or from an asyncio loop."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Self

from openmrc.errors import DeviceError
from openmrc.verbs.completions import WorkCompletion
from openmrc.verbs.enums import WcStatus
from openmrc.verbs.open_files import explained
from openmrc.verbs.snapshots import CompletionQueueStatistics
from openmrc.verbs.status import check

if TYPE_CHECKING:
    from types import TracebackType

    from openmrc.verbs.device import Device

__all__ = ["CompletionQueue"]

_SLICE_NS = 1_000_000_000


def _complete(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class CompletionQueue:
    """A queue of work completions; created by `Context.create_cq`.

    Args:
        device: The device it belongs to.
        capacity: Completions it holds; a QP whose completion finds it full goes to ERR (CQ overrun).

    Raises:
        LimitError: more completion queues or a larger capacity than the device has.
        DeviceError: the process has no file descriptor left.
    """

    def __init__(self, device: Device, capacity: int = 1024) -> None:
        self.device = device
        self._native = device._native
        try:
            status, self.id = self._native.create_cq(capacity)
        except DeviceError as error:
            raise explained(error, "a completion queue opens an eventfd", "or close connections and devices") from None
        check(status, f"cannot create a completion queue of {capacity} entries")
        self.capacity = capacity
        self._open = True
        self._polled = 0
        self._failed = 0
        device._queues.add(self)

    @property
    def fd(self) -> int:
        """An eventfd, readable when a completion arrived after `arm()`: for select, epoll and event loops."""
        return self._native.cq_fd(self.id)

    def arm(self) -> bool:
        """Requests a wake-up by `fd` at the next completion; True: completions are pending already, poll instead of
        sleeping.
        """
        return self._native.arm_cq(self.id)

    def poll(self, count_max: int = 64, *, busy: bool = False) -> list[WorkCompletion]:
        """Pending completions, oldest first, without waiting.

        Args:
            count_max: At most this many (1,024 in one call).
            busy: First receive and send from the calling thread. A caller in such a loop has the lowest latency, and
            keeps
                a core busy; the device's own thread rests meanwhile.
        """
        if busy:
            self._native.progress()
        return self._take(self._native.poll_cq(self.id, count_max))

    def wait(self, timeout_s: float | None = None, count_max: int = 64) -> list[WorkCompletion]:
        """At least one completion; none when `timeout_s` has passed (None: for ever) or the device closed."""
        deadline_ns = None if timeout_s is None else time.monotonic_ns() + int(timeout_s * 1e9)
        while True:
            left_ns = _SLICE_NS if deadline_ns is None else deadline_ns - time.monotonic_ns()
            done = self._native.wait_cq(self.id, count_max, max(0, min(left_ns, _SLICE_NS)))
            if done or self._native.closed or (deadline_ns is not None and time.monotonic_ns() >= deadline_ns):
                return self._take(done)

    async def wait_async(self, count_max: int = 64) -> list[WorkCompletion]:
        """As `wait` without a limit, from a running event loop; use `asyncio.timeout` to bound it."""
        loop = asyncio.get_running_loop()
        while True:
            if self.arm():
                done = self.poll(count_max)
                if done or self._native.closed:
                    return done
                continue
            readable: asyncio.Future[None] = loop.create_future()
            fd = self.fd
            loop.add_reader(fd, _complete, readable)
            try:
                await readable
            finally:
                loop.remove_reader(fd)

    def _take(self, raw: list[tuple[Any, ...]]) -> list[WorkCompletion]:
        done = [WorkCompletion.of(one) for one in raw]
        self._polled += len(done)
        self._failed += sum(one.status is not WcStatus.SUCCESS for one in done)
        return done

    def statistics(self) -> CompletionQueueStatistics:
        """Capacity, and the number of completions fetched so far."""
        return CompletionQueueStatistics(capacity=self.capacity, polled=self._polled, failed=self._failed)

    def close(self) -> None:
        """Destroys the queue. Idempotent.

        Raises:
            BusyError: a QP still uses it.
        """
        if not self._open:
            return
        if not self._native.closed:
            check(self._native.destroy_cq(self.id), "a queue pair still uses this completion queue")
        self._open = False
        self.device._queues.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()
