"""The parent's side: starts children, collects their messages in one place, and leaves none behind.

Use it as a context manager; leaving the block by any path, also by Ctrl-C, ends every child and its descendants.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from openmrc.config.json_lines import LineBuffer, json_line, json_object
from openmrc.errors import OpenmrcError
from openmrc.runs.processes.child import PARENT_VARIABLE

_TAIL_LINES = 30
Hear = Callable[[dict[str, Any]], bool]
"""Takes a message of a child; whether nobody else needs to see it."""


class ChildError(OpenmrcError):
    """A child process reported a failure, ended early, or did not answer in time; the text has the child and the
    reason.
    """


class Child:
    """One child process and its messages; created by `Family.spawn`."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], hear: Hear | None = None) -> None:
        self.name = name
        self.process = process
        self.hear = hear
        self.ended = False
        self.error_tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._partial = {"out": LineBuffer(), "err": LineBuffer()}

    @property
    def pid(self) -> int:
        """Process id."""
        return self.process.pid

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends one message. Raises ChildError if the child has gone."""
        stdin = self.process.stdin
        assert stdin is not None
        try:
            stdin.write(json_line(message))
            stdin.flush()
        except (BrokenPipeError, ValueError) as error:
            raise ChildError(f"{self.name} is gone{self._why()}") from error

    def kill(self) -> None:
        """Kills the child and everything it started at once, without a goodbye."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def _why(self) -> str:
        tail = [line for line in self.error_tail if any(letter.isalnum() for letter in line)]
        return f": {tail[-1].strip()}" if tail else ""

    def _lines(self, stream: str, chunk: bytes) -> list[bytes]:
        buffer = self._partial[stream]
        buffer.add(chunk)
        return list(iter(buffer.line, None))


class Family:
    """All children of one command.

    `spawn` starts them, `messages` collects from all, `expect` waits for one answer. A message `{"error": text}` of a
    child, or its unexpected end, raises ChildError from whichever of the two is running.
    """

    def __init__(self) -> None:
        self.children: list[Child] = []
        self._selector = selectors.DefaultSelector()
        self._heard: deque[tuple[Child, dict[str, Any]]] = deque()
        self._taken = 0  # messages that a child's own `hear` has taken since `messages` returned

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def spawn(
        self,
        name: str,
        module: str,
        arguments: Sequence[str] = (),
        prefix: Sequence[str] = (),
        hear: Hear | None = None,
        *,
        own_session: bool = True,
    ) -> Child:
        """Starts `python -m module` as a child that dies with this process.

        Args:
            name: Name of the child in errors.
            module: Module that runs as its program.
            arguments: Words behind the module's name.
            prefix: Words in front of the command, which run it in a namespace, say.
            hear: Takes each message of the child before all others, wherever the parent waits.
            own_session: In a session of its own, else in that of this process. The kernel's autogroup schedules each
                session as a whole: the only process of a session yields to nobody.
        """
        environment = {**os.environ, PARENT_VARIABLE: str(os.getpid())}
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Either makes a process group, which `kill` ends with all descendants.
            start_new_session=own_session,
            process_group=None if own_session else 0,
            env=environment,
        )
        child = Child(name, process, hear)
        self.children.append(child)
        assert process.stdout is not None
        assert process.stderr is not None
        self._selector.register(process.stdout, selectors.EVENT_READ, (child, "out"))
        self._selector.register(process.stderr, selectors.EVENT_READ, (child, "err"))
        return child

    def expect(self, child: Child, key: str, timeout_s: float) -> dict[str, Any]:
        """The child's next message that has `key`; other messages stay for `messages`.

        Raises ChildError if the child fails, ends, or does not send such a message in time.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            for index, (speaker, message) in enumerate(self._heard):
                if speaker is child and key in message:
                    del self._heard[index]
                    return message
            self._fail_if_said(child)
            left = deadline - time.monotonic()
            if left <= 0:
                raise ChildError(f"{child.name} did not answer within {timeout_s:g} s{child._why()}")
            self._listen(left)

    def ask(self, child: Child, message: Mapping[str, Any], key: str, timeout_s: float = 20.0) -> dict[str, Any]:
        """Sends a message and waits for the answer that has `key`."""
        child.send(message)
        return self.expect(child, key, timeout_s)

    def messages(self, timeout_s: float) -> list[tuple[Child, dict[str, Any]]]:
        """All messages since the last call; waits up to `timeout_s` for the first message.

        A message that a child's `hear` takes ends the wait, too.
        """
        deadline = time.monotonic() + timeout_s
        while not (self._heard or self._taken) and (left := deadline - time.monotonic()) > 0:
            self._listen(left)
        self._taken = 0
        if timeout_s <= 0:
            self._listen(0)
        for child in self.children:
            self._fail_if_said(child)
        heard = list(self._heard)
        self._heard.clear()
        return heard

    def poll(self) -> None:
        """Takes in messages that have arrived, for `hear` and for `messages`. Raises ChildError as these do."""
        self._listen(0)
        for child in self.children:
            self._fail_if_said(child)

    def forget(self, child: Child) -> None:
        """Allows a child to end without that being an error (it was stopped, or was killed on purpose)."""
        child.ended = True

    def close(self) -> None:
        """Ends all children: first by closing their stdin, after a second by killing them."""
        for child in self.children:
            child.ended = True
            if child.process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    child.process.stdin.close()
        deadline = time.monotonic() + 1.0
        try:
            for child in self.children:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.process.wait(max(deadline - time.monotonic(), 0.01))
        finally:
            for child in self.children:
                child.kill()
            for child in self.children:
                child.process.wait()
                for stream in (child.process.stdout, child.process.stderr):
                    if stream is not None:
                        stream.close()
            self.children.clear()
            self._selector.close()

    def _listen(self, timeout_s: float) -> None:
        if not self._selector.get_map():
            time.sleep(timeout_s)
            return
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj not in self._selector.get_map():
                continue  # read to its end by the last words of a child that came before it in this very list
            child, stream = key.data
            chunk = os.read(key.fd, 1 << 16)
            if not chunk:
                self._selector.unregister(key.fileobj)
                if stream == "out" and not child.ended:
                    child.ended = True
                    self._heard.append((child, {"error": self._last_words(child)}))
                continue
            for line in child._lines(stream, chunk):
                message = json_object(line) if stream == "out" else None
                # Lines that are no message: words of a launcher such as `mpirun` for people.
                if message is not None and child.hear is not None and child.hear(message):
                    self._taken += 1
                elif message is not None:
                    self._heard.append((child, message))
                else:
                    child.error_tail.append(line.decode(errors="replace"))

    def _last_words(self, child: Child) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.process.wait(2.0)
        stderr = child.process.stderr
        if stderr is not None and stderr in self._selector.get_map():
            self._selector.unregister(stderr)
            child.error_tail.extend(stderr.read().decode(errors="replace").splitlines())
        code = child.process.returncode
        ended = f"was ended by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
        return ended + child._why()

    def _fail_if_said(self, child: Child) -> None:
        for index, (speaker, message) in enumerate(self._heard):
            if speaker is child and "error" in message and len(message) == 1:
                del self._heard[index]
                raise ChildError(f"{child.name}: {message['error']}")
