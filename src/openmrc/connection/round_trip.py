"""Concurrent measurement of idle paths to many peers: round trips, and the packet sizes that arrive."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from openmrc.verbs import Device, Peer

from .settings import packet_bytes_for, payload_mtu_for

__all__ = ["PACKET_SIZES", "IdlePaths", "RoundTrips"]

_LOG = logging.getLogger("openmrc.connection")
_ROUNDS = 3
# A full-size packet may be lost to a full queue that small ones still fit into, so lowering needs more evidence.
_ROUNDS_SUSPECT = 5
_TIMEOUT_S = 0.25
_ROUND_S = _TIMEOUT_S + 0.1  # the device gives a probe up earlier
_POLL_S = 0.001
# Below common MTUs (tunnels, Ethernet, jumbo frames of several sizes), in steps of 4.
PACKET_SIZES = (576, 1280, 1400, 1420, 1448, 1476, 1492, 1500, 2044, 3072, 4168, 6144)


@dataclass(frozen=True, slots=True)
class IdlePaths:
    """The paths to a peer before data flows.

    Args:
        round_trip_ns: Smallest round trip; None: no path answered, or not requested.
        payload_mtu: Largest payload whose packets arrive on every plane that answers; None: not requested, or unknown.
    """

    round_trip_ns: int | None
    payload_mtu: int | None


class _Probe(NamedTuple):
    """One probe to send: the port, and the packet size; 0: minimum size."""

    port: int
    packet_bytes: int


@dataclass(eq=False, slots=True)
class _Round:
    """Probes to one peer that were sent together.

    Args:
        over: Set when all are answered or given up.
        deadline: End of the wait, by the monotonic clock.
        sent: Probe of each request.
        found: Round trips of the answered ones.
    """

    over: asyncio.Future[None]
    deadline: float
    sent: dict[int, _Probe] = field(default_factory=dict)
    found: dict[_Probe, int] = field(default_factory=dict)
    _taken: int = 0

    def take(self, request: int, trip_ns: int | None) -> None:
        """Records the answer to a request; None: the device has given it up."""
        if trip_ns is not None:
            self.found[self.sent[request]] = trip_ns
        self._taken += 1
        if self._taken == len(self.sent):
            self.end()

    def end(self) -> None:
        """Ends the round with the answers so far."""
        if not self.over.done():
            self.over.set_result(None)


class RoundTrips:
    """Measures with EV probes, which need no QP. A single task reads the answers for all peers, since probes have no
    descriptor.

    Args:
        device: Sends the probes.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._first_of_port: dict[int, int] = {}
        for value, port in device.evs():
            self._first_of_port.setdefault(port, value)
        self._waiting: dict[int, _Round] = {}
        self._reader: asyncio.Task[None] | None = None

    async def measure(
        self, peer: Peer, peer_name: str, *, with_round_trip: bool = True, payload_mtu: int | None = None
    ) -> IdlePaths:
        """Sends a few probes on every port, one of them as large as a data packet, and lowers the payload if necessary.

        A switch on the path may forward less than interfaces and routes promise. Small probes are then answered and
        full packets are lost without any error; smaller sizes are tried until the largest that arrives is known.

        Args:
            peer: Its ports; it answers only if it knows this device already.
            peer_name: For the log, which has a warning if no path answers or the payload is lowered.
            with_round_trip: Measure the round trip.
            payload_mtu: Payload to test; None: the peer does not answer padded probes.
        """
        if not with_round_trip and payload_mtu is None:
            return IdlePaths(None, None)
        full = 0 if payload_mtu is None else packet_bytes_for(payload_mtu, self._device.ports[0].version)
        found: dict[_Probe, int] = {}
        with self._device.known_peer(peer) as number:
            for done in range(_ROUNDS_SUSPECT):
                for probe, trip_ns in (await self._round(number, self._probes(found, full))).items():
                    found[probe] = min(trip_ns, found.get(probe, trip_ns))
                if not found:
                    self._warn_of_silence(peer, peer_name)
                    return IdlePaths(None, None)
                if not self._suspects(found, full) and (done + 1 >= _ROUNDS or not with_round_trip):
                    break
        round_trip_ns = min((trip_ns for probe, trip_ns in found.items() if not probe.packet_bytes), default=None)
        return IdlePaths(round_trip_ns, self._payload(found, full, peer, payload_mtu))

    def _suspects(self, found: dict[_Probe, int], full: int) -> list[int]:
        """Ports on which small probes are answered and full ones are not."""
        ports = self._first_of_port if full else ()
        return [port for port in ports if (port, 0) in found and (port, full) not in found]

    def _probes(self, found: dict[_Probe, int], full: int) -> list[_Probe]:
        """Probes of a round: small ones first, which measure the round trip; then full ones, while the queues are still
        empty.
        """
        ports = list(self._first_of_port)
        probes = [_Probe(port, 0) for port in ports]
        if full:
            probes += [_Probe(port, full) for port in ports if (port, full) not in found]
        suspects = self._suspects(found, full)
        return probes + [_Probe(port, size) for size in PACKET_SIZES if size < full for port in suspects]

    def _payload(self, found: dict[_Probe, int], full: int, peer: Peer, payload_mtu: int | None) -> int | None:
        lowered = payload_mtu
        for port in self._suspects(found, full):
            largest = max(probe.packet_bytes for probe in found if probe.port == port)
            if largest == 0 or lowered is None:
                continue  # no padded probe arrives: a path MTU cannot be that small
            lowered = min(lowered, payload_mtu_for(largest, self._device.ports[0].version, None, lowered))
            _LOG.warning(
                "packets of %d bytes do not arrive on plane %d (%s to %s), those of %d bytes do, though the MTU of the "
                "interfaces allows more: payload MTU lowered to %d for all planes; set interfaces and switches to the "
                "same MTU",
                full, port, self._device.ports[port].seen_as, peer.addresses[port], largest, lowered,
            )  # fmt: skip
        return lowered

    def _warn_of_silence(self, peer: Peer, peer_name: str) -> None:
        ours = ", ".join(port.seen_as for port in self._device.ports)
        _LOG.warning(
            "%s: no path answers: probes from %s to %s, UDP port %d, were lost; if the connection does not "
            "work, check routes and firewalls of the data ports",
            peer_name, ours, ", ".join(peer.addresses), peer.udp_port,
        )  # fmt: skip

    async def _round(self, peer: int, probes: Sequence[_Probe]) -> dict[_Probe, int]:
        """Round trips of the answered probes."""
        loop = asyncio.get_running_loop()
        asked = _Round(loop.create_future(), time.monotonic() + _ROUND_S)
        try:
            for probe in probes:
                evs, size = [self._first_of_port[probe.port]], probe.packet_bytes or None
                for request in self._device.controller.start_probes(peer, evs, timeout_s=_TIMEOUT_S, packet_bytes=size):
                    asked.sent[request] = probe
                    self._waiting[request] = asked
            if self._reader is None:
                self._reader = asyncio.create_task(self._read())
            await asked.over
        finally:
            for request in asked.sent:
                self._waiting.pop(request, None)
            self._device.controller.forget_probes(asked.sent)
        return asked.found

    async def _read(self) -> None:
        """Passes answers to their rounds, and ends rounds after their deadline."""
        try:
            while self._waiting:
                for request, answer in self._device.controller.take_answers(self._waiting).items():
                    self._waiting.pop(request).take(request, answer.rtt_ns if answer.answered else None)
                now = time.monotonic()
                for asked in {asked for asked in self._waiting.values() if now > asked.deadline}:
                    asked.end()
                await asyncio.sleep(_POLL_S)
        finally:
            self._reader = None
            for asked in set(self._waiting.values()):
                asked.end()
