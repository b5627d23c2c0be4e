"""Capabilities of UDP sockets on this host, tested with a few datagrams to this process over loopback."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["SocketFacts", "probe_sockets"]

WANTED_BYTES = 16 << 20  # requested size of each socket's buffer
_SO_SNDBUFFORCE = 32
_SO_RCVBUFFORCE = 33
_UDP_NO_CHECK6_TX = 101
_UDP_NO_CHECK6_RX = 102
_UDP_SEGMENT = 103
_UDP_GRO = 104
_IPV6_FLOWINFO = 11
_IPV6_FLOWINFO_SEND = 33
_IPV6_AUTOFLOWLABEL = 70
_IP_RECVTOS = 13
_ECN_MASK = 3
_CE = 3
_ECT0 = 2
_LABEL_MASK = 0xFFFFF
_LABEL = 0xABCDE
_WAIT_S = 0.5
_LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}


@dataclass(frozen=True, slots=True)
class SocketFacts:
    """Observed capabilities. None: there is no IPv6 to test.

    Args:
        receive_buffer_bytes: Granted of 16 MiB, in the application's count (the kernel accounts twice of it).
        send_buffer_bytes: The same for sending.
        buffers_forced: This process has the privilege to exceed the limits.
        ecn_ipv4: ECT(0) and CE of arriving packets are visible.
        ecn_ipv6: The same over IPv6.
        segmentation: One call sends several datagrams (UDP_SEGMENT).
        coalescing: One call receives several datagrams (UDP_GRO).
        zero_checksum: Datagrams without UDP checksum can be sent and received (IPv6).
        labels: A flow label is sent as chosen.
        zero_label: A flow label of 0 is sent as 0, once the socket has automatic labels off.
    """

    receive_buffer_bytes: int
    send_buffer_bytes: int
    buffers_forced: bool
    ecn_ipv4: bool
    ecn_ipv6: bool | None
    segmentation: bool
    coalescing: bool
    zero_checksum: bool | None
    labels: bool | None
    zero_label: bool | None


def probe_sockets() -> SocketFacts:
    """Runs all tests; ends within seconds and leaves nothing behind.

    Raises:
        OSError: there is no UDP over IPv4 loopback at all.
    """
    receive, receive_forced = _granted(socket.SO_RCVBUF, _SO_RCVBUFFORCE)
    send, send_forced = _granted(socket.SO_SNDBUF, _SO_SNDBUFFORCE)
    ipv6 = _has_ipv6()
    segmentation, coalescing = _bursts()
    return SocketFacts(
        receive_buffer_bytes=receive,
        send_buffer_bytes=send,
        buffers_forced=receive_forced and send_forced,
        ecn_ipv4=_sees_ecn(socket.AF_INET),
        ecn_ipv6=_sees_ecn(socket.AF_INET6) if ipv6 else None,
        segmentation=segmentation,
        coalescing=coalescing,
        zero_checksum=_without_checksum() if ipv6 else None,
        labels=_label_arrives(_LABEL) if ipv6 else None,
        zero_label=_label_arrives(0) if ipv6 else None,
    )


@contextmanager
def _pair(family: socket.AddressFamily) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A socket that sends and one that receives, with its address."""
    with socket.socket(family, socket.SOCK_DGRAM) as sender, socket.socket(family, socket.SOCK_DGRAM) as receiver:
        receiver.bind((_LOOPBACK[family], 0))
        receiver.settimeout(_WAIT_S)
        sender.settimeout(_WAIT_S)
        yield sender, receiver


def _granted(plain: int, forced: int) -> tuple[int, bool]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.setsockopt(socket.SOL_SOCKET, forced, WANTED_BYTES)
        except OSError:
            sock.setsockopt(socket.SOL_SOCKET, plain, WANTED_BYTES)
            return sock.getsockopt(socket.SOL_SOCKET, plain) // 2, False
        return sock.getsockopt(socket.SOL_SOCKET, plain) // 2, True


def _has_ipv6() -> bool:
    try:
        with _pair(socket.AF_INET6):
            return True
    except OSError:
        return False


def _sees_ecn(family: socket.AddressFamily) -> bool:
    level, kind, wish = (
        (socket.IPPROTO_IP, socket.IP_TOS, _IP_RECVTOS)
        if family == socket.AF_INET
        else (socket.IPPROTO_IPV6, socket.IPV6_TCLASS, socket.IPV6_RECVTCLASS)
    )
    seen = []
    try:
        with _pair(family) as (sender, receiver):
            receiver.setsockopt(level, wish, 1)
            for mark in (_ECT0, _CE):
                sender.setsockopt(level, kind, mark)
                sender.sendto(b"mark", receiver.getsockname())
                _data, control, _flags, _from = receiver.recvmsg(16, 64)
                seen += [value[0] & _ECN_MASK for at, which, value in control if (at, which) == (level, kind)]
    except OSError:
        return False
    return seen == [_ECT0, _CE]


def _bursts() -> tuple[bool, bool]:
    """True if one call sends several datagrams, and True if one call receives several."""
    payload, segment = bytes(4000), 1000
    with _pair(socket.AF_INET) as (sender, receiver):
        try:
            receiver.setsockopt(socket.SOL_UDP, _UDP_GRO, 1)
            coalescing = True
        except OSError:
            coalescing = False
        try:
            sender.setsockopt(socket.SOL_UDP, _UDP_SEGMENT, segment)
            sender.sendto(payload, receiver.getsockname())
            data, control, _flags, _from = receiver.recvmsg(1 << 16, 64)
        except OSError:
            return False, coalescing
        joined = [struct.unpack_from("=H", value)[0] for at, which, value in control if which == _UDP_GRO]
        return len(data) in (segment, len(payload)), coalescing and joined == [segment]


def _without_checksum() -> bool:
    try:
        with _pair(socket.AF_INET6) as (sender, receiver):
            sender.setsockopt(socket.SOL_UDP, _UDP_NO_CHECK6_TX, 1)
            receiver.setsockopt(socket.SOL_UDP, _UDP_NO_CHECK6_RX, 1)
            sender.sendto(b"none", receiver.getsockname())
            return receiver.recv(16) == b"none"
    except OSError:
        return False


def _label_arrives(label: int) -> bool:
    try:
        with _pair(socket.AF_INET6) as (sender, receiver):
            sender.setsockopt(socket.IPPROTO_IPV6, _IPV6_FLOWINFO_SEND, 1)
            sender.setsockopt(socket.IPPROTO_IPV6, _IPV6_AUTOFLOWLABEL, 0)
            receiver.setsockopt(socket.IPPROTO_IPV6, _IPV6_FLOWINFO, 1)
            address, port, *_rest = receiver.getsockname()
            sender.sendto(b"label", (address, port, label, 0))
            _data, control, _flags, _from = receiver.recvmsg(16, 64)
    except OSError:
        return False
    seen = [struct.unpack("!I", value)[0] & _LABEL_MASK for _at, kind, value in control if kind == _IPV6_FLOWINFO]
    return (seen or [0]) == [label]  # the kernel does not report a label of 0
