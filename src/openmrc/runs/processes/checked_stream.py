"""A transfer whose contents are checked message by message: the writing side and the receiving side of one connection.

The writer fills a slot and writes it into the same slot of the receiver's memory, with the sequence number as
immediate; then it continues with the next slot. The receiver compares the slot with its expected contents, then writes
the number of checked messages into the writer's memory: only checked slots are written again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from dataclasses import dataclass

import numpy as np

from openmrc import Connection
from openmrc.connection import Immediate, WriteHandle
from openmrc.errors import OpenmrcError, WorkError
from openmrc.runs.processes.message_pattern import Bytes, Pattern

_CREDIT_BYTES = 8
_CREDIT_SLOTS = 64  # a credit in flight is not overwritten by the next ones
_TICK_S = 0.05


@dataclass(frozen=True, slots=True)
class StreamShape:
    """Parameters common to both sides.

    Args:
        message_bytes: Size of every message.
        depth: Messages in flight.
        seed: Of the contents.
        messages: Number of messages; 0: until stopped.
    """

    message_bytes: int
    depth: int
    seed: int
    messages: int = 0

    @property
    def slots(self) -> int:
        """Slots of the ring; more than `depth`, so that checking overlaps with the transfer."""
        return 2 * self.depth

    @property
    def credit_offset(self) -> int:
        """Offset in the writer's buffer at which the number of checked messages arrives."""
        return self.slots * self.message_bytes

    def buffer(self) -> Bytes:
        """The registered buffer of each side: the slots, then the areas for received and sent credits."""
        return np.zeros(self.credit_offset + _CREDIT_BYTES * (1 + _CREDIT_SLOTS), dtype=np.uint8)


@dataclass(slots=True)
class StreamState:
    """Progress of a side; `error` is the first failure, in words."""

    messages: int = 0
    bytes: int = 0
    content_ok: bool = True
    first_wrong: int | None = None
    error: str | None = None


class Writer:
    """The writing side: runs in its own thread from `start` to `stop`."""

    def __init__(self, connection: Connection, buffer: Bytes, shape: StreamShape) -> None:
        self.state = StreamState()
        self._connection = connection
        self._buffer = buffer
        self._shape = shape
        self._pattern = Pattern(shape.message_bytes, shape.seed)
        self._under_way: deque[WriteHandle] = deque()
        self._posted = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    @property
    def done(self) -> bool:
        """True once every message of the shape has been written."""
        return 0 < self._shape.messages <= self.state.messages

    def start(self) -> None:
        """Starts writing."""
        self._thread.start()

    def stop(self, drain_s: float) -> None:
        """Posts nothing more and waits at most `drain_s` for outstanding writes."""
        self._stop.set()
        self._thread.join(drain_s)

    def _run(self) -> None:
        try:
            while (not self._stop.is_set() and not self.done) or self._under_way:
                self._turn()
        except OpenmrcError as error:
            self.state.error = str(error)

    def _turn(self) -> None:
        while not self._stop.is_set() and self._may_post():
            self._post()
        if not self._under_way:
            time.sleep(0.001)  # everything has arrived and waits for the check
            return
        try:
            self._under_way[0].wait(_TICK_S)
        except TimeoutError:
            return
        while self._under_way and self._under_way[0].done:
            handle = self._under_way.popleft()
            if handle.error is not None:
                raise handle.error
            self.state.messages += 1
            self.state.bytes += self._shape.message_bytes

    def _may_post(self) -> bool:
        left = not self._shape.messages or self._posted < self._shape.messages
        room = len(self._under_way) < self._shape.depth and self._posted - self._checked() < self._shape.slots
        return left and room

    def _checked(self) -> int:
        start = self._shape.credit_offset
        return int.from_bytes(self._buffer[start : start + _CREDIT_BYTES].tobytes(), "little")

    def _post(self) -> None:
        size, sequence = self._shape.message_bytes, self._posted
        offset = sequence % self._shape.slots * size
        self._pattern.fill(self._buffer[offset : offset + size], sequence)
        region = self._connection.region
        handle = self._connection.write(
            region, offset, imm=sequence & 0xFFFFFFFF, local_offset=offset, length_bytes=size
        )
        self._under_way.append(handle)
        self._posted += 1


class Reader:
    """The receiving side: checks every message and returns its slot; runs in its own thread."""

    def __init__(self, connection: Connection, buffer: Bytes, shape: StreamShape) -> None:
        self.state = StreamState()
        self._connection = connection
        self._buffer = buffer
        self._shape = shape
        self._pattern = Pattern(shape.message_bytes, shape.seed)
        self._credit: WriteHandle | None = None
        self._told = 0  # messages whose check the writer knows, or will know
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reader", daemon=True)

    def start(self) -> None:
        """Starts checking arrivals."""
        self._thread.start()

    def stop(self, wait_s: float = 2.0) -> None:
        """Stops checking."""
        self._stop.set()
        self._thread.join(wait_s)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                with contextlib.suppress(TimeoutError):
                    self._check(self._connection.recv_imm(_TICK_S))
                self._give_back()
        except WorkError as error:
            if not self._stop.is_set():
                self.state.error = str(error)
        except OpenmrcError as error:
            self.state.error = str(error)

    def _check(self, arrived: Immediate) -> None:
        state, size = self.state, self._shape.message_bytes
        offset = state.messages % self._shape.slots * size
        right = (
            arrived.immediate == state.messages & 0xFFFFFFFF
            and arrived.bytes == size
            and self._pattern.matches(self._buffer[offset : offset + size], state.messages)
        )
        if not right and state.content_ok:
            state.content_ok, state.first_wrong = False, state.messages
        state.messages += 1
        state.bytes += size

    def _give_back(self) -> None:
        """Credits the writer, with at most one message in flight, since the next credit includes this one."""
        if self._told == self.state.messages or (self._credit is not None and not self._credit.done):
            return
        if self._credit is not None and self._credit.error is not None:
            raise self._credit.error
        self._told = self.state.messages
        slot = self._shape.credit_offset + _CREDIT_BYTES * (1 + self._told % _CREDIT_SLOTS)
        credit = self._told.to_bytes(_CREDIT_BYTES, "little")
        self._buffer[slot : slot + _CREDIT_BYTES] = np.frombuffer(credit, dtype=np.uint8)
        self._credit = self._connection.write(
            self._connection.region, self._shape.credit_offset, local_offset=slot, length_bytes=_CREDIT_BYTES
        )
