"""Batches of rtnetlink messages: many changes of one namespace in one system call, each acknowledged.

pyroute2 encodes the messages; its own sockets would need a process per namespace and a turn per message.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from openmrc.linux import netlink
from openmrc.testbed import namespaces
from openmrc.testbed.errors import TestBedError

__all__ = ["ADD", "REPLACE", "SRV6_HINT", "Message", "Netlink", "refusal"]

SRV6_HINT = "it needs CONFIG_IPV6_SEG6_LWTUNNEL and Linux 6.1 or newer"
ADD = netlink.REQUEST | netlink.ACK | netlink.EXCL | netlink.CREATE
REPLACE = netlink.REQUEST | netlink.ACK | netlink.REPLACE | netlink.CREATE
_BATCH_MESSAGES = 64  # their answers fit the socket's buffer
_ANSWER_BYTES = 1 << 18


@dataclass(slots=True)
class Message:
    """One change: `kind` is RTM_*, `body` a message of pyroute2 with its fields set, `what` its description."""

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
        """Makes the changes, in order.

        Raises:
            TestBedError: the kernel refused one; the text has the change and the reason.
        """
        for first in range(0, len(messages), _BATCH_MESSAGES):
            batch = messages[first : first + _BATCH_MESSAGES]
            self._socket.send(b"".join(message.encode(number) for number, message in enumerate(batch)))
            left = len(batch)
            while left:
                for kind, sequence, body in self._receive():
                    code = netlink.error_number(body) if kind == netlink.ERROR else 0
                    if code:
                        raise refusal(self.namespace, batch[sequence], code)
                    left -= 1

    def dump(self, kind: int, body: Any) -> list[bytes]:
        """All objects of a kind, as messages with their headers."""
        self._socket.send(Message(kind, body, "", netlink.REQUEST | netlink.DUMP).encode(0))
        found: list[bytes] = []
        while True:
            for answer, _, content in self._receive():
                if answer == netlink.DONE:
                    return found
                if answer == netlink.ERROR:
                    code = netlink.error_number(content)
                    raise TestBedError(f"{self.namespace} cannot be read: {os.strerror(code)}")
                found.append(netlink.encoded(answer, 0, content, 0))

    def _receive(self) -> Iterator[netlink.Received]:
        return netlink.messages(self._socket.recv(_ANSWER_BYTES))

    def close(self) -> None:
        """Closes the socket. Idempotent."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def refusal(namespace: str, message: Message, code: int) -> TestBedError:
    """The kernel's answer in words, with a remedy."""
    answer = os.strerror(code)
    if code == errno.EPERM:
        return TestBedError(f"{namespace}: {message.what} is not allowed", "run it as root")
    if "uSID" in message.what and code in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOENT):
        return TestBedError(f"this kernel has no SRv6 with next-csid: {message.what}: {answer}", SRV6_HINT)
    if "rate" in message.what and code in (errno.ENOENT, errno.EOPNOTSUPP):
        return TestBedError(f"this kernel has no tbf queue: {message.what}: {answer}", "modprobe sch_tbf")
    return TestBedError(f"{namespace}: {message.what} was refused: {answer}")
