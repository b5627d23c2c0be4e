"""Acceptance of TCP clients and their concurrent handshakes, limited in number."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

from openmrc.config.host_port import host_port
from openmrc.errors import DeviceError, OpenmrcError

from .channel import Channel, descriptor_error
from .handshake_messages import Hello

__all__ = ["HANDSHAKE_S", "PENDING_MAX", "Door"]

HANDSHAKE_S = 10.0
PENDING_MAX = 64
_REJECTED_MAX = 100
_ROUND_MAX = 16  # clients accepted before running handshakes get their turn

Greet = Callable[[Channel, Hello], Awaitable[None]]


class Door:
    """Clients of one listening socket. A silent, slow or hostile client delays no other one.

    At most `pending_max` handshakes run at a time. A further client replaces the oldest one that has not introduced
    itself; if all have, it is turned away.

    Args:
        sock: Listening and non-blocking. The caller closes it.
        greet: Runs the rest of a handshake after the client's first line; raises an OpenmrcError to refuse.
        changed: Called after every greeted client, and when `failure` is set.
        pending_max: Handshakes at a time.
    """

    def __init__(
        self, sock: socket.socket, greet: Greet, changed: Callable[[], None], pending_max: int = PENDING_MAX
    ) -> None:
        self._socket = sock
        self._greet = greet
        self._changed = changed
        self._pending_max = pending_max
        self._pending: dict[asyncio.Task[None], bool] = {}  # by age; True once the client has introduced itself
        self._loop: asyncio.AbstractEventLoop | None = None
        self.rejected: deque[str] = deque(maxlen=_REJECTED_MAX)
        self.rejected_count = 0
        self._end_reason: str | None = None
        self.failure: DeviceError | None = None
        """Reason for not accepting clients, if any."""

    def open(self) -> None:
        """Accepts clients while the running loop runs."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._take)

    def shut(self) -> None:
        """Accepts no more clients; running handshakes continue."""
        if self._loop is not None:
            self._loop.remove_reader(self._socket)

    async def end(self, reason: str | None = None) -> None:
        """Accepts no more clients and ends running handshakes.

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
            name = host_port(str(source[0]), source[1])
            if not self._make_room():
                self._reject(name, f"{self._pending_max} handshakes are under way already")
                sock.close()
                continue
            channel = Channel(sock, name, time.monotonic() + HANDSHAKE_S)
            task = asyncio.get_running_loop().create_task(self._serve(channel))
            task.add_done_callback(partial(self._refuse_cancelled, channel))
            self._pending[task] = False

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
            raise
        except BaseException:
            channel.socket.close()
            raise
        finally:
            self._pending.pop(task, None)
            self._changed()

    def _refuse_cancelled(self, channel: Channel, task: asyncio.Task[None]) -> None:
        # Not in the task itself: none of its lines runs if it is cancelled before its first step.
        if not task.cancelled():
            return
        if self._end_reason is None:
            self._reject(channel.peer_name, "it sent no data, and another client needed its slot")
        channel.refuse(self._end_reason or "too many clients are connected, and this one sent no data")

    def _reject(self, name: str, why: str) -> None:
        self.rejected_count += 1
        self.rejected.append(why if why.startswith(name) else f"{name}: {why}")
