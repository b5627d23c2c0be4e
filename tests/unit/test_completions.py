"""Completions of one queue reach every waiter, also those that another one fetches."""

from __future__ import annotations

import asyncio
import os
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from openmrc.connection.completions import Completions


class FakeQueue:
    """A CQ with an eventfd, as `openmrc.verbs.CompletionQueue` has them."""

    def __init__(self) -> None:
        self.device = SimpleNamespace(closed=False)
        self.fd = os.eventfd(0, os.EFD_NONBLOCK)
        self.pending: list[int] = []
        self.armed = False
        self.waiting, self.give_up = threading.Event(), threading.Event()

    def arrive(self, number: int) -> None:
        self.pending.append(number)
        if self.armed:
            self.armed = False
            os.eventfd_write(self.fd, 1)

    def arm(self) -> bool:
        self._clear()
        self.armed = not self.pending
        return bool(self.pending)

    def poll(self, count_max: int) -> list[int]:
        taken, self.pending = self.pending[:count_max], self.pending[count_max:]
        return taken

    def wait(self, timeout_s: float, count_max: int) -> list[int]:
        """Returns nothing once the test says so, as after a timeout."""
        self.waiting.set()
        self.give_up.wait()
        return []

    def _clear(self) -> None:
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            return


class Waiters:
    """Completions of a fake queue, and the numbers that have been dispatched."""

    def __init__(self) -> None:
        self.queue = FakeQueue()
        self.done: set[int] = set()
        queue: Any = self.queue
        dispatch: Any = self.done.add
        self.completions = Completions(queue, dispatch)

    async def wait_for(self, number: int) -> int:
        await self.completions.wait_until_async(lambda: number in self.done)
        return number


@pytest.fixture
def waiters() -> Any:
    made = Waiters()
    yield made
    os.close(made.queue.fd)


async def settle() -> None:
    """Lets all tasks run until they wait."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("fetch_in_thread", [False, True])
async def test_a_task_ends_when_someone_else_has_fetched_its_completion(waiters: Waiters, fetch_in_thread: bool):
    task = asyncio.create_task(waiters.wait_for(1))
    await settle()
    waiters.queue.arrive(1)
    if fetch_in_thread:
        thread = threading.Thread(target=waiters.completions.poll)
        thread.start()
        thread.join()
    else:
        waiters.completions.poll()
    assert await task == 1


async def test_the_last_of_many_tasks_may_fetch_the_completions_of_all(waiters: Waiters):
    tasks = [asyncio.create_task(waiters.wait_for(number)) for number in range(8)]
    await settle()
    for number in range(9):
        waiters.queue.arrive(number)
    assert await waiters.wait_for(8) == 8
    assert await asyncio.gather(*tasks) == list(range(8))


async def test_a_cancelled_task_leaves_the_rest_their_completions(waiters: Waiters):
    tasks = [asyncio.create_task(waiters.wait_for(number)) for number in range(3)]
    await settle()
    tasks[0].cancel()
    await settle()
    waiters.queue.arrive(1)
    waiters.queue.arrive(2)
    assert await asyncio.gather(*tasks[1:]) == [1, 2]


async def test_a_thread_that_gives_up_leaves_completions_to_tasks(waiters: Waiters):
    """The thread took the ring of the eventfd, but not the completion."""
    thread = threading.Thread(target=lambda: waiters.completions.wait_until(lambda: 1 in waiters.done, 60))
    thread.start()
    await asyncio.to_thread(waiters.queue.waiting.wait)
    task = asyncio.create_task(waiters.wait_for(1))
    await settle()
    waiters.queue.arrive(1)
    waiters.queue.give_up.set()
    assert await task == 1
    await asyncio.to_thread(thread.join)


async def test_event_loops_of_several_threads_wait_for_one_queue(waiters: Waiters):
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(waiters.wait_for(2))))
    thread.start()
    task = asyncio.create_task(waiters.wait_for(1))
    await settle()
    waiters.queue.arrive(1)
    waiters.queue.arrive(2)
    assert await task == 1
    await asyncio.to_thread(thread.join)
    assert found == [2]
