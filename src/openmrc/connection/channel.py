"""Lines of a handshake over TCP, bounded in bytes and time; concurrent handshakes do not block each other."""

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

from openmrc.config.host_port import host_port, split_host_port
from openmrc.config.json_lines import LineBuffer, LongLineError
from openmrc.errors import DeviceError, HandshakeError, PeerUnreachableError
from openmrc.forks import keep_from_children

from .handshake_messages import LINE_BYTES_MAX, M, Message, Refusal, parse

__all__ = [
    "Channel",
    "descriptor_error",
    "listening_socket",
    "new_runner",
    "off_loop",
    "open_channel",
]

_REFUSAL_CHARACTERS = 2000
_BACKLOG = 512
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
T = TypeVar("T")


class Channel:
    """Messages over a connected TCP socket, with a deadline for the whole exchange.

    Args:
        sock: Non-blocking until `established` returns it.
        peer_name: For messages.
        deadline: By the monotonic clock.
    """

    def __init__(self, sock: socket.socket, peer_name: str, deadline: float) -> None:
        self.socket = sock
        self.peer_name = peer_name
        self.deadline = deadline
        self._pending = LineBuffer(LINE_BYTES_MAX)
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
            raise HandshakeError(f"{self.peer_name} closed the connection while connecting: {error}") from error

    async def receive(self, model: type[M]) -> M:
        """The next line, which must be a message of `model`.

        Raises:
            HandshakeError: it is another or a malformed message, or a refusal with its reason, or it is late.
        """
        return parse(await self._line(), model, self.peer_name)

    def refuse(self, reason: str) -> None:
        """Sends the reason for refusing the connection, if the peer still reads, and closes."""
        line = Refusal(error=reason[:_REFUSAL_CHARACTERS]).model_dump_json().encode() + b"\n"
        with self.socket, suppress(OSError):
            self.socket.send(line)

    def established(self) -> socket.socket:
        """The socket, blocking again and without data read ahead; from now on it belongs to the link."""
        self.socket.setblocking(True)
        return self.socket

    async def _line(self) -> bytes:
        while (line := self._whole_line()) is None:
            try:
                data = self._receive_now()
            except OSError as error:
                raise HandshakeError(f"{self.peer_name} closed the connection while connecting: {error}") from error
            if data is None:
                await self._readable()
                continue
            if not data:
                raise HandshakeError(f"{self.peer_name} closed the connection while connecting")
            self._pending.add(data)
        return line

    def _whole_line(self) -> bytes | None:
        try:
            return self._pending.line()
        except LongLineError:
            raise HandshakeError(
                f"{self.peer_name} sent a line of more than {LINE_BYTES_MAX} bytes; is it an openmrc peer?"
            ) from None

    async def _readable(self) -> None:
        """Returns when the peer has sent data; cheaper than `sock_recv` within a timeout, which reads first."""
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
        """Pending data; None if there is none."""
        try:
            return self.socket.recv(4096)
        except BlockingIOError:
            return None

    def _late(self) -> HandshakeError:
        return HandshakeError(f"{self.peer_name} did not answer in time; is it an openmrc peer?")


def _settle(future: asyncio.Future[bool], result: bool) -> None:
    if not future.done():
        future.set_result(result)


def listening_socket(address: str) -> socket.socket:
    """A listening socket.

    Raises:
        ConfigError: the address is malformed.
        OSError: the address is in use or not of this machine.
    """
    host, port = split_host_port(address)
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
        PeerUnreachableError: no process listens there; the error names every address tried.
    """
    loop = asyncio.get_running_loop()
    started = time.monotonic()
    host, port = split_host_port(address)
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
            # On one host a connection is established at once, without an event loop.
            if sock.connect_ex(where) != 0:
                async with asyncio.timeout(max(0.05, deadline - time.monotonic())):
                    await loop.sock_connect(sock, where)
        except OSError as error:
            sock.close()
            words = os.strerror(error.errno) if error.errno else "no answer"  # asyncio's messages differ
            reasons.append(f"{where[0]!s}: {words}")
        except BaseException:
            sock.close()
            raise
        else:
            return Channel(sock, host_port(str(where[0]), where[1]), deadline)
    raise PeerUnreachableError(address, time.monotonic() - started, "; ".join(reasons))


@lru_cache(256)
def _numeric(host: str, port: int) -> tuple[int, Any] | None:
    """Family and address of a host given as a number, without the resolver, which is slow to start."""
    try:
        version = ip_address(host).version
    except ValueError:
        return None
    if "%" in host:
        return None  # the resolver supports interface numbers
    return (socket.AF_INET6 if version == 6 else socket.AF_INET), (host, port)


def _first_of(found: list[tuple[Any, ...]]) -> tuple[int, Any]:
    return found[0][0], found[0][4]


async def _resolve(host: str, port: int) -> list[tuple[int, Any]]:
    numeric = _numeric(host, port)
    if numeric is not None:
        return [numeric]
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, where) for family, _kind, _protocol, _name, where in found]


def new_runner() -> asyncio.Runner:
    """A runner whose loop does not become the thread's current one.

    With `poll`: a process that forks shares an epoll set with its child, and the first of the two to close its loop
    would remove the other's descriptors from it.
    """
    return asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.PollSelector()))


def off_loop(call: Callable[[], T]) -> T:
    """Result of a call that runs an event loop; in another thread if one runs in this thread already."""
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
        with suppress(OSError):  # listing needs a descriptor, too
            count = str(len(list(Path("/proc/self/fd").iterdir())))
        words += f": {count} descriptors are open, {limit} allowed; raise the limit with `ulimit -n`"
    return DeviceError(error.errno or 0, f"cannot take another TCP connection: {words}")
