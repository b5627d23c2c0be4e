"""Start of a child process of a command, and its messages: JSON lines on stdin and stdout.

A child never outlives its parent: the kernel kills it when its parent dies, and it ends when its stdin does.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

from openmrc.config.json_lines import json_line, json_object
from openmrc.errors import OpenmrcError
from openmrc.variables import PARENT

_PR_SET_PDEATHSIG = 1
PARENT_VARIABLE = PARENT


def adopt() -> None:
    """Ties this process to its parent. Exits at once if the parent has already gone.

    Interrupts are left to the parent: Ctrl-C in a terminal reaches it, and it ends its children in order.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    expected = os.environ.get(PARENT_VARIABLE)
    if expected is not None and os.getppid() != int(expected):
        sys.exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Pipe:
    """The child's end of the conversation: messages are dictionaries, one a line. Sending is thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a stray print must not break the protocol

    def send(self, message: dict[str, Any]) -> None:
        """Sends one message to the parent; ends the process if the parent no longer listens."""
        line = json_line(message)
        try:
            with self._lock:
                self._output.write(line)
                self._output.flush()
        except BrokenPipeError:
            os._exit(1)

    def receive(self) -> dict[str, Any] | None:
        """The parent's next message; None after it has closed the pipe."""
        line = sys.stdin.buffer.readline()
        if not line:
            return None
        message = json_object(line)
        assert message is not None, line
        return message


class Server(Protocol):
    """Interface of a child process's task."""

    def handle(self, message: dict[str, Any]) -> None:
        """Handles one message."""

    def close(self) -> None:
        """Releases all resources."""


def serve(make: Callable[[Pipe], Server]) -> None:
    """Serves the parent until it closes the pipe; an error is reported, and ends the task but not the conversation."""
    adopt()
    pipe = Pipe()
    server = make(pipe)
    pipe.send({"ready": True})
    try:
        while (message := pipe.receive()) is not None:
            server.handle(message)
    except (OpenmrcError, OSError) as error:
        pipe.send({"error": str(error)})
        while pipe.receive() is not None:
            pass
    finally:
        server.close()
    os._exit(0)  # threads may still wait in native code for a peer that is gone


def cpu_s() -> float:
    """CPU time of this process so far, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
