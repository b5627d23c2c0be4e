"""Lines of a handshake over TCP, bounded in bytes and time, without blocking the handshakes beside it."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import selectors
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar

from openmrc.errors import ConfigError, DeviceError, HandshakeError, PeerUnreachableError
from openmrc.forks import keep_from_children

from .handshake import LINE_BYTES_MAX, M, Message, Refusal, parse

__all__ = [
    "Channel",
    "address_of",
    "bracketed",
    "descriptor_error",
    "listening_socket",
    "new_runner",
    "off_loop",
    "open_channel",
    "split_address",
]

_REFUSAL_CHARACTERS = 2000
_BACKLOG = 512
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
T = TypeVar("T")


class Channel:
    """Messages over a connected TCP socket, with a deadline for the whole exchange.

    Args:
        sock: Becomes non-blocking until `established`.
        peer_name: For messages.
        deadline: By the monotonic clock.
    """

    def __init__(self, sock: socket.socket, peer_name: str, deadline: float) -> None:
        self.socket = sock
        self.peer_name = peer_name
        self.deadline = deadline
        self._pending = bytearray()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_from_children(self)

    def _leave_to_parent(self) -> None:
        self.socket.close()

    @property
    def left_s(self) -> float:
        """Time until the deadline."""
        return max(0.0, self.deadline - time.monotonic())

    async def send(self, message: Message) -> None:
        """Sends one line.

        Raises:
            HandshakeError: the peer has gone or does not read.
        """
        line = message.model_dump_json().encode() + b"\n"
        try:
            line = line[self._send_now(line) :]
            if not line:
                return
            async with asyncio.timeout(self.left_s):
                await asyncio.get_running_loop().sock_sendall(self.socket, line)
        except TimeoutError:
            raise self._late() from None
        except OSError as error:
            raise HandshakeError(f"{self.peer_name} went away while connecting: {error}") from error

    async def receive(self, model: type[M]) -> M:
        """The next line, which must be a message of `model`.

        Raises:
            HandshakeError: it is not, it is malformed, it gives the reason of a refusal, or it does not come in time.
        """
        return parse(await self._line(), model, self.peer_name)

    def refuse(self, reason: str) -> None:
        """Sends the reason why there will be no connection, if the peer is there and reads, and closes."""
        line = Refusal(error=reason[:_REFUSAL_CHARACTERS]).model_dump_json().encode() + b"\n"
        with self.socket, suppress(OSError):
            self.socket.send(line)

    def established(self) -> socket.socket:
        """The socket, blocking again and without data read ahead: it belongs to the link from now on."""
        self.socket.setblocking(True)
        return self.socket

    async def _line(self) -> bytes:
        while (end := self._pending.find(b"\n")) < 0:
            if len(self._pending) > LINE_BYTES_MAX:
                raise HandshakeError(
                    f"{self.peer_name} sent a line of more than {LINE_BYTES_MAX} bytes; is it an openmrc peer?"
                )
            try:
                data = self._receive_now()
            except OSError as error:
                raise HandshakeError(f"{self.peer_name} went away while connecting: {error}") from error
            if data is None:
                await self._readable()
                continue
            if not data:
                raise HandshakeError(f"{self.peer_name} closed the connection while connecting")
            self._pending += data
        line = bytes(self._pending[:end])
        del self._pending[: end + 1]
        return line

    async def _readable(self) -> None:
        """Returns when the peer has sent something; cheaper than `sock_recv` within a timeout, which reads first."""
        loop = asyncio.get_running_loop()
        arrived: asyncio.Future[bool] = loop.create_future()
        number = self.socket.fileno()
        loop.add_reader(number, _settle, arrived, True)
        timer = loop.call_later(self.left_s, _settle, arrived, False)
        try:
            if not await arrived:
                raise self._late()
        finally:
            timer.cancel()
            loop.remove_reader(number)

    def _send_now(self, line: bytes) -> int:
        try:
            return self.socket.send(line)
        except BlockingIOError:
            return 0

    def _receive_now(self) -> bytes | None:
        """What is there; None: nothing."""
        try:
            return self.socket.recv(4096)
        except BlockingIOError:
            return None

    def _late(self) -> HandshakeError:
        return HandshakeError(f"{self.peer_name} did not answer in time; is it an openmrc peer?")


def _settle(future: asyncio.Future[bool], result: bool) -> None:
    if not future.done():
        future.set_result(result)


@lru_cache(256)
def split_address(address: str) -> tuple[str, int]:
    """Host and port.

    Raises:
        ConfigError: it is not "HOST:PORT".
    """
    host, separator, port = address.rpartition(":")
    if not separator or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ConfigError("address", address, '"HOST:PORT", such as 192.0.2.1:7777 or [::1]:7777')
    return host.strip("[]"), int(port)


def address_of(sock: socket.socket) -> str:
    """Address that a socket listens on, as "HOST:PORT"."""
    host, port = sock.getsockname()[:2]
    return f"{bracketed(host)}:{port}"


def listening_socket(address: str) -> socket.socket:
    """A socket that listens.

    Raises:
        ConfigError: the address is malformed.
        OSError: it is in use or not of this machine.
    """
    host, port = split_address(address)
    family, where = _numeric(host, port) or _first_of(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


async def open_channel(address: str, deadline: float) -> Channel:
    """A channel to a listener.

    Raises:
        ConfigError: the address is malformed.
        PeerUnreachableError: nobody listens there; it names every address tried.
    """
    loop = asyncio.get_running_loop()
    started = time.monotonic()
    host, port = split_address(address)
    try:
        found = await _resolve(host, port)
    except OSError as error:
        raise PeerUnreachableError(address, time.monotonic() - started, error.strerror or str(error)) from error
    reasons = []
    for family, where in found:
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            raise descriptor_error(error) from error
        try:
            sock.setblocking(False)
            # On one host a connection is there at once, without an event loop.
            if sock.connect_ex(where) != 0:
                async with asyncio.timeout(max(0.05, deadline - time.monotonic())):
                    await loop.sock_connect(sock, where)
        except OSError as error:
            sock.close()
            words = os.strerror(error.errno) if error.errno else "no answer"  # asyncio has words of its own
            reasons.append(f"{where[0]!s}: {words}")
        except BaseException:
            sock.close()
            raise
        else:
            return Channel(sock, f"{bracketed(str(where[0]))}:{where[1]}", deadline)
    raise PeerUnreachableError(address, time.monotonic() - started, "; ".join(reasons))


@lru_cache(256)
def _numeric(host: str, port: int) -> tuple[int, Any] | None:
    """Family and address of a host that needs no resolver, which is slow to start."""
    try:
        version = ip_address(host).version
    except ValueError:
        return None
    if "%" in host:
        return None  # the resolver knows numbers of interfaces
    return (socket.AF_INET6 if version == 6 else socket.AF_INET), (host, port)


def _first_of(found: list[tuple[Any, ...]]) -> tuple[int, Any]:
    return found[0][0], found[0][4]


async def _resolve(host: str, port: int) -> list[tuple[int, Any]]:
    numeric = _numeric(host, port)
    if numeric is not None:
        return [numeric]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, where) for family, _kind, _protocol, _name, where in found]


def bracketed(host: str) -> str:
    """A host as it stands before a port."""
    return f"[{host}]" if ":" in host else host


def new_runner() -> asyncio.Runner:
    """A runner whose loop does not become the thread's current one.

    With `poll`: a process that forks shares an epoll set with its child, and whichever closes its loop takes the
    other's descriptors out of it.
    """
    return asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.PollSelector()))


def off_loop(call: Callable[[], T]) -> T:
    """Result of a call that runs an event loop; where one runs in this thread already, from another thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call()
    with ThreadPoolExecutor(1, thread_name_prefix="openmrc-connect") as pool:
        return pool.submit(call).result()


def descriptor_error(error: OSError) -> DeviceError:
    """An error of `accept` or `socket` in words, with the limit that was reached."""
    words = error.strerror or str(error)
    if error.errno in _NO_ROOM:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        count = "?"
        with suppress(OSError):  # listing takes a descriptor, too
            count = str(len(list(Path("/proc/self/fd").iterdir())))
        words += f": {count} descriptors are open, {limit} allowed; raise the limit with `ulimit -n`"
    return DeviceError(error.errno or 0, f"cannot take another TCP connection: {words}")
