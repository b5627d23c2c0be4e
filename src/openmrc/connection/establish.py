"""`connect` and `listen`: a connection between two processes with one call in each."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

from openmrc.config.host_port import own_host_port
from openmrc.errors import DeviceError, InvalidStateError
from openmrc.forks import Ownership, keep_from_children
from openmrc.verbs import Device, MemoryRegion

from .acceptor import Door
from .channel import Channel, listening_socket, new_runner, off_loop, open_channel
from .connection import Connection
from .handshake_messages import Hello
from .handshake_steps import accept_peer, free, request_peer
from .qp_end import End, offered_region
from .round_trip import RoundTrips
from .settings import QpSettings

__all__ = ["Listener", "connect", "connect_async", "listen"]


def connect(
    device: Device,
    address: str,
    *,
    region: Any = None,
    settings: QpSettings | None = None,
    timeout_s: float = 10.0,
) -> Connection:
    """A connection to a listening process.

    Args:
        device: The NIC to use.
        address: "HOST:PORT" on which the peer listens (TCP); any address of that host.
        region: Memory that the peer may write to: a memory region or any writable buffer. None: no memory.
        settings: Defaults suit most.
        timeout_s: For everything together.

    Raises:
        ConfigError: the address or a setting is wrong.
        DeviceError: every port of the device is down, or the process has no descriptor left.
        PeerUnreachableError: no process listens there; the error names the addresses tried.
        HandshakeError: the peer refuses, or the two have no common settings.
    """

    def whole() -> Connection:
        with new_runner() as runner:
            return runner.run(_connect(device, address, region, settings or QpSettings(), timeout_s))

    return off_loop(whole)


async def _connect(device: Device, address: str, region: Any, settings: QpSettings, timeout_s: float) -> Connection:
    end = End(device, region, settings)
    channel: Channel | None = None
    try:
        end.check_ports()
        channel = await open_channel(address, time.monotonic() + timeout_s)
        (link,) = await request_peer(end, channel, RoundTrips(device))
    except BaseException as error:
        free(end, channel, error)
        raise
    assert isinstance(link, Connection)
    link.watch()
    return link


async def connect_async(device: Device, address: str, **arguments: Any) -> Connection:
    """As `connect`, without blocking the event loop."""
    return await asyncio.to_thread(connect, device, address, **arguments)


class Listener:
    """Accepts connections; created by `listen`.

    Handshakes run while `accept` waits, concurrently and limited in number: a silent, slow or hostile client delays no
    other one.

    Attributes:
        address: "HOST:PORT" it listens on; with the actual port if 0 was requested.
    """

    def __init__(self, device: Device, sock: socket.socket, region: Any, settings: QpSettings) -> None:
        self.device = device
        self._socket = sock
        self._settings = settings
        self._accepted: WeakSet[Connection] = WeakSet()
        self._domain = device.open_context().alloc_pd()
        self._owned = region is not None and not isinstance(region, MemoryRegion)
        try:
            self.region = offered_region(self._domain, region)
        except BaseException:
            sock.close()
            raise
        self.address = own_host_port(sock)
        self.port = int(sock.getsockname()[1])
        self._runner = new_runner()
        self._loop = self._runner.get_loop()
        self._door = Door(sock, self._greet, self._note_change)
        self._accepting = threading.Lock()
        self._changed: asyncio.Event | None = None
        self._ready: deque[Connection] = deque()
        self._closed = False
        self._ownership = Ownership()
        keep_from_children(self)

    def _leave_to_parent(self) -> None:
        self._closed = True
        self._socket.close()
        with suppress(RuntimeError):  # another thread of the parent runs it
            self._loop.close()

    @property
    def rejected(self) -> list[str]:
        """Reasons why peers were turned away, newest last (at most 100 are kept)."""
        return list(self._door.rejected)

    @property
    def rejected_count(self) -> int:
        """Number of peers that were turned away."""
        return self._door.rejected_count

    def accept(self, timeout_s: float | None = None) -> Connection:
        """The next connection. A peer that is turned away gets the reason, which `rejected` keeps.

        Raises:
            TimeoutError: no peer connected within `timeout_s`.
            DeviceError: the process has no descriptor left for another connection.
            InvalidStateError: the listener is closed, or belongs to the process that this one was forked from.
        """
        self._ownership.check()
        late = f"no peer connected to {self.address} within {timeout_s} s"
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        if not self._accepting.acquire(timeout=-1 if timeout_s is None else timeout_s):
            raise TimeoutError(late)
        try:
            link = None if self._closed else off_loop(lambda: self._runner.run(self._next(deadline)))
        finally:
            self._accepting.release()
        if link is None and self._closed:
            msg = f"the listener at {self.address} is closed"
            raise InvalidStateError(msg)
        if link is None:
            raise TimeoutError(late)
        self._accepted.add(link)
        link.watch()
        return link

    async def accept_async(self, timeout_s: float | None = None) -> Connection:
        """As `accept`, without blocking the event loop."""
        return await asyncio.to_thread(self.accept, timeout_s)

    def close(self) -> None:
        """Stops listening; connections stay open, and the last of them releases the region registered here."""
        if self._closed:
            return
        self._closed = True
        if self._changed is not None:
            self._loop.call_soon_threadsafe(self._changed.set)  # `accept` may be waiting
        with self._accepting:
            off_loop(self._end)
        for link in list(self._accepted):
            link._after_close = self._release_region
        self._release_region()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    # --- inside

    def _release_region(self) -> None:
        if self._owned and self.region is not None and all(one.closed for one in self._accepted):
            self.region.close()

    async def _next(self, deadline: float | None) -> Connection | None:
        self._changed = asyncio.Event()
        self._door.failure = None
        self._door.open()
        try:
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            async with asyncio.timeout(left_s):
                while not self._ready and not self._closed:
                    if self._door.failure is not None:
                        raise self._door.failure
                    await self._changed.wait()
                    self._changed.clear()
        except TimeoutError:
            pass
        finally:
            self._door.shut()
        return self._ready.popleft() if self._ready else None

    async def _greet(self, channel: Channel, hello: Hello) -> None:
        end = End(self.device, self.region, self._settings)
        try:
            (link,) = await accept_peer(end, hello, channel)
        except BaseException:
            end.abandon()
            raise
        assert isinstance(link, Connection)
        self._ready.append(link)

    def _note_change(self) -> None:
        if self._changed is not None:
            self._changed.set()

    def _end(self) -> None:
        self._runner.run(self._door.end())
        self._runner.close()
        self._socket.close()
        for link in self._ready:
            link.watch()
            link.close()


def listen(
    device: Device,
    address: str = "0.0.0.0:0",
    *,
    region: Any = None,
    settings: QpSettings | None = None,
) -> Listener:
    """Listens for peers on a TCP address.

    Args:
        device: The NIC to use.
        address: "HOST:PORT"; port 0 selects a free one, see `Listener.address`.
        region: Memory that peers may write to: a memory region or any writable buffer. None: no memory.
        settings: Defaults suit most.

    Raises:
        ConfigError: the address is wrong.
        DeviceError: the address is in use or not of this machine.
    """
    try:
        sock = listening_socket(address)
    except OSError as error:
        if isinstance(error, DeviceError):
            raise
        raise DeviceError(error.errno or 0, f"cannot listen on {address}: {error.strerror}") from error
    return Listener(device, sock, region, settings or QpSettings())
