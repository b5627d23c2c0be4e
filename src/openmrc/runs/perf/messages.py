"""Messages of `openmrc perf` between its ends, as JSON lines over TCP; options and rows of its tables."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from openmrc import QpSettings
from openmrc.config.host_port import host_port
from openmrc.config.json_lines import LineBuffer, LongLineError, json_line, json_object
from openmrc.errors import ConfigError, HandshakeError, PeerError, PeerUnreachableError
from openmrc.runs.perf.plane_watch import PlaneReport
from openmrc.runs.processes.message_pattern import Bytes

DEFAULT_PORT = 18515
SIZE_MAX = 64 << 20
QPS_MAX = 64
VERSION = 1
ROUNDS = 4
ANSWER_S = 120.0
HELLO_S = 10.0
IDLE_S = 3600.0  # a client that is silent for this long is gone
_LINE_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class BandwidthRow:
    """One line of the bandwidth table. Peak is the best of a measurement's rounds.

    Packets and planes are those of the client's own writes, its connections together. If planes are not controlled one
    by one, `planes` is empty, and `queue_delay_us`, the mean of the plane with the longest queue, is None. Processor
    time and counters are of this end and of the peer, for the bytes of both directions. That of the peer's machine is
    None if it is this machine, too.
    """

    bytes: int
    iterations: int
    peak_gbps: float
    average_gbps: float
    message_rate_mpps: float
    sent_packets: int
    retransmitted_packets: int
    retransmitted_share: float
    ecn_marks: int
    queue_delay_us: float | None
    planes: tuple[PlaneReport, ...]
    cpu_seconds_per_gb: float | None
    machine_cpu_seconds_per_gb: float | None
    counters: dict[str, float] | None
    peer_cpu_seconds_per_gb: float | None
    peer_machine_cpu_seconds_per_gb: float | None
    peer_counters: dict[str, float] | None


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """One line of the latency table: half round trips in microseconds, as in perftest."""

    bytes: int
    iterations: int
    t_min_us: float
    t_max_us: float
    t_typical_us: float
    t_avg_us: float
    t_stdev_us: float
    p99_us: float
    p99_9_us: float


@dataclass(frozen=True, slots=True)
class PerfOptions:
    """Options of a client.

    Args:
        qps: Connections used at the same time.
        depth: Writes outstanding on each.
        iterations: Messages per size; None: 5,000, fewer for large sizes.
        duration_s: Duration per size, in place of iterations.
        bidirectional: The server writes too, and both directions count.
        busy: Poll instead of sleeping.
        transport: "auto", "mrc" or "rc".
    """

    qps: int = 1
    depth: int = 128
    iterations: int | None = None
    duration_s: float | None = None
    bidirectional: bool = False
    busy: bool = False
    transport: str = "auto"

    def __post_init__(self) -> None:
        if not 1 <= self.qps <= QPS_MAX:
            raise ConfigError("--qps", self.qps, f"1 to {QPS_MAX}")
        if not 1 <= self.depth <= 8192:
            raise ConfigError("--depth", self.depth, "1 to 8192")
        if self.iterations is not None and not 1 <= self.iterations <= 100_000_000:
            raise ConfigError("--iterations", self.iterations, "1 to 100,000,000")
        if self.duration_s is not None and not 0.1 <= self.duration_s <= 3600:
            raise ConfigError("--duration", self.duration_s, "0.1 to 3600 seconds")

    def settings(self) -> QpSettings:
        """Settings of every connection."""
        return QpSettings(transport=self.transport, send_wr_max=max(self.depth, 16))


class _Form(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)


class HelloForm(_Form):
    """First line of a client."""

    perf: int


class OptionsForm(_Form):
    """Options of a client; `PerfOptions` bounds the values."""

    qps: int = 1
    depth: int = 128
    iterations: int | None = None
    duration_s: float | None = None
    bidirectional: bool = False
    busy: bool = False
    transport: Literal["auto", "mrc", "rc"] = "auto"


class PlanForm(_Form):
    """Second line of a client."""

    options: OptionsForm
    region_bytes: Annotated[int, Field(ge=1, le=2 * SIZE_MAX)]


class MeasureForm(_Form):
    """One measurement; a request with `usage` reports this end's usage so far, and has neither bytes nor iterations."""

    run: Literal["latency", "write", "usage"]
    bytes: Annotated[int, Field(ge=1, le=SIZE_MAX)] = 1
    iterations: Annotated[int, Field(ge=1, le=100_001_000)] = 1


F = TypeVar("F", bound=BaseModel)


class Lines:
    """JSON lines over a socket; raises PeerError if the peer disconnects or breaks the protocol."""

    def __init__(self, sock: socket.socket, name: str) -> None:
        self._socket = sock
        self._pending = LineBuffer(_LINE_MAX)
        self.name = name

    def send(self, **message: Any) -> None:
        """Sends one message."""
        try:
            self._socket.settimeout(ANSWER_S)
            self._socket.sendall(json_line(message))
        except OSError as error:
            raise PeerError(f"{self.name} hung up: {error}") from error

    def receive(self, timeout_s: float | None) -> dict[str, Any] | None:
        """The next message; None if the peer has disconnected."""
        line = self._line(timeout_s)
        if line is None:
            return None
        if (message := json_object(line)) is None:
            raise HandshakeError(f"{self.name} does not speak openmrc perf")
        return message

    def request(self, form: type[F], timeout_s: float) -> F | None:
        """The next message in its form; None if the peer has disconnected.

        Raises:
            HandshakeError: it does not have that form; the message names the member.
            PeerError: it is late.
        """
        line = self._line(timeout_s)
        return None if line is None else self._checked(form, line)

    def _checked(self, form: type[F], line: bytes) -> F:
        try:
            return form.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "a message"
            raise HandshakeError(f"{self.name} does not speak openmrc perf: {place}: {first['msg']}") from None

    def _line(self, timeout_s: float | None) -> bytes | None:
        """One line; `timeout_s` bounds all of it, so that trickling bytes do not extend it."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (line := self._whole_line()) is None:
            try:
                self._socket.settimeout(None if deadline is None else max(0.001, deadline - time.monotonic()))
                data = self._socket.recv(65536)
            except TimeoutError:
                if deadline is not None and time.monotonic() < deadline:
                    continue
                raise PeerError(f"{self.name} did not answer within {timeout_s:g} s") from None
            except OSError as error:
                raise PeerError(f"{self.name} hung up: {error}") from error
            if not data:
                return None
            self._pending.add(data)
        return line

    def _whole_line(self) -> bytes | None:
        try:
            return self._pending.line()
        except LongLineError:
            words = f"a line of more than {_LINE_MAX} bytes"
            raise HandshakeError(f"{self.name} does not speak openmrc perf: {words}") from None

    def ask(self, timeout_s: float = ANSWER_S, **message: Any) -> dict[str, Any]:
        """Sends a message and waits for the answer; an `{"error": text}` answer raises PeerError."""
        self.send(**message)
        return self.answer(timeout_s)

    def answer(self, timeout_s: float = ANSWER_S) -> dict[str, Any]:
        """The answer to an earlier message."""
        answer = self.receive(timeout_s)
        if answer is None:
            raise PeerError(f"{self.name} hung up")
        if "error" in answer:
            raise PeerError(f"{self.name}: {answer['error']}")
        return answer

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()


def new_buffer(size_bytes: int) -> Bytes:
    """Zeroed memory to register. Raises ConfigError for an absurd size."""
    if not 0 < size_bytes <= 2 * SIZE_MAX:
        raise ConfigError("region_bytes", size_bytes, f"1 to {2 * SIZE_MAX}")
    return np.zeros(size_bytes, dtype=np.uint8)


def dial(host: str, port: int, timeout_s: float) -> Lines:
    """A connection to a server. Raises PeerUnreachableError, naming the address, if no server listens."""
    started = time.monotonic()
    try:
        sock = socket.create_connection((host, port), timeout_s)
    except OSError as error:
        waited_s = time.monotonic() - started
        reason = f"{error.strerror or error}; is `openmrc perf serve` running there?"
        raise PeerUnreachableError(host_port(host, port), waited_s, reason) from None
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Lines(sock, host_port(host, port))
