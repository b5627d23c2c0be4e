"""Round trips of idle paths, measured to many peers at the same time."""

from __future__ import annotations

import asyncio
import logging

from openmrc.verbs import Device, Peer

__all__ = ["RoundTrips"]

_LOG = logging.getLogger("openmrc.connection")
_ROUNDS = 3
_TIMEOUT_S = 0.25
_POLL_S = 0.001


class RoundTrips:
    """Measures with EV probes, which need no QP. One task reads the answers for all peers: they have no descriptor.

    Args:
        device: Sends the probes.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._first_of_port: dict[int, int] = {}
        for value, port in device.evs():
            self._first_of_port.setdefault(port, value)
        self._waiting: dict[int, asyncio.Future[int | None]] = {}
        self._reader: asyncio.Task[None] | None = None

    async def smallest_ns(self, peer: Peer, peer_name: str) -> int | None:
        """Smallest round trip of a few probes on every port; None, and a warning in the log: no path answered.

        Args:
            peer: Its ports; the peer must know this device already, or it does not answer.
            peer_name: For the log.
        """
        found: list[int] = []
        for _ in range(_ROUNDS):
            with self._device.known_peer(peer):
                found += await self._round(peer, list(self._first_of_port.values()))
            if not found:
                ours = ", ".join(port.seen_as for port in self._device.ports)
                _LOG.warning(
                    "%s: no path answers: probes from %s to %s, UDP port %d, were lost; if the connection does not "
                    "work, check routes and firewalls of the data ports",
                    peer_name, ours, ", ".join(peer.addresses), peer.udp_port,
                )  # fmt: skip
                return None
        return min(found)

    async def _round(self, peer: Peer, evs: list[int]) -> list[int]:
        requests = self._device.controller.start_probes(peer, evs, timeout_s=_TIMEOUT_S)
        loop = asyncio.get_running_loop()
        answers: dict[int, asyncio.Future[int | None]] = {one: loop.create_future() for one in requests}
        self._waiting |= answers
        if self._reader is None:
            self._reader = asyncio.create_task(self._read())
        try:
            async with asyncio.timeout(_TIMEOUT_S + 0.1):
                found = await asyncio.gather(*answers.values())
        except TimeoutError:
            found = [one.result() for one in answers.values() if one.done() and not one.cancelled()]
        finally:
            for request in requests:
                self._waiting.pop(request, None)
            self._device.controller.forget_probes(requests)
        return [one for one in found if one is not None]

    async def _read(self) -> None:
        while self._waiting:
            for request, answer in self._device.controller.take_answers(self._waiting).items():
                future = self._waiting.pop(request)
                if not future.done():
                    future.set_result(answer.rtt_ns if answer.answered else None)
            await asyncio.sleep(_POLL_S)
        self._reader = None
