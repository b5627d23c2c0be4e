"""The native measuring loops on connections: a stream of WRITEs, and a ping-pong of small ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from openmrc import Connection, _native
from openmrc.errors import ConfigError, WorkError
from openmrc.verbs import MemoryRegion, WcStatus

_DRAIN_NS = 10_000_000_000
_UDP_ATTEMPTS = 40
_UDP_TIMEOUT_NS = 250_000_000
PING_REGION_BYTES = 1 << 16  # half to send from, half to receive into
PING_BYTES_MAX = PING_REGION_BYTES // 2


@dataclass(frozen=True, slots=True)
class StreamResult:
    """A completed stream of messages: number, bytes, and time from the first post to the last completion."""

    messages: int
    bytes: int
    elapsed_s: float

    @property
    def gbps(self) -> float:
        """Mean goodput in Gb/s."""
        return self.bytes * 8 / self.elapsed_s / 1e9 if self.elapsed_s > 0 else 0.0


def write_stream(
    connection: Connection,
    region: MemoryRegion,
    *,
    message_bytes: int,
    depth: int,
    seconds: float = 0.0,
    messages: int = 0,
    busy: bool = False,
) -> StreamResult:
    """Writes messages one after another, `depth` of them outstanding, through the regions of both ends in turn.

    Args:
        connection: No other thread may wait for its writes meanwhile.
        region: Memory to write from, at least one message.
        message_bytes: Size of each message.
        depth: Messages outstanding.
        seconds: Duration of posting; with `messages`, at most.
        messages: Number to post; 0: unlimited within the time.
        busy: Poll instead of sleeping.

    Raises:
        ConfigError: a message does not fit the regions.
        WorkError: a write failed.
    """
    remote = connection.remote
    room = 0 if remote is None else min(region.length_bytes, remote.length_bytes)
    if remote is None or message_bytes > room:
        raise ConfigError("message_bytes", message_bytes, f"at most {room}, the memory that both ends have registered")
    result: dict[str, Any] = _native.measure_stream(
        connection.device._native,
        qp=connection.qp.qp_num,
        cq=connection.qp.send_cq.id,
        lkey=region.lkey,
        local_address=region.address,
        rkey=remote.rkey,
        remote_address=remote.address,
        region_bytes=room,
        message_bytes=message_bytes,
        depth=depth,
        duration_ns=int(seconds * 1e9) if seconds else 3_600_000_000_000,
        messages_max=messages,
        drain_ns=_DRAIN_NS,
        busy_poll=busy,
    )
    if result["failed"]:
        status = WcStatus(result["first_failure"])
        raise WorkError(status.name, f"a write to {connection.peer_name} failed after {result['messages']} messages")
    if result["unfinished"] or result["post_status"]:
        raise WorkError("TIMEOUT", f"{result['unfinished']} writes to {connection.peer_name} did not complete")
    return StreamResult(result["messages"], result["bytes"], result["elapsed_ns"] / 1e9)


def ping(connection: Connection, region: MemoryRegion, *, message_bytes: int, iterations: int) -> list[float]:
    """Round trips in microseconds of messages that the peer answers by `pong`, spinning on memory.

    Raises:
        ConfigError: a message is too large or too small.
        WorkError: the peer stopped answering.
    """
    round_trips = _native.measure_ping(
        connection.device._native, **_ping_plan(connection, region, message_bytes, iterations)
    )
    if len(round_trips) < iterations:
        raise WorkError("TIMEOUT", f"{connection.peer_name} stopped answering after {len(round_trips)} round trips")
    return [nanoseconds / 1e3 for nanoseconds in round_trips]


def pong(connection: Connection, region: MemoryRegion, *, message_bytes: int, iterations: int) -> int:
    """Answers a peer's `ping`; returns the number of messages answered, fewer if the peer stopped."""
    return int(
        _native.measure_pong(connection.device._native, **_ping_plan(connection, region, message_bytes, iterations))
    )


def udp_ping(local: str, local_port: int, remote: str, remote_port: int, *, iterations: int) -> list[float]:
    """Round trips in microseconds of a bare spinning UDP socket: the baseline for any transport.

    Raises:
        WorkError: no answer, or no more answers.
    """
    round_trips: list[int] = []
    for _ in range(_UDP_ATTEMPTS):  # the first datagram is lost if the other end has not opened its socket yet
        round_trips = _native.measure_udp_ping(
            local=local,
            local_port=local_port,
            remote=remote,
            remote_port=remote_port,
            iterations=iterations,
            timeout_ns=_UDP_TIMEOUT_NS,
        )
        if round_trips:
            break
    if len(round_trips) < iterations:
        raise WorkError("TIMEOUT", f"{remote}:{remote_port} stopped answering after {len(round_trips)} round trips")
    return [nanoseconds / 1e3 for nanoseconds in round_trips]


def udp_pong(local: str, local_port: int, remote: str, remote_port: int, *, iterations: int) -> int:
    """Answers a peer's `udp_ping`."""
    return int(
        _native.measure_udp_pong(
            local=local, local_port=local_port, remote=remote, remote_port=remote_port, iterations=iterations
        )
    )


def _ping_plan(connection: Connection, region: MemoryRegion, message_bytes: int, iterations: int) -> dict[str, Any]:
    remote = connection.remote
    if remote is None or min(region.length_bytes, remote.length_bytes) < PING_REGION_BYTES:
        raise ConfigError(
            "region", None if remote is None else remote.length_bytes, f"{PING_REGION_BYTES} bytes or more"
        )
    if not 8 <= message_bytes <= PING_BYTES_MAX or message_bytes % 8:
        raise ConfigError("message_bytes", message_bytes, f"8 to {PING_BYTES_MAX} and a multiple of 8")
    return {
        "qp": connection.qp.qp_num,
        "cq": connection.qp.send_cq.id,
        "lkey": region.lkey,
        "send_address": region.address,
        "rkey": remote.rkey,
        "remote_address": remote.address + PING_BYTES_MAX,
        "watch_address": region.address + PING_BYTES_MAX,
        "message_bytes": message_bytes,
        "iterations": iterations,
        "timeout_ns": 5_000_000_000,
    }


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all values do not exceed (nearest rank, as perftest counts)."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    return float(ordered[min(len(ordered) - 1, int(np.ceil(share * len(ordered))) - 1 if share > 0 else 0)])
