"""Processes of this machine that execute runs, one at a time each.

A process that dies (out of memory, a crash in native code) turns its run into an error and has no other effect: another
process replaces it. concurrent.futures would give up all of its runs, and it would wait for ever for the rest of an
answer if a process ended in the middle of it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext, SpawnProcess
from types import FrameType
from typing import Any, Generic, TypeVar

from openmrc.sim.sweep.outcome import Outcome, attempt, lost

__all__ = ["run_in_processes"]

_ENDING_S = 5.0
_Spec = TypeVar("_Spec")


def run_in_processes(
    task: Callable[[_Spec], dict[str, Any]], specs: Sequence[_Spec], workers: int
) -> Generator[tuple[_Spec, Outcome], None, None]:
    """Each run with its outcome, in order of completion. Closing the iterator (or an exception in its user) ends the
    processes.

    Args:
        task: A function that a new process can import; it returns the figures of the outcome.
        specs: The runs, started in this order.
        workers: Number of processes.
    """
    waiting = deque(specs)
    context = get_context("spawn")
    pool: list[_Worker[_Spec]] = []
    try:
        while waiting or any(worker.spec is not None for worker in pool):
            while waiting and len(pool) < workers:
                pool.append(_Worker(context, task))
            for worker in pool:
                if worker.spec is None and waiting:
                    worker.give(waiting.popleft())
            ready = wait([worker.pipe for worker in pool if worker.spec is not None])
            for worker in [one for one in pool if one.pipe in ready]:
                spec, outcome, alive = worker.take()
                if not alive:
                    pool.remove(worker)
                yield spec, outcome
    finally:
        for worker in pool:
            worker.end()


class _Worker(Generic[_Spec]):
    """A process, the pipe to it, and its current run."""

    def __init__(self, context: SpawnContext, task: Callable[[_Spec], dict[str, Any]]) -> None:
        self.pipe, theirs = context.Pipe()
        self.spec: _Spec | None = None
        self._began = 0.0
        self._process: SpawnProcess = context.Process(target=_serve, args=(theirs, task), daemon=True)
        with interrupts_held():
            self._process.start()
        theirs.close()

    def give(self, spec: _Spec) -> None:
        self.spec, self._began = spec, time.monotonic()
        with suppress(OSError):  # it died before its first run: `take` detects the closed pipe
            self.pipe.send(spec)

    def take(self) -> tuple[_Spec, Outcome, bool]:
        """The finished run, its outcome, and True if the process can continue."""
        assert self.spec is not None
        spec, self.spec = self.spec, None
        try:
            outcome: Outcome = self.pipe.recv()
        except (EOFError, OSError):
            self._process.join(_ENDING_S)
            self.pipe.close()
            return spec, lost(_how_it_ended(self._process.exitcode), time.monotonic() - self._began), False
        return spec, outcome, True

    def end(self) -> None:
        self.pipe.close()
        self._process.terminate()
        self._process.join(_ENDING_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _how_it_ended(code: int | None) -> str:
    if code is None or code >= 0:
        return f"the process of this run ended with exit code {code}"
    name = signal.Signals(-code).name
    hint = ": killed from outside, often for lack of memory" if name == "SIGKILL" else ""
    return f"the process of this run ended by {name}{hint}"


def _serve(pipe: Connection, task: Callable[[Any], dict[str, Any]]) -> None:
    """Main loop of a worker process: executes runs from the pipe; ends with its parent."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            spec = pipe.recv()
        except (EOFError, ConnectionResetError):  # the latter: the parent ended before it read the last outcome
            return
        try:
            pipe.send(attempt(task, spec))
        except BrokenPipeError:
            return


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Keeps Ctrl-C from processes started in this block, whose end the parent controls; ours comes afterwards."""
    resource_tracker.ensure_running()  # must be running already, since its start unblocks the signal
    # Any other thread may receive the signal, but Python's handler interrupts the main one.
    handler = signal.getsignal(signal.SIGINT)
    handled = callable(handler) and threading.current_thread() is threading.main_thread()
    received: list[tuple[int, FrameType | None]] = []
    if handled:
        signal.signal(signal.SIGINT, lambda *arguments: received.append(arguments))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if handled:
            signal.signal(signal.SIGINT, handler)
        if callable(handler) and received:
            handler(*received[0])
