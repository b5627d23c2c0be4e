"""The event stream of a device: every state change, typed; `to_json` makes the JSON lines that readers share.

Event
├── QpStateChanged     a QP entered a state; `cause` is the reason for ERR
├── EvStateChanged     a path (EV) of a QP became GOOD, SKIP, ASSUMED_BAD or DENIED
├── EvReplaced         an EV left the active set of a QP for another of the same port
├── PortStateChanged   a port went down or up, here or at a peer
├── PlaneStateChanged  a plane stops answering, or answers again, while others do
├── PortRefused        the operating system refuses to send or receive on a port
├── RetryTimeout       a QP's retransmission timer fired
├── CqOverrun          a completion found its queue full
├── PeerActive         the peer's first packet reached a QP in RTR
├── SrqLimit           a shared receive queue fell below its limit
└── PeerLost           the connection that announces a peer's death was closed
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from select import select
from typing import TYPE_CHECKING, Self

from openmrc.verbs.event_base import Event
from openmrc.verbs.event_records import (
    CqOverrun,
    EvReplaced,
    EvStateChanged,
    PeerActive,
    PeerLost,
    PlaneStateChanged,
    PortRefused,
    PortStateChanged,
    QpStateChanged,
    RetryTimeout,
    SrqLimit,
    event_of,
)

if TYPE_CHECKING:
    from openmrc import _native

__all__ = [
    "CqOverrun",
    "EvReplaced",
    "EvStateChanged",
    "Event",
    "EventSubscription",
    "PeerActive",
    "PeerLost",
    "PlaneStateChanged",
    "PortRefused",
    "PortStateChanged",
    "QpStateChanged",
    "RetryTimeout",
    "SrqLimit",
]

_QUEUE_MAX = 1 << 16
_PAUSE_S = 0.002  # events come in bursts: one wake-up per burst is enough


class EventSubscription:
    """A reader of the stream from its creation on: iterate, `poll`, or `wait`, and close it in the end.

    Holds the latest 65,536 unread events; `dropped` counts those beyond that limit.
    """

    def __init__(self, hub: EventHub) -> None:
        self._hub = hub
        self._queue: deque[Event] = deque()
        self._ready = threading.Condition()
        self._open = True
        self.dropped = 0

    def poll(self) -> list[Event]:
        """All unread events, without waiting."""
        with self._ready:
            events = list(self._queue)
            self._queue.clear()
        return events

    def wait(self, timeout_s: float | None = None) -> list[Event]:
        """All unread events, after waiting for at least one; empty after the timeout or the end of the stream."""
        with self._ready:
            self._ready.wait_for(lambda: self._queue or not self._open, timeout_s)
        return self.poll()

    def close(self) -> None:
        """Ends iteration and waiting. Idempotent."""
        self._hub.remove(self)
        with self._ready:
            self._open = False
            self._ready.notify_all()

    def _put(self, events: list[Event]) -> None:
        with self._ready:
            self._queue.extend(events)
            while len(self._queue) > _QUEUE_MAX:
                self._queue.popleft()
                self.dropped += 1
            self._ready.notify_all()

    def __iter__(self) -> Iterator[Event]:
        while True:
            events = self.wait()
            yield from events
            if not events and not self._open:
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class EventHub:
    """Carries events from a device to its readers; its thread exists only while there are readers."""

    def __init__(self, native: _native.Device) -> None:
        self._native = native
        self._lock = threading.Lock()
        self._readers: list[EventSubscription] = []
        self._callbacks: list[Callable[[Event], None]] = []
        self._thread: threading.Thread | None = None

    def subscribe(self) -> EventSubscription:
        reader = EventSubscription(self)
        with self._lock:
            self._readers.append(reader)
            self._start()
        return reader

    def on_event(self, callback: Callable[[Event], None]) -> None:
        with self._lock:
            self._callbacks.append(callback)
            self._start()

    def remove(self, reader: EventSubscription) -> None:
        with self._lock:
            if reader in self._readers:
                self._readers.remove(reader)

    def publish(self, events: list[Event]) -> None:
        with self._lock:
            readers, callbacks = list(self._readers), list(self._callbacks)
        for reader in readers:
            reader._put(events)
        for callback in callbacks:
            for event in events:
                callback(event)

    def close(self) -> None:
        """Called after the native device is closed: ends the thread, then every subscription."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        with self._lock:
            readers = list(self._readers)
        for reader in readers:
            reader.close()

    def leave_to_parent(self) -> None:
        """Called in a forked child, where locks may be held by threads that do not exist: ends every subscription."""
        self._lock = threading.Lock()
        self._thread = None
        self._callbacks.clear()
        readers, self._readers = self._readers, []
        for reader in readers:
            reader._ready = threading.Condition()
            reader._open = False

    def _start(self) -> None:
        if self._thread is None and not self._native.closed:
            self._thread = threading.Thread(target=self._run, name="openmrc-events", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        native = self._native
        while True:
            ended = native.closed
            while raw := native.poll_events(1024):
                self.publish([event_of(one) for one in raw])
            if ended:
                return
            if not native.arm_events():
                select([native.event_fd()], [], [])
            time.sleep(_PAUSE_S)
