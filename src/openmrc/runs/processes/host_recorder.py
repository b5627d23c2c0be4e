"""Records of one host during a run: bytes placed every 10 ms, bytes per port every 50 ms, and state changes."""

from __future__ import annotations

import threading
import time
from typing import Any

from openmrc import _native
from openmrc.events import EvStateChanged, PlaneStateChanged, PortStateChanged, QpStateChanged
from openmrc.verbs import Device

_PORTS_S = 0.05
_SKIP_RESOLUTION_NS = 50_000_000  # SKIP changes per packet; pictures need one sample per column
_SENTENCE_NS = 200_000_000


class Recorder:
    """Records from `start` to `stop`.

    Args:
        device: Whose ports and events are recorded.
        placed: QPs whose arriving bytes are sampled, by flow.
        written: QPs whose paths are recorded.
    """

    def __init__(self, device: Device, placed: dict[str, int], written: set[int]) -> None:
        self._device = device
        self._placed = placed
        self._written = written
        self._samplers: dict[str, _native.ProgressSampler] = {}
        self._ports: list[tuple[int, list[int]]] = []
        self._ev_changes: list[tuple[int, int, int, int, str]] = []
        self._log: list[tuple[int, str]] = []
        self._fresh: list[tuple[int, str]] = []
        self._fresh_evs: list[tuple[int, int, str]] = []
        self._states: dict[tuple[int, int], str] = {}
        self._skipped_at: dict[tuple[int, int], int] = {}
        self._bad: dict[int, tuple[int, int]] = {}  # by port: time of the first suspected path, and their number
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._subscription = device.subscribe()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)

    def start(self) -> None:
        """Starts recording."""
        for flow, qp in self._placed.items():
            self._samplers[flow] = _native.ProgressSampler(self._device._native, qp, 10_000_000)
        self._thread.start()

    def stop(self) -> None:
        """Takes the last samples and stops."""
        self._stop.set()
        self._thread.join(5)
        for sampler in self._samplers.values():
            sampler.stop()
        self._subscription.close()

    def placed(self, flow: str) -> list[tuple[int, int]]:
        """Samples of one flow: (monotonic ns, bytes placed so far)."""
        return list(self._samplers[flow].samples())

    def news(self) -> dict[str, Any]:
        """Changes since the last call: words for people, and EV changes as (plane, EV, state)."""
        with self._lock:
            news = {"log": self._fresh, "evs": self._fresh_evs}
            self._fresh, self._fresh_evs = [], []
        return news

    def result(self) -> dict[str, Any]:
        """Everything, as JSON."""
        return {
            "placed": {flow: self.placed(flow) for flow in self._placed},
            "ports": self._ports,
            "ev_changes": self._ev_changes,
            "log": self._log,
        }

    def _run(self) -> None:
        while not self._stop.wait(_PORTS_S):
            self._sample()
        self._sample()
        with self._lock:
            self._tell_bad(time.monotonic_ns() + _SENTENCE_NS)

    def _sample(self) -> None:
        ports = self._device.statistics().ports
        self._ports.append((time.monotonic_ns(), [port.received_bytes for port in ports]))
        events = self._subscription.poll()
        with self._lock:
            for event in events:
                if isinstance(event, EvStateChanged):
                    if event.qp in self._written:
                        self._note_ev(event)
                elif isinstance(event, PortStateChanged):
                    whose = "a peer reports that its port" if event.learned else "port"
                    self._say(event.time_ns, f"{whose} {event.port} is {'up' if event.up else 'down'}")
                elif isinstance(event, PlaneStateChanged):
                    said = "answers again" if event.answering else "does not answer"
                    self._say(event.time_ns, f"plane {event.port} {said}")
                elif isinstance(event, QpStateChanged) and event.state.name == "ERR":
                    self._say(event.time_ns, f"QP {event.qp} failed: {event.cause.name}")
            self._tell_bad(time.monotonic_ns())

    def _note_ev(self, event: EvStateChanged) -> None:
        key, state = (event.qp, event.ev), event.state.name
        if state == self._states.get(key, "GOOD"):
            return
        if state == "SKIP":
            if event.time_ns - self._skipped_at.get(key, 0) < _SKIP_RESOLUTION_NS:
                return
            self._skipped_at[key] = event.time_ns
        self._states[key] = state
        self._ev_changes.append((event.time_ns, event.qp, event.ev, event.port, state))
        self._fresh_evs.append((event.port, event.ev, state))
        if state == "ASSUMED_BAD":
            self._count_bad(event.port, event.time_ns)

    def _count_bad(self, port: int, time_ns: int) -> None:
        since_ns, count = self._bad.get(port, (time_ns, 0))
        if time_ns >= since_ns + _SENTENCE_NS:
            self._tell_bad(time_ns)
            since_ns, count = time_ns, 0
        self._bad[port] = (since_ns, count + 1)

    def _tell_bad(self, now_ns: int) -> None:
        """One sentence for EVs that were suspected together, at the time of the first, so that no effect precedes its
        cause.
        """
        for port, (since_ns, count) in list(self._bad.items()):
            if now_ns >= since_ns + _SENTENCE_NS:
                del self._bad[port]
                paths = "1 path" if count == 1 else f"{count} paths"
                self._say(since_ns, f"{paths} of plane {port} assumed bad")

    def _say(self, time_ns: int, text: str) -> None:
        self._log.append((time_ns, text))
        self._fresh.append((time_ns, text))
