"""Threads that complete futures: no end is missed, in whichever order operations are added and end."""

from __future__ import annotations

import threading

import pytest

from openmrc.torch.job import Completer

PATIENCE_S = 30.0


class FakeExecutor:
    """Counts ends; a wait for the next one lasts until it comes, however long."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()
        self.waits = threading.Semaphore(0)

    def ended(self) -> int:
        return self._count

    def await_end(self, seen: int, timeout_ns: int) -> int:
        assert timeout_ns > 0
        self.waits.release()
        with self._changed:
            assert self._changed.wait_for(lambda: self._count > seen, PATIENCE_S)
        return self._count

    def end(self, operation: FakeOperation) -> None:
        with self._changed:
            operation.ended = True
            self._count += 1
            self._changed.notify_all()


class FakeOperation:
    def __init__(self) -> None:
        self.ended = False
        self.expires = False
        self.notified = threading.Event()

    def advance(self, wait_s: float) -> bool:
        assert wait_s == 0
        return self.ended

    def expire(self) -> bool:
        return self.expires

    def notify(self) -> None:
        assert not self.notified.is_set()
        self.notified.set()


@pytest.fixture
def executor() -> FakeExecutor:
    return FakeExecutor()


@pytest.fixture
def completer(executor):
    return Completer(executor)


def test_operations_are_notified_when_they_end_in_whichever_order(executor, completer):
    operations = [FakeOperation() for _ in range(3)]
    for operation in operations:
        completer.add(operation)
    for number in (1, 2, 0):
        assert not operations[number].notified.is_set()
        executor.end(operations[number])
        assert operations[number].notified.wait(PATIENCE_S)
    completer.close()


def test_one_that_ended_before_it_was_added_does_not_wait_for_the_end_of_another(executor, completer):
    slow, fast = FakeOperation(), FakeOperation()
    executor.end(fast)
    completer.add(slow)
    assert executor.waits.acquire(timeout=PATIENCE_S)
    completer.add(fast)
    assert fast.notified.wait(PATIENCE_S)
    assert not slow.notified.is_set()
    executor.end(slow)
    assert slow.notified.wait(PATIENCE_S)
    completer.close()


def test_one_that_another_thread_finished_is_notified_once(executor, completer):
    slow, fast = FakeOperation(), FakeOperation()
    completer.add(slow)
    completer.add(fast)
    fast.ended = True
    for _ in range(2):
        completer.finish(fast)
    assert fast.notified.wait(PATIENCE_S)
    executor.end(slow)
    assert slow.notified.wait(PATIENCE_S)
    completer.close()


def test_an_expired_one_is_notified(executor, completer):
    operation = FakeOperation()
    operation.expires = True
    completer.add(operation)
    assert operation.notified.wait(PATIENCE_S)
    completer.close()
