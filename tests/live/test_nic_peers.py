"""Peers over real sockets: ranks that share an address, strangers, and the lifetime of a known peer."""

from __future__ import annotations

import threading

import pytest
from own_ports import UDP_PORT

import openmrc
from openmrc.connection import Connection
from openmrc.errors import NotFoundError
from openmrc.verbs import Device, Peer

pytestmark = pytest.mark.live


def peer_of(device: Device) -> Peer:
    return Peer(tuple(port.seen_as for port in device.ports), udp_port=device.udp_port)


def answered(device: Device, other: Device) -> int:
    return sum(one.answered for one in device.controller.probe(peer_of(other), timeout_s=1.0))


def test_ranks_that_share_an_address_get_their_own_answers():
    with (
        Device(["127.0.0.91"], udp_port=UDP_PORT, evs_per_port=4) as lone,
        Device(["127.0.0.92"], udp_port=UDP_PORT, evs_per_port=4) as first,
        Device(["127.0.0.92"], udp_port=UDP_PORT + 1, evs_per_port=4) as second,
    ):
        for rank in (first, second):
            lone.add_peer(peer_of(rank))
            rank.add_peer(peer_of(lone))
        assert [answered(first, lone), answered(second, lone)] == [4, 4]
        assert [answered(lone, first), answered(lone, second)] == [4, 4]


def test_a_stranger_is_not_answered_and_counted():
    with (
        Device(["127.0.0.91"], udp_port=UDP_PORT, evs_per_port=4) as device,
        Device(["127.0.0.92"], udp_port=UDP_PORT, evs_per_port=4) as stranger,
    ):
        assert not any(one.answered for one in stranger.controller.probe(peer_of(device), timeout_s=0.1))
        assert device.statistics().drops.unknown_peer == 4
        assert device.statistics().ports[0].sent_packets == 0


def test_a_peer_is_forgotten_with_its_last_connection():
    with Device(["127.0.0.91"], udp_port=UDP_PORT) as a, Device(["127.0.0.92"], udp_port=UDP_PORT) as b:
        found: list[Connection] = []
        with openmrc.listen(b, "127.0.0.1:0", region=bytearray(8)) as at:
            for _ in range(2):
                thread = threading.Thread(target=lambda: found.append(at.accept(timeout_s=20)))
                thread.start()
                found.append(openmrc.connect(a, at.address, timeout_s=20))
                thread.join()
        assert (a.peer_count, b.peer_count) == (1, 1)
        for one in found[:2]:
            one.close()
        assert (a.peer_count, b.peer_count) == (1, 1)
        for one in found[2:]:
            one.close()
        assert (a.peer_count, b.peer_count) == (0, 0)


def test_a_peer_is_known_as_often_as_it_was_added():
    with Device(["127.0.0.91"], udp_port=UDP_PORT) as device:
        peer = Peer(("127.0.0.92",), udp_port=UDP_PORT)
        number = device.add_peer(peer)
        with device.known_peer(peer) as again:
            assert again == number
        assert device.peer_count == 1
        device.remove_peer(number)
        assert device.peer_count == 0
        with pytest.raises(NotFoundError, match="not known"):
            device.remove_peer(number)
