"""Blocking waits that every signal ends, including one that arrives just before them."""

from __future__ import annotations

import select
import signal
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

__all__ = ["Interrupts"]


class Interrupts:
    """A context in which `wait` blocks without losing an interruption.

    Python runs signal handlers between its own instructions. A signal that arrives after the last of them and before a
    blocking system call sets a mark only, and the call blocks: Ctrl-C is lost. Here each signal also writes a byte to
    a socket (`signal.set_wakeup_fd`) that `wait` watches. On threads other than the main one, where Python runs no
    handlers, `wait` watches the descriptor alone.
    """

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._before: int | None = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.set_wakeup_fd(self._before)
        self._reader.close()
        self._writer.close()

    def wait(self, readable: socket.socket | None = None, timeout_s: float | None = None) -> bool:
        """Returns True once `readable` can be read, False after `timeout_s` or a signal whose handler returned.

        Args:
            readable: None: wait for the time or a signal only.
            timeout_s: None: no limit.

        Raises:
            KeyboardInterrupt: Ctrl-C, also one since the context was entered.
        """
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        if readable is not None:
            poll.register(readable, select.POLLIN)
        found = poll.poll(None if timeout_s is None else 1e3 * timeout_s)
        with suppress(BlockingIOError):
            self._reader.recv(4096)
        return any(descriptor != self._reader.fileno() for descriptor, _ in found)
