"""Netlink messages: headers, attributes, dumps."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

__all__ = [
    "ACK",
    "CREATE",
    "DONE",
    "DUMP",
    "ERROR",
    "EXCL",
    "HEADER",
    "REPLACE",
    "REQUEST",
    "Received",
    "attribute",
    "attributes",
    "dump",
    "encoded",
    "error_number",
    "messages",
]

REQUEST, ACK = 0x1, 0x4
DUMP = 0x300
REPLACE, EXCL, CREATE = 0x100, 0x200, 0x400
ERROR, DONE = 2, 3
HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port id
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_TYPE_MASK = 0x3FFF
_NUMBER = struct.Struct("=i")
_ANSWER_BYTES = 1 << 18


class Received(NamedTuple):
    """A message without its header: type, sequence number, the bytes behind the header."""

    kind: int
    sequence: int
    body: bytes


def encoded(kind: int, flags: int, body: bytes, sequence: int = 1) -> bytes:
    """A message for the kernel, header and body."""
    return HEADER.pack(HEADER.size + len(body), kind, flags, sequence, 0) + body


def messages(data: bytes) -> Iterator[Received]:
    """The messages in received bytes; malformed ones end the iteration."""
    at = 0
    while at + HEADER.size <= len(data):
        length, kind, _flags, sequence, _port = HEADER.unpack_from(data, at)
        if length < HEADER.size:
            return
        yield Received(kind, sequence, data[at + HEADER.size : at + length])
        at += length + 3 & ~3


def attribute(kind: int, value: bytes) -> bytes:
    """An attribute with its padding."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)


def attributes(data: bytes, at: int = 0) -> dict[int, bytes]:
    """Values of the attributes from this offset on, undecoded, by type without the flags of the type."""
    found: dict[int, bytes] = {}
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            break
        found[kind & _TYPE_MASK] = data[at + _ATTRIBUTE.size : at + length]
        at += length + 3 & ~3
    return found


def error_number(body: bytes) -> int:
    """Errno in the body of an ERROR message; 0 acknowledges a request."""
    return -int(_NUMBER.unpack_from(body)[0])


def dump(asked: socket.socket, kind: int, body: bytes) -> bytes:
    """Answer to a dump request: messages with their headers, and the one that ends them.

    Args:
        asked: Netlink socket, bound.
        kind: Type of the request, such as RTM_GETLINK.
        body: Body of the request.

    Raises:
        OSError: the kernel refuses.
    """
    asked.send(encoded(kind, REQUEST | DUMP, body))
    answer = bytearray()
    while True:
        part = asked.recv(_ANSWER_BYTES)
        answer += part
        received = list(messages(part))
        for one in received:
            if one.kind == ERROR:
                number = error_number(one.body)
                raise OSError(number, os.strerror(number))
        if not received or any(one.kind == DONE for one in received):
            return bytes(answer)
