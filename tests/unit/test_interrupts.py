"""Waits of commands that Ctrl-C ends: none may lose a signal that arrives just before it blocks."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator

import pytest

from openmrc.linux.interrupts import Interrupts

LIMIT_S = 60.0


@pytest.fixture
def seen() -> Iterator[list[int]]:
    """Signals that a handler saw, which then returned."""
    numbers: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: numbers.append(number))
    yield numbers
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_before_the_wait_ends_it(seen):
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGUSR1)
        assert seen == [signal.SIGUSR1]
        assert not interrupts.wait()  # would block for ever
        assert not interrupts.wait(timeout_s=0.0)


def test_a_signal_during_the_wait_ends_it(seen):
    main = threading.main_thread().ident
    assert main is not None
    with Interrupts() as interrupts:
        later = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGUSR1))
        later.start()
        assert not interrupts.wait()
        later.join()
    assert seen == [signal.SIGUSR1]


def test_what_can_be_read_ends_the_wait_on_any_thread():
    ours, theirs = socket.socketpair()
    found: list[bool] = []

    def wait() -> None:
        with Interrupts() as interrupts:
            found.append(interrupts.wait(ours, LIMIT_S))

    with ours, theirs:
        thread = threading.Thread(target=wait)
        thread.start()
        theirs.send(b"x")
        thread.join(LIMIT_S)
    assert found == [True]


def test_the_handlers_of_before_are_restored(seen):
    with Interrupts():
        pass
    assert signal.set_wakeup_fd(-1) == -1
    signal.raise_signal(signal.SIGUSR1)
    assert seen == [signal.SIGUSR1]
