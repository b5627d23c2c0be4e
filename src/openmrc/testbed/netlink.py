"""Batches of rtnetlink messages: many changes of one namespace in one system call, each acknowledged.

pyroute2 encodes the messages; its own sockets would need a process per namespace and a turn per message.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from openmrc.testbed import namespaces
from openmrc.testbed.errors import TestBedError

__all__ = ["ADD", "REPLACE", "SRV6_HINT", "Message", "Netlink", "attributes", "refusal"]

SRV6_HINT = "it needs CONFIG_IPV6_SEG6_LWTUNNEL and Linux 6.1 or newer"
_REQUEST, _ACK, _REPLACE, _EXCL, _CREATE, _DUMP = 1, 4, 0x100, 0x200, 0x400, 0x300
ADD = _REQUEST | _ACK | _EXCL | _CREATE
REPLACE = _REQUEST | _ACK | _REPLACE | _CREATE
_HEADER = struct.Struct("=IHHII")
_ERROR, _DONE = 2, 3
_BATCH_MESSAGES = 64  # their answers fit the socket's buffer
_ANSWER_BYTES = 1 << 18


@dataclass(slots=True)
class Message:
    """One change: `kind` is RTM_*, `body` a message of pyroute2 with its fields set, `what` says it in words."""

    kind: int
    body: Any
    what: str
    flags: int = ADD

    def encode(self, sequence: int) -> bytes:
        self.body["header"] = {"type": self.kind, "flags": self.flags, "sequence_number": sequence, "pid": 0}
        self.body.encode()
        return bytes(self.body.data)


class Netlink:
    """A socket of one namespace. As a context manager it is closed at the end.

    Raises:
        TestBedError: there is no such namespace.
    """

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        with namespaces.inside(namespace):
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._socket.bind((0, 0))

    def change(self, messages: Sequence[Message]) -> None:
        """Make the changes, in order.

        Raises:
            TestBedError: the kernel refused one; the text says which and why.
        """
        for first in range(0, len(messages), _BATCH_MESSAGES):
            batch = messages[first : first + _BATCH_MESSAGES]
            self._socket.send(b"".join(message.encode(number) for number, message in enumerate(batch)))
            left = len(batch)
            while left:
                for kind, sequence, body in self._receive():
                    code = -struct.unpack_from("=i", body)[0] if kind == _ERROR else 0
                    if code:
                        raise refusal(self.namespace, batch[sequence], code)
                    left -= 1

    def dump(self, kind: int, body: Any) -> list[bytes]:
        """All objects of a kind, as messages with their headers."""
        self._socket.send(Message(kind, body, "", _REQUEST | _DUMP).encode(0))
        found: list[bytes] = []
        while True:
            for answer, _, content in self._receive():
                if answer == _DONE:
                    return found
                if answer == _ERROR:
                    code = -struct.unpack_from("=i", content)[0]
                    raise TestBedError(f"{self.namespace} cannot be read: {os.strerror(code)}")
                found.append(_HEADER.pack(len(content) + _HEADER.size, answer, 0, 0, 0) + content)

    def _receive(self) -> Iterator[tuple[int, int, bytes]]:
        data = self._socket.recv(_ANSWER_BYTES)
        at = 0
        while at < len(data):
            length, kind, _, sequence, _ = _HEADER.unpack_from(data, at)
            yield kind, sequence, data[at + _HEADER.size : at + length]
            at += (length + 3) & ~3

    def close(self) -> None:
        """Close the socket; twice does no harm."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def attributes(data: bytes, at: int) -> dict[int, bytes]:
    """The attributes of a message from this offset on, undecoded."""
    found = {}
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        found[kind & 0x3FFF] = data[at + 4 : at + length]
        at += (length + 3) & ~3
    return found


def refusal(namespace: str, message: Message, code: int) -> TestBedError:
    """What the kernel's answer means, and what helps."""
    answer = os.strerror(code)
    if code == errno.EPERM:
        return TestBedError(f"{namespace}: {message.what} is not allowed", "run it as root")
    if "uSID" in message.what and code in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOENT):
        return TestBedError(f"this kernel has no SRv6 with next-csid: {message.what}: {answer}", SRV6_HINT)
    if "rate" in message.what and code in (errno.ENOENT, errno.EOPNOTSUPP):
        return TestBedError(f"this kernel has no tbf queue: {message.what}: {answer}", "modprobe sch_tbf")
    return TestBedError(f"{namespace}: {message.what} was refused: {answer}")
