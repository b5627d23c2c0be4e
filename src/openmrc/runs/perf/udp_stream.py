"""A stream of bare UDP datagrams: what UDP sockets carry on this machine, with one thread at each end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from openmrc import _native

__all__ = ["UdpShape", "udp_sink", "udp_source"]

_CALL_BYTES_MAX = 65_507  # the largest UDP payload over IPv4
_DATAGRAMS_MAX = 64  # that one call can send with segmentation offload
_HEADERS_BYTES = 28  # IPv4 and UDP


@dataclass(frozen=True, slots=True)
class UdpShape:
    """Sizes of a stream: a datagram's, the number in a call, and the memory that is sent, and filled, repeatedly."""

    datagram_bytes: int
    datagrams: int
    region_bytes: int

    @classmethod
    def of(cls, mtu: int | None, region_bytes: int) -> UdpShape:
        """Full packets over IPv4 with this MTU, and as many in each call as it takes; None: loopback."""
        datagram = _CALL_BYTES_MAX if mtu is None else min(mtu - _HEADERS_BYTES, _CALL_BYTES_MAX)
        return cls(datagram, min(_CALL_BYTES_MAX // datagram, _DATAGRAMS_MAX), region_bytes)


def udp_source(local: str, remote: str, port: int, shape: UdpShape, seconds: float) -> int:
    """Payload bytes that a bare UDP socket sent to a peer's `udp_sink` within this time.

    Raises:
        RuntimeError: the socket cannot be opened, or refuses to send.
    """
    return int(_udp_stream(_native.measure_udp_source, local, remote, port, shape, seconds)[0])


def udp_sink(local: str, remote: str, port: int, shape: UdpShape) -> tuple[int, float]:
    """Payload bytes from a peer's `udp_source` that were copied to their place, and the seconds which that took.

    Raises:
        RuntimeError: the socket cannot be opened.
    """
    placed, elapsed_ns = _udp_stream(_native.measure_udp_sink, local, remote, port, shape, 0.0)
    return int(placed), elapsed_ns / 1e9


def _udp_stream(
    measure: Callable[..., tuple[int, int]], local: str, remote: str, port: int, shape: UdpShape, seconds: float
) -> tuple[int, int]:
    return measure(
        local=local,
        local_port=port,
        remote=remote,
        remote_port=port,
        datagram_bytes=shape.datagram_bytes,
        datagrams=shape.datagrams,
        region_bytes=shape.region_bytes,
        duration_ns=int(seconds * 1e9),
    )
