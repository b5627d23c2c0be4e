"""How the two ends of `openmrc perf` talk and find each other: JSON lines over TCP, addresses, options, rows."""

from __future__ import annotations

import ipaddress
import json
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from openmrc import QpSettings
from openmrc.errors import ConfigError, HandshakeError, PeerError, PeerUnreachableError
from openmrc.live.pattern import Bytes
from openmrc.live.plane_watch import PlaneReport
from openmrc.verbs import Port
from openmrc.verbs.interfaces import ChosenPorts, Interface, choose_ports

DEFAULT_PORT = 18515
SIZE_MAX = 64 << 20
QPS_MAX = 64
VERSION = 1
ROUNDS = 4
ANSWER_S = 120.0
HELLO_S = 10.0
IDLE_S = 3600.0  # a client that says nothing for so long is gone
_LINE_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class BandwidthRow:
    """One line of the bandwidth table. Peak is the best of the rounds that a measurement consists of.

    Packets and planes are those of the client's own writes, its connections together. `planes` is empty, and
    `queue_delay_us`, the mean of the plane with the longest queue, None, where planes are not controlled one by one.
    Processor time and counters are of this end and of the peer, for the bytes of both directions. That of the peer's
    machine is None where it is this machine, too.
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
    """One line of the latency table: half round trips in microseconds, as perftest counts them."""

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
    """What a client may ask for.

    Args:
        qps: Connections used at the same time.
        depth: Writes outstanding on each.
        iterations: Messages per size; None: 5,000, fewer for large sizes.
        duration_s: Run each size for so long instead.
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
    """One measurement; `usage` asks what this end has spent so far, and has neither bytes nor iterations."""

    run: Literal["latency", "write", "usage"]
    bytes: Annotated[int, Field(ge=1, le=SIZE_MAX)] = 1
    iterations: Annotated[int, Field(ge=1, le=100_001_000)] = 1


F = TypeVar("F", bound=BaseModel)
_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


class Lines:
    """JSON lines over a socket; a peer that breaks off or says something else raises PeerError."""

    def __init__(self, sock: socket.socket, name: str) -> None:
        self._socket = sock
        self._pending = bytearray()
        self.name = name

    def send(self, **message: Any) -> None:
        """Sends one message."""
        try:
            self._socket.settimeout(ANSWER_S)
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise PeerError(f"{self.name} hung up: {error}") from error

    def receive(self, timeout_s: float | None) -> dict[str, Any] | None:
        """The next message; None when the peer has hung up."""
        line = self._line(timeout_s)
        if line is None:
            return None
        try:
            return _OBJECT.validate_json(line)
        except ValidationError:
            raise HandshakeError(f"{self.name} does not speak openmrc perf") from None

    def request(self, form: type[F], timeout_s: float) -> F | None:
        """The next message in its form; None when the peer has hung up.

        Raises:
            HandshakeError: it does not have that form; the message names the member.
            PeerError: it does not come in time.
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
        """One line; `timeout_s` bounds all of it, so that bytes that trickle in do not extend it."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (end := self._pending.find(b"\n")) < 0:
            if len(self._pending) > _LINE_MAX:
                raise HandshakeError(f"{self.name} does not speak openmrc perf: a line of more than {_LINE_MAX} bytes")
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
            self._pending += data
        line = bytes(self._pending[:end])
        del self._pending[: end + 1]
        return line

    def ask(self, timeout_s: float = ANSWER_S, **message: Any) -> dict[str, Any]:
        """Sends a message and waits for the answer; an `{"error": text}` answer raises PeerError."""
        self.send(**message)
        return self.answer(timeout_s)

    def answer(self, timeout_s: float = ANSWER_S) -> dict[str, Any]:
        """The answer to something that was sent."""
        answer = self.receive(timeout_s)
        if answer is None:
            raise PeerError(f"{self.name} hung up")
        if "error" in answer:
            raise PeerError(f"{self.name}: {answer['error']}")
        return answer

    def close(self) -> None:
        """Hangs up."""
        self._socket.close()


def new_buffer(size_bytes: int) -> Bytes:
    """Zeroed memory to register. Raises ConfigError for an absurd size."""
    if not 0 < size_bytes <= 2 * SIZE_MAX:
        raise ConfigError("region_bytes", size_bytes, f"1 to {2 * SIZE_MAX}")
    return np.zeros(size_bytes, dtype=np.uint8)


def dial(host: str, port: int, timeout_s: float) -> Lines:
    """A conversation with a server. Raises PeerUnreachableError, naming the address, when nobody listens."""
    started = time.monotonic()
    try:
        sock = socket.create_connection((host, port), timeout_s)
    except OSError as error:
        waited_s = time.monotonic() - started
        reason = f"{error.strerror or error}; is `openmrc perf serve` running there?"
        raise PeerUnreachableError(f"{bracketed(host)}:{port}", waited_s, reason) from None
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Lines(sock, f"{bracketed(host)}:{port}")


def facing(address: str) -> str:
    """The own address that the routing table uses towards another; on loopback its neighbour, which is free."""
    peer = ipaddress.ip_address(address)
    if peer.version == 4 and peer.is_loopback:
        return str(peer + 1)
    with socket.socket(family_of(address), socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except OSError as error:
            raise PeerUnreachableError(address, 0.0, error.strerror or str(error)) from None
        return str(probe.getsockname()[0])


def serving_ports(wanted: str | None, interfaces: Sequence[Interface] | None = None) -> ChosenPorts:
    """Ports of the server's device: those wanted, else all suitable interfaces as `openmrc doctor` shows them.

    Args:
        wanted: As `choose_ports` takes it.
        interfaces: Of this host; None: ask the kernel.

    Raises:
        ConfigError: no such interface or address.
        DeviceError: the kernel does not list its interfaces.
    """
    chosen = choose_ports(wanted, field="--ports", interfaces=interfaces)
    if wanted is not None or len(chosen.ports) > 1:
        return chosen
    # One port leaves through its interface anyway, and where it is not bound to that, clients on this host reach it.
    return replace(chosen, ports=(replace(chosen.ports[0], interface=None),))


def listening_address(ports: Sequence[Port]) -> str:
    """Address for TCP connections of clients: all of this host, or loopback where the ports are nothing else."""
    local = all(ipaddress.ip_address(port.address).is_loopback for port in ports)
    return ("127.0.0.1" if local else "0.0.0.0") if ports[0].version == 4 else ("::1" if local else "::")


def own_ports(theirs: Sequence[str]) -> list[str]:
    """Ports of a client without any of its choice: the addresses that the routing table uses towards the server's.

    Raises:
        ConfigError: two of the server's ports are reached from the same address.
        PeerUnreachableError: no route leads to one of them.
    """
    found: dict[str, str] = {}
    for address in theirs:
        own = facing(address)
        if own in found:
            shared = f"{found[own]} and {address} of the server are both reached from {own}"
            needed = f"{len(theirs)} addresses of this host, one for each of the server's {', '.join(theirs)}"
            hint = f"{shared}: name them here, or start the server with --ports {found[own]}"
            raise ConfigError("--ports", "not given", needed, hint=hint)
        found[own] = address
    return list(found)


def family_of(address: str) -> socket.AddressFamily:
    """IPv4 or IPv6."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def bracketed(host: str) -> str:
    """A host as it stands before a port."""
    return f"[{host}]" if ":" in host else host
