"""Measurements while connecting: the round trip, and the packet size that arrives on every plane."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from openmrc.connection.round_trip import IdlePaths, RoundTrips
from openmrc.errors import InvalidStateError
from openmrc.verbs import Peer, Port, ProbeAnswer

PEER = Peer(("10.0.0.2", "10.1.0.2"))
SMALL = 0
FULL = 8264

Arrives = Callable[[int, int, int], bool]
"""True if a probe arrives; arguments: its plane, its size (0: small), and its number of earlier attempts."""


class FakeDevice:
    """Two planes; probes are answered, or given up at once, as a test decides."""

    def __init__(self, arrives: Arrives) -> None:
        self.ports = [Port("10.0.0.1"), Port("10.1.0.1")]
        self.controller = self
        self.sent: list[tuple[int, int]] = []
        self._arrives = arrives
        self._answers: dict[int, ProbeAnswer] = {}

    def evs(self) -> list[tuple[int, int]]:
        """Two EVs for each port."""
        return [(10, 0), (11, 0), (20, 1), (21, 1)]

    @contextmanager
    def known_peer(self, _peer: Peer) -> Iterator[int]:
        """Nothing has to be kept."""
        yield 1

    def start_probes(
        self, _peer: Peer, evs: Sequence[int], *, timeout_s: float, packet_bytes: int | None = None
    ) -> dict[int, int]:
        """One request per EV."""
        assert timeout_s > 0
        requests: dict[int, int] = {}
        for value in evs:
            probe = (value // 10 - 1, packet_bytes or SMALL)
            answered = self._arrives(*probe, self.sent.count(probe))
            self.sent.append(probe)
            request = len(self.sent)
            rtt_ns = 1_000_000 // self.sent.count(probe)
            answer = ProbeAnswer(
                ev=value, port=probe[0], answered=answered, marked=False, rtt_ns=rtt_ns, service_time_removed=True
            )
            requests[request] = value
            self._answers[request] = answer
        return requests

    def take_answers(self, requests: Collection[int]) -> dict[int, ProbeAnswer]:
        """All of them."""
        return {request: self._answers.pop(request) for request in list(requests)}

    def forget_probes(self, _requests: Iterable[int]) -> None:
        """Nothing is kept."""


def measured(arrives: Arrives, **arguments: Any) -> tuple[IdlePaths, FakeDevice]:
    """The measured paths between two hosts with this delivery of probes."""
    device = FakeDevice(arrives)

    async def whole() -> IdlePaths:
        return await RoundTrips(device).measure(PEER, "peer", **arguments)  # type: ignore[arg-type]

    return asyncio.run(whole()), device


def test_a_healthy_path_costs_one_padded_probe_per_plane():
    idle, device = measured(lambda _plane, _size, _before: True, payload_mtu=8192)
    assert idle == IdlePaths(333_333, 8192)
    assert [probe for probe in device.sent if probe[1]] == [(0, FULL), (1, FULL)]
    assert device.sent.count((0, SMALL)) == 3


def test_the_largest_size_that_arrives_on_every_plane_sets_the_payload(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "openmrc.connection"):
        idle, _ = measured(lambda plane, size, _before: plane == 0 or size <= 1500, payload_mtu=8192)
    assert idle.payload_mtu == 1428
    assert "packets of 8264 bytes do not arrive on plane 1 (10.1.0.1 to 10.1.0.2)" in caplog.text
    assert "lowered to 1428" in caplog.text


def test_the_smallest_plane_counts():
    limits = (4500, 1450)
    idle, _ = measured(lambda plane, size, _before: size <= limits[plane], payload_mtu=8192)
    assert idle.payload_mtu == 1448 - 28 - 44


@pytest.mark.parametrize("lost", [1, 2, 3, 4])
def test_full_packets_that_a_queue_drops_lower_nothing(lost: int):
    idle, device = measured(lambda _plane, size, before: size != FULL or before >= lost, payload_mtu=8192)
    assert idle.payload_mtu == 8192
    assert device.sent.count((0, FULL)) == lost + 1


def test_a_silent_plane_says_nothing_about_sizes():
    idle, _ = measured(lambda plane, _size, _before: plane == 0, payload_mtu=8192)
    assert idle.payload_mtu == 8192
    assert idle.round_trip_ns is not None


def test_a_peer_that_answers_no_padded_probe_changes_nothing():
    idle, _ = measured(lambda _plane, size, _before: size == SMALL, payload_mtu=8192)
    assert idle.payload_mtu == 8192


def test_without_a_payload_no_padded_probe_is_sent():
    idle, device = measured(lambda _plane, _size, _before: True, payload_mtu=None)
    assert idle == IdlePaths(333_333, None)
    assert not any(size for _, size in device.sent)


def test_a_given_round_trip_leaves_one_round_of_probes():
    _, device = measured(lambda _plane, _size, _before: True, with_round_trip=False, payload_mtu=1428)
    assert device.sent == [(0, SMALL), (1, SMALL), (0, 1500), (1, 1500)]
    assert measured(lambda *_: True, with_round_trip=False)[1].sent == []


def test_a_peer_that_does_not_answer_is_reported_once(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "openmrc.connection"):
        idle, device = measured(lambda *_: False, payload_mtu=8192)
    assert idle == IdlePaths(None, None)
    assert device.sent.count((0, SMALL)) == 1
    assert "no path answers" in caplog.text


def test_probes_without_any_result_are_given_up():
    class Deaf(FakeDevice):
        def take_answers(self, _requests: Collection[int]) -> dict[int, ProbeAnswer]:
            """None at all, as from a device that never ends its requests."""
            return {}

    async def whole() -> IdlePaths:
        return await RoundTrips(Deaf(lambda *_: True)).measure(PEER, "peer", payload_mtu=8192)  # type: ignore[arg-type]

    assert asyncio.run(whole()) == IdlePaths(None, None)


def test_a_device_that_closes_while_answers_are_awaited_ends_all_rounds():
    class Closed(FakeDevice):
        def take_answers(self, _requests: Collection[int]) -> dict[int, ProbeAnswer]:
            """As of a device that was closed."""
            raise InvalidStateError("closed")

    async def whole() -> list[IdlePaths]:
        trips = RoundTrips(Closed(lambda *_: True))  # type: ignore[arg-type]
        return await asyncio.gather(*(trips.measure(PEER, "peer", payload_mtu=8192) for _ in range(3)))

    assert asyncio.run(whole()) == [IdlePaths(None, None)] * 3
