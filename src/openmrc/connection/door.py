"""Takes TCP clients and runs their handshakes side by side, a bounded number at a time."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable

from openmrc.errors import DeviceError, OpenmrcError

from .channel import Channel, bracketed, descriptor_error
from .handshake import Hello

__all__ = ["HANDSHAKE_S", "PENDING_MAX", "Door"]

HANDSHAKE_S = 10.0
PENDING_MAX = 64
_REJECTED_MAX = 100
_ROUND_MAX = 16  # clients taken before the handshakes that run have their turn

Greet = Callable[[Channel, Hello], Awaitable[None]]


class Door:
    """Clients of one listening socket. A client that is silent, slow or hostile delays nobody.

    At most `pending_max` handshakes run at a time. One more client takes the place of the oldest that has not
    introduced itself; if all have, it is turned away.

    Args:
        sock: Listens, and does not block. The caller closes it.
        greet: Does the rest of a handshake after the client's first line; raises an OpenmrcError to refuse.
        changed: Called after every client that was greeted, and when `failure` is set.
        pending_max: Handshakes at a time.
    """

    def __init__(
        self, sock: socket.socket, greet: Greet, changed: Callable[[], None], pending_max: int = PENDING_MAX
    ) -> None:
        self._socket = sock
        self._greet = greet
        self._changed = changed
        self._pending_max = pending_max
        self._pending: dict[asyncio.Task[None], bool] = {}  # by age; whether the client has introduced itself
        self._loop: asyncio.AbstractEventLoop | None = None
        self.rejected: deque[str] = deque(maxlen=_REJECTED_MAX)
        self.rejected_count = 0
        self._end_reason: str | None = None
        self.failure: DeviceError | None = None
        """Why no client can be taken."""

    def open(self) -> None:
        """Takes clients while the running loop runs."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._take)

    def shut(self) -> None:
        """Takes no more clients; handshakes under way go on."""
        if self._loop is not None:
            self._loop.remove_reader(self._socket)

    async def end(self, reason: str | None = None) -> None:
        """Takes no more clients and ends the handshakes under way.

        Args:
            reason: For the clients.
        """
        self.shut()
        self._end_reason = reason or "it does not accept connections any more"
        pending = list(self._pending)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    def _take(self) -> None:
        for _ in range(_ROUND_MAX):
            try:
                sock, source = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self.failure = descriptor_error(error)
                self.shut()
                self._changed()
                return
            name = f"{bracketed(str(source[0]))}:{source[1]}"
            if not self._make_room():
                self._reject(name, f"{self._pending_max} handshakes are under way already")
                sock.close()
                continue
            channel = Channel(sock, name, time.monotonic() + HANDSHAKE_S)
            self._pending[asyncio.get_running_loop().create_task(self._serve(channel))] = False

    def _make_room(self) -> bool:
        if len(self._pending) < self._pending_max:
            return True
        silent = next((task for task, introduced in self._pending.items() if not introduced), None)
        if silent is None:
            return False
        del self._pending[silent]
        silent.cancel()
        return True

    async def _serve(self, channel: Channel) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            hello = await channel.receive(Hello)
            if task in self._pending:
                self._pending[task] = True
            await self._greet(channel, hello)
        except OpenmrcError as error:
            self._reject(channel.peer_name, str(error))
            channel.refuse(str(error))
        except asyncio.CancelledError:
            if self._end_reason is None:
                self._reject(channel.peer_name, "it sent nothing, and its place went to another client")
            channel.refuse(self._end_reason or "there are too many clients, and this one sent nothing")
            raise
        except BaseException:
            channel.socket.close()
            raise
        finally:
            self._pending.pop(task, None)
            self._changed()

    def _reject(self, name: str, why: str) -> None:
        self.rejected_count += 1
        self.rejected.append(why if why.startswith(name) else f"{name}: {why}")
