"""A connection between two processes: writes into the other's memory, receives immediates, detects its death."""

from __future__ import annotations

import atexit
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, NamedTuple, Self
from weakref import WeakSet

from openmrc.errors import ConfigError, InvalidStateError, NotFoundError, QueueFullError, WorkError
from openmrc.forks import Ownership, keep_from_children
from openmrc.verbs import (
    Access,
    CompletionQueue,
    Device,
    MemoryRegion,
    ProtectionDomain,
    QpState,
    QueuePair,
    SendWr,
    Transport,
    WcStatus,
    WorkCompletion,
)
from openmrc.verbs.device import Outage
from openmrc.verbs.event_stream import PeerLost
from openmrc.verbs.snapshots import QueuePairStatistics

from .completions import Completions
from .liveness import Evidence, Loss, PeerWatch, Watched, closing_words

__all__ = ["Connection", "Immediate", "QpLink", "RemoteRegion", "WriteHandle"]

_CLOSED = Loss("it closed the connection")
_PROGRAM_ENDED = Loss("its program ended without closing the connection")
_LAST_ACKNOWLEDGEMENTS_S = 0.1

_EXPLAIN = {
    WcStatus.LOC_PROT_ERR: "the local memory region was released",
    WcStatus.WR_FLUSH_ERR: "flushed, because the connection failed or closed before",
    WcStatus.REM_INV_REQ_ERR: "the peer refused the request",
    WcStatus.REM_ACCESS_ERR: "the peer refused access: wrong key, outside the region, or not writable",
    WcStatus.REM_OP_ERR: "the peer failed: no receive posted, or its completion queue overran",
    WcStatus.RETRY_EXC_ERR: "the peer did not answer on any path until the retries ran out",
}


@dataclass(frozen=True, slots=True)
class RemoteRegion:
    """Memory of the peer to which this side may write."""

    address: int
    rkey: int
    length_bytes: int


class Immediate(NamedTuple):
    """A write with immediate has arrived, and with it all earlier writes of the peer."""

    immediate: int
    bytes: int


class WriteHandle:
    """One write in progress."""

    def __init__(self, connection: Connection, wr_id: int, owned: MemoryRegion | None) -> None:
        self._connection = connection
        self._owned = owned
        self._status: WcStatus | None = None
        self.wr_id = wr_id

    @property
    def done(self) -> bool:
        """True once the write has completed, with or without success."""
        if self._status is None:
            self._connection._sends.poll()
        return self._status is not None

    @property
    def error(self) -> WorkError | None:
        """Error of a failed write, or None."""
        if self._status is None or self._status is WcStatus.SUCCESS:
            return None
        return self._connection._failure(self._status)

    def wait(self, timeout_s: float | None = None) -> None:
        """Returns when the data is in the peer's memory and acknowledged.

        Raises:
            WorkError: the write failed; `.status` is the reason.
            TimeoutError: `timeout_s` has passed; the write continues.
        """
        if not self._connection._sends.wait_until(lambda: self._status is not None, timeout_s):
            self._connection._raise_not_done(timeout_s)
        if self.error is not None:
            raise self.error

    async def wait_async(self) -> None:
        """As `wait`, from an event loop."""
        await self._connection._sends.wait_until_async(lambda: self._status is not None)
        if self._status is None:
            self._connection._raise_not_done(None)
        if self.error is not None:
            raise self.error

    def _finish(self, status: WcStatus) -> None:
        self._status = status
        if self._owned is not None:
            self._owned.close()


class QpLink(Watched):
    """A QP in RTS whose other end is watched: part of a connection, or a whole one if its queues are shared.

    Attributes:
        silence_max_s: The peer counts as gone after this long without an answer on any plane; None: never. By default
            as long as the QP retries, and at least 10 s.
        remote: The peer's region, or None if it offered none.
        region: Region that this side offered.
        peer_name: Address of the peer's TCP end.

    Args:
        sock: TCP connection to the peer; None: another link to the same peer owns it.
    """

    def __init__(
        self,
        *,
        device: Device,
        domain: ProtectionDomain,
        qp: QueuePair,
        sock: socket.socket | None,
        peer_name: str,
        remote: RemoteRegion | None,
        region: MemoryRegion | None,
        owns_region: bool,
        agreed: dict[str, Any],
        silence_max_s: float | None = None,
    ) -> None:
        self.device = device
        self.qp = qp
        self.silence_max_s = silence_max_s
        self._base_rtt_s = agreed["base_rtt_ns"] / 1e9
        self.remote = remote
        self.region = region
        self.peer_name = peer_name
        self.agreed = agreed
        """Negotiated values: payload_mtu, base_rtt_ns, rate_bps, max_window_bytes, icrc (packets carry one)."""
        self._domain = domain
        self._owns_region = owns_region
        self._attach(sock)
        self._closed = False
        self._lost_callback: Callable[[Loss], None] | None = None
        self._after_close: Callable[[], None] = _nothing
        self.peer_lost: str | None = None
        """Reason for the loss of the peer; None while it is present."""
        self._ownership = Ownership()
        _open.add(self)
        keep_from_children(self)

    def watch(self, lost: Callable[[Loss], None] | None = None) -> None:
        """Watches the peer from now on; `lost` is called with the reason when it goes, from a thread."""
        self._lost_callback = lost
        _watch.add(self)

    # --- what it is

    @property
    def transport(self) -> Transport:
        """MRC or RC, as agreed."""
        return self.qp.transport

    @property
    def closed(self) -> bool:
        """True after `close`, and in a process forked from the one that created the connection."""
        return self._closed

    def statistics(self) -> QueuePairStatistics:
        """Counters of the QP."""
        return self.qp.statistics()

    # --- end

    def close(self, words: Loss = _CLOSED) -> None:
        """Ends the connection; unfinished writes are abandoned. Idempotent.

        Args:
            words: The reason, for the peer.
        """
        if self._closed:
            return
        self._closed = True
        _open.discard(self)
        if self._socket is not None:
            with suppress(OSError):  # the peer closed first, or TCP is gone
                self._socket.send(closing_words(words), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        _watch.remove(self)
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
        if not self.device.closed and self.qp.state is not QpState.ERR:
            self.qp.modify(QpState.ERR)
        self._drain()
        profiles = (self.qp.ev_profile, self.qp.cc_profile)
        self.qp.close()
        self._close_queues()
        for profile in profiles:
            if profile is not None and not profile.in_use:  # the other lanes to the peer may still use it
                self.device.controller.destroy(profile)
        if self._owns_region and self.region is not None:
            self.region.close()
        self._after_close()

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<{name} to {self.peer_name} {self.transport.name}{' closed' if self._closed else ''}>"

    # --- inside

    def _drain(self) -> None:
        """Fetches flushed completions of this QP; shared queues are read by their owner."""

    def _close_queues(self) -> None:
        """Closes the QP's own queues, but not shared ones."""

    def _peer_lost(self, loss: Loss) -> None:
        if self._closed:
            return
        outage = None if loss.goodbye else self.device.outage()  # silence is then no evidence of the peer's death
        if outage is not None:
            loss = replace(loss, reason=f"{loss.reason}; nothing leaves this side: {outage.reason}")
        self.peer_lost = loss.reason
        if self._lost_callback is not None:
            self._lost_callback(loss)
        if not self.device.closed:
            event = PeerLost(time_ns=time.monotonic_ns(), qp=self.qp.qp_num, address=self.peer_name, reason=loss.reason)
            self.device._hub.publish([event])
            if loss.evidence is Evidence.WORDS:
                self._await_last_acknowledgements()
            self._flush_after_loss()

    def _leave_to_parent(self) -> None:
        self._closed = True
        _open.discard(self)
        if self._socket is not None:
            self._socket.close()

    def _await_last_acknowledgements(self) -> None:
        """The words may overtake acknowledgements of writes that the peer has received: TCP and the QP are separate."""
        deadline = time.monotonic() + _LAST_ACKNOWLEDGEMENTS_S
        with suppress(InvalidStateError, NotFoundError):  # closed concurrently
            while self.qp.statistics().sends_outstanding > 0 and time.monotonic() < deadline:
                time.sleep(0.001)

    def _flush_after_loss(self) -> None:
        try:
            if self.qp.state is not QpState.ERR:
                self.qp.modify(QpState.ERR)
        except (InvalidStateError, NotFoundError):
            return  # closed concurrently


class Connection(QpLink):
    """A connection with both QPs in RTS; created by `openmrc.connect` and by a listener's `accept`.

    Attributes:
        remote: The peer's region, or None if it offered none.
        region: Region that this side offered.
        transport: MRC or RC, as agreed.
        peer_name: Address of the peer's TCP end.
    """

    def __init__(self, *, recv_wr_max: int, **link: Any) -> None:
        super().__init__(**link)
        self._handles: dict[int, WriteHandle] = {}
        self._next_id = 1
        self._posting = threading.Lock()
        self._outage: Outage | None = None
        self._received: deque[Immediate | WcStatus] = deque()
        self._sends = Completions(self.qp.send_cq, self._send_done)
        self._recvs = Completions(self.qp.recv_cq, self._recv_done)
        for _ in range(recv_wr_max):
            self.qp.post_recv()

    # --- writing

    def register(self, buffer: Any) -> MemoryRegion:
        """Registers memory as a source of writes, cheaper than passing the buffer to every `write`. Peers cannot write
        to it.
        """
        return self._domain.register(buffer, Access.LOCAL_READ)

    def write(
        self,
        local: Any,
        remote_offset: int = 0,
        *,
        imm: int | None = None,
        local_offset: int = 0,
        length_bytes: int | None = None,
    ) -> WriteHandle:
        """Starts a write into the peer's region and returns at once, unless `send_wr_max` writes are outstanding.

        Args:
            local: Memory region of this connection, or any writable buffer (registered until the write completes).
                Do not change it before the handle is done.
            remote_offset: First byte in the peer's region.
            imm: 32 bits that the peer's `recv_imm` returns once this and all earlier writes have arrived.
            local_offset: First byte in `local`.
            length_bytes: None: up to the end of `local`.

        Raises:
            ConfigError: the peer offered no region, or the write does not fit it.
            InvalidStateError: the connection is closed or broken.
        """
        wr, handle = self._prepare(local, remote_offset, imm, local_offset, length_bytes)
        while not self._post(wr, handle):
            self._sends.wait_until(lambda: len(self._handles) < self.qp_depth, 1.0)
        return handle

    async def write_async(
        self,
        local: Any,
        remote_offset: int = 0,
        *,
        imm: int | None = None,
        local_offset: int = 0,
        length_bytes: int | None = None,
    ) -> None:
        """Writes and returns when the data is acknowledged; arguments and errors as for `write`, and WorkError."""
        wr, handle = self._prepare(local, remote_offset, imm, local_offset, length_bytes)
        while not self._post(wr, handle):
            await self._sends.wait_until_async(lambda: len(self._handles) < self.qp_depth)
        await handle.wait_async()

    def flush(self, timeout_s: float | None = None) -> None:
        """Returns when every write started so far has completed.

        Raises:
            WorkError: one of them failed.
            TimeoutError: `timeout_s` has passed.
        """
        started = list(self._handles.values())
        if not self._sends.wait_until(lambda: all(one._status is not None for one in started), timeout_s):
            self._raise_not_done(timeout_s)
        for handle in started:
            if handle.error is not None:
                raise handle.error

    # --- receiving

    def recv_imm(self, timeout_s: float | None = None) -> Immediate:
        """The next immediate of the peer, in its posting order; all earlier writes are in memory.

        Raises:
            WorkError: the connection failed and no more will arrive.
            TimeoutError: `timeout_s` has passed.
        """
        if not self._recvs.wait_until(lambda: bool(self._received), timeout_s):
            self._raise_not_done(timeout_s)
        return self._next_immediate()

    async def recv_imm_async(self) -> Immediate:
        """As `recv_imm`, from an event loop."""
        await self._recvs.wait_until_async(lambda: bool(self._received))
        if not self._received:
            self._raise_not_done(None)
        return self._next_immediate()

    # --- end

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is None and self.peer_lost is None and not self._closed:
            self.flush()
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    # --- inside

    @property
    def qp_depth(self) -> int:
        """Limit on outstanding writes."""
        return int(self.agreed["send_wr_max"])

    def _prepare(
        self, local: Any, remote_offset: int, imm: int | None, local_offset: int, length_bytes: int | None
    ) -> tuple[SendWr, WriteHandle]:
        self._ownership.check()
        if self._closed:
            msg = "the connection is closed"
            raise InvalidStateError(msg)
        if self.remote is None:
            raise ConfigError("remote_offset", remote_offset, "nothing: the peer offered no memory region")
        if imm is not None and not 0 <= imm <= 0xFFFFFFFF:
            raise ConfigError("imm", imm, "0 to 4294967295")
        owned = None if isinstance(local, MemoryRegion) else self._domain.register(local, Access.LOCAL_READ)
        region = local if owned is None else owned
        length = region.length_bytes - local_offset if length_bytes is None else length_bytes
        if remote_offset < 0 or remote_offset + length > self.remote.length_bytes:
            if owned is not None:
                owned.close()
            raise ConfigError(
                "remote_offset",
                remote_offset,
                f"0 to {self.remote.length_bytes - length}: {length} bytes into the peer's {self.remote.length_bytes}",
            )
        with self._posting:
            handle = WriteHandle(self, self._next_id, owned)
            self._next_id += 1
        wr = SendWr(
            wr_id=handle.wr_id,
            region=region,
            offset=local_offset,
            length_bytes=length,
            remote_address=self.remote.address + remote_offset,
            rkey=self.remote.rkey,
            immediate=imm,
        )
        return wr, handle

    def _post(self, wr: SendWr, handle: WriteHandle) -> bool:
        """Posts a work request; False if the queue is full."""
        self._handles[handle.wr_id] = handle
        try:
            self.qp.post_send(wr)
        except QueueFullError:
            del self._handles[handle.wr_id]
            return False
        except BaseException:
            del self._handles[handle.wr_id]
            if handle._owned is not None:
                handle._owned.close()
            raise
        return True

    def _send_done(self, completion: WorkCompletion) -> None:
        handle = self._handles.pop(completion.wr_id, None)
        if handle is not None:
            self._note_failure(completion.status)
            handle._finish(completion.status)

    def _recv_done(self, completion: WorkCompletion) -> None:
        if completion.status is not WcStatus.SUCCESS:
            self._note_failure(completion.status)
            if not self._received or not isinstance(self._received[-1], WcStatus):
                self._received.append(completion.status)
            return
        self._received.append(Immediate(completion.immediate, completion.bytes))
        with suppress(InvalidStateError):  # the peer has gone since; what arrived before is still delivered
            self.qp.post_recv()

    def _next_immediate(self) -> Immediate:
        first = self._received[0]
        if isinstance(first, WcStatus):
            raise self._failure(first)
        self._received.popleft()
        return first

    def _failure(self, status: WcStatus) -> WorkError:
        reason = f"; the peer is lost: {self.peer_lost}" if self.peer_lost else ""
        if self._outage is not None:
            reason += f"; nothing leaves this side: {self._outage.reason}"
        words = f"{_EXPLAIN.get(status, 'failed')} ({self.peer_name}, QP {self.qp.qp_num:#x}){reason}"
        return WorkError(status.name, words, None if self._outage is None else self._outage.errno)

    def _note_failure(self, status: WcStatus) -> None:
        """Looks for a local cause of silence while it is visible."""
        if self._outage is None and status in (WcStatus.RETRY_EXC_ERR, WcStatus.WR_FLUSH_ERR) and not self._closed:
            self._outage = self.device.outage()

    def _raise_not_done(self, timeout_s: float | None) -> None:
        self._ownership.check()
        if self.device.closed or self._closed:
            msg = "the connection is closed"
            raise InvalidStateError(msg)
        msg = f"{self.peer_name}: not done after {timeout_s} s"
        raise TimeoutError(msg)

    def _drain(self) -> None:
        if not self.device.closed:
            self._sends.poll()
            self._recvs.poll()

    def _close_queues(self) -> None:
        self.qp.send_cq.close()
        self.qp.recv_cq.close()


def _nothing() -> None:
    pass


_watch = PeerWatch()
_open: WeakSet[QpLink] = WeakSet()


@atexit.register
def _close_all() -> None:
    """Informs the peers when a program ends without closing its connections."""
    for connection in list(_open):
        connection.close(_PROGRAM_ENDED)


def queues_for(device: Device, send_wr_max: int, recv_wr_max: int) -> tuple[CompletionQueue, CompletionQueue]:
    """Queues that cannot overrun: one entry for everything that can be posted."""
    sends = CompletionQueue(device, send_wr_max + 1)
    try:
        return sends, CompletionQueue(device, recv_wr_max + 1)
    except BaseException:
        sends.close()
        raise
