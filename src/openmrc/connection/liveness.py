"""Liveness of peers, checked by questions on the planes.

The TCP connection of the handshake carries goodbyes; its end alone is only a hint. A peer that ends without a goodbye
leaves a closed TCP connection: its QP is then asked every 10 ms, and the peer is gone if neither an answer nor anything
else arrives for a moment. An answer proves that only TCP is gone, which nothing else needs. Timeouts of TCP and
failures of its network are no evidence about the peer. A peer without traffic for a second is asked once a second; it
is gone after a silence as long as its connection allows, counting only time during which this process itself was
running.
"""

from __future__ import annotations

import errno
import json
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from openmrc.errors import OpenmrcError
from openmrc.forks import keep_from_children

if TYPE_CHECKING:
    from openmrc.verbs import QueuePair

__all__ = ["GOODBYE", "Evidence", "Loss", "PeerWatch", "Watched", "closing_words", "loss_of"]

GOODBYE = "it said goodbye"

_BYE = b"."  # regular end of the peer
_WORDS = b"!"  # followed by a line of JSON with the reason of the end
_WORDS_BYTES_MAX = 4096
_REASON_MAX = 300
_TICK_S = 1.0
_TICK_S_MIN = 0.25
_LINKS_A_SECOND = 500  # that are looked at
_ASK_S = 0.01
_SILENCE_S = 0.06  # of a peer whose TCP connection was closed
_QUESTIONS_MIN = 5
_QUIET_ERRORS = frozenset(
    {errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.ENONET}
)


class Evidence(Enum):
    """Source of the reason of a loss."""

    WORDS = "words"
    """The lost peer gave it."""
    SILENCE = "silence"
    """The peer said and answered nothing."""
    EXIT_STATUS = "exit status"
    """The operating system recorded how the peer's process ended."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Reason for the loss of a peer.

    Attributes:
        reason: In words.
        goodbye: It ended regularly.
        culprit: Number of the peer whose loss made it end, if it reported one.
        evidence: Source of the reason; with a culprit, of the reason for the culprit's end.
    """

    reason: str
    goodbye: bool = False
    culprit: int | None = None
    evidence: Evidence = Evidence.WORDS


def closing_words(loss: Loss) -> bytes:
    """Bytes that report this side's end and its reason to the peer."""
    if loss.goodbye:
        return _BYE
    words: dict[str, Any] = {"reason": loss.reason[:_REASON_MAX]}
    if loss.culprit is not None:
        words |= {"culprit": loss.culprit, "evidence": loss.evidence.value}
    return _WORDS + json.dumps(words).encode() + b"\n"


def loss_of(data: bytes) -> Loss | None:
    """Interpretation of a peer's last bytes; None: incomplete."""
    if data.startswith(_BYE):
        return Loss(GOODBYE, goodbye=True)
    if not data.startswith(_WORDS) or len(data) > _WORDS_BYTES_MAX:
        return Loss("it broke the protocol")
    if not data.endswith(b"\n"):
        return None
    try:
        words: Any = json.loads(data[1:])
        reason, culprit = words["reason"], words.get("culprit")
        evidence = Evidence(words.get("evidence", Evidence.WORDS.value))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Loss("it broke the protocol")
    if not isinstance(reason, str) or (culprit is not None and type(culprit) is not int):
        return Loss("it broke the protocol")
    printable = "".join(one for one in reason[:_REASON_MAX] if one.isprintable())
    return Loss(printable, culprit=culprit, evidence=evidence)


class Watched:
    """A peer from the view of the watch; its owner derives from this.

    Attributes:
        qp: Its QP answers questions.
        silence_max_s: A peer that is silent for longer is gone; None: never.
    """

    qp: QueuePair
    silence_max_s: float | None = None
    _base_rtt_s: float = 0.0

    def _attach(self, sock: socket.socket | None) -> None:
        self._socket = sock
        self._heard_bytes = b""
        self._tcp_open = sock is not None
        self._suspected_at: float | None = None
        self._questions = 0
        self._hint = ""
        self._silent_s = 0.0

    def _peer_lost(self, loss: Loss) -> None:
        """Called once, from the thread of the watch."""
        raise NotImplementedError

    def _read(self) -> Loss | None:
        """State of the TCP connection; None: no sign of an end."""
        assert self._socket is not None
        try:
            data = self._socket.recv(4096, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            self._tcp_open = False
            if error.errno not in _QUIET_ERRORS:
                self._suspect(f"it ended without a goodbye ({error.strerror})")
            return None
        if not data:
            self._tcp_open = False
            self._suspect("it ended without a goodbye")
            return None
        self._heard_bytes += data
        return loss_of(self._heard_bytes)

    def _suspect(self, hint: str) -> None:
        self._suspected_at, self._questions, self._hint = time.monotonic(), 0, hint

    def _examine(self) -> Loss | None:
        """Asks a suspected peer, and reports when it is gone."""
        assert self._suspected_at is not None
        suspected_s = time.monotonic() - self._suspected_at
        self._questions += 1
        try:
            asked = self.qp.ask_peer()
            heard_s, answered_s = self.qp.liveness()
        except OpenmrcError:
            asked = False
        if not asked:  # RC, or a QP in state ERR: only TCP is left
            return Loss(self._hint, evidence=Evidence.SILENCE)
        if answered_s < suspected_s:
            self._suspected_at = None
        elif self._questions > _QUESTIONS_MIN and min(heard_s, suspected_s) > _SILENCE_S + 4 * self._base_rtt_s:
            return Loss(f"{self._hint}, and answers on no plane", evidence=Evidence.SILENCE)
        return None

    def _tick(self, elapsed_s: float, tick_s: float) -> Loss | None:
        """Called at intervals, `elapsed_s` after the previous call: asks a silent peer."""
        try:
            heard_s, _ = self.qp.liveness()
            if heard_s < tick_s or not self.qp.ask_peer():
                self._silent_s = 0.0
                return None
        except OpenmrcError:
            return None
        self._silent_s = min(self._silent_s + elapsed_s, heard_s)
        if self.silence_max_s is None or self._silent_s < self.silence_max_s:
            return None
        return Loss(f"no answer on any plane for {self.silence_max_s:.3g} s", evidence=Evidence.SILENCE)


class PeerWatch:
    """Watches the peers of all connections of a process, on one thread, which ends with the last of them."""

    def __init__(self) -> None:
        self._begin()
        keep_from_children(self)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._peers: set[Watched] = set()
        self._by_socket: dict[int, Watched] = {}
        self._suspects: set[Watched] = set()
        self._current: Watched | None = None
        self._thread: threading.Thread | None = None
        self._epoll: select.epoll | None = None
        self._wake = -1
        self._tick_s = _TICK_S

    def _leave_to_parent(self) -> None:
        if self._epoll is not None:
            self._epoll.close()
            os.close(self._wake)
        self._begin()
        keep_from_children(self)

    def add(self, peer: Watched) -> None:
        """Watches `peer` from now on."""
        with self._changed:
            if self._epoll is None:
                self._epoll = select.epoll()
                self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
                self._epoll.register(self._wake, select.EPOLLIN)
                self._thread = threading.Thread(target=self._run, name="openmrc-peers", daemon=True)
                self._thread.start()
            self._peers.add(peer)
            if peer._socket is not None:
                self._by_socket[peer._socket.fileno()] = peer
                self._epoll.register(peer._socket.fileno(), select.EPOLLIN)
            slept_s = self._tick_s
            if peer.silence_max_s is not None:
                self._tick_s = min(self._tick_s, max(peer.silence_max_s / 8, _TICK_S_MIN))
            if self._tick_s < slept_s:  # sockets are polled from registration on
                os.eventfd_write(self._wake, 1)

    def remove(self, peer: Watched) -> None:
        """Ends the watch of a peer. After the return it is not called any more, except for a call that is in progress
        in this thread.
        """
        with self._changed:
            self._peers.discard(peer)
            self._suspects.discard(peer)
            self._forget_socket(peer)
            thread = self._thread
            if thread is None or threading.current_thread() is thread:
                return
            self._changed.wait_for(lambda: self._current is not peer)
            if not self._peers and self._thread is thread:
                os.eventfd_write(self._wake, 1)
                self._changed.wait_for(lambda: self._thread is not thread or self._peers)
            if self._thread is thread:
                return
        thread.join()

    def _forget_socket(self, peer: Watched) -> None:
        number = -1 if peer._socket is None else peer._socket.fileno()
        if self._by_socket.pop(number, None) is not None and self._epoll is not None:
            with suppress(OSError):
                self._epoll.unregister(number)

    def _end_without_peers(self) -> bool:
        with self._changed:
            if self._peers:
                return False
            assert self._epoll is not None
            self._epoll.close()
            os.close(self._wake)
            self._epoll, self._wake, self._thread = None, -1, None
            self._by_socket.clear()
            self._changed.notify_all()
            return True

    def _run(self) -> None:
        epoll = self._epoll
        assert epoll is not None
        last = time.monotonic()
        while not self._end_without_peers():
            tick_s = self._tick_s
            wait_s = _ASK_S if self._suspects else max(0.0, last + tick_s - time.monotonic())
            for number, _ in epoll.poll(wait_s):
                if number == self._wake:
                    with suppress(BlockingIOError):
                        os.eventfd_read(number)
                elif (peer := self._by_socket.get(number)) is not None:
                    self._visit(peer, peer._read)
            for peer in list(self._suspects):
                self._visit(peer, peer._examine)
            now = time.monotonic()
            if now - last >= tick_s:
                # Time during which this process was stopped does not count as silence of others.
                elapsed_s = min(now - last, 2 * tick_s)
                last = now
                with self._changed:
                    self._tick_s = self._interval()
                for peer in list(self._peers):
                    self._visit(peer, partial(peer._tick, elapsed_s, tick_s))

    def _interval(self) -> float:
        limits = [one.silence_max_s for one in self._peers if one.silence_max_s is not None]
        return max(min(_TICK_S, min(limits, default=60.0) / 8), _TICK_S_MIN, len(self._peers) / _LINKS_A_SECOND)

    def _visit(self, peer: Watched, step: Callable[[], Loss | None]) -> None:
        with self._changed:
            if peer not in self._peers:
                return
            self._current = peer
        try:
            loss = step()
            with self._changed:
                if not peer._tcp_open:
                    self._forget_socket(peer)
                if peer._suspected_at is None:
                    self._suspects.discard(peer)
                elif peer in self._peers:
                    self._suspects.add(peer)
                if loss is not None:
                    self._peers.discard(peer)
                    self._suspects.discard(peer)
                    self._forget_socket(peer)
            if loss is not None:
                peer._peer_lost(loss)
        except Exception as error:  # noqa: BLE001  # of a callback: the other peers are still to be watched
            threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, self._thread)))
        finally:
            with self._changed:
                self._current = None
                self._changed.notify_all()
