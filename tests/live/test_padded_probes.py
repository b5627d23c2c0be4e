"""EV probes as large as data packets, between devices on loopback."""

from __future__ import annotations

import pytest
from own_ports import UDP_PORT

from openmrc.errors import ConfigError
from openmrc.verbs import Device, Peer

pytestmark = pytest.mark.live


@pytest.mark.parametrize(
    ("near", "far", "sizes"),
    [("127.97.0.1", "127.97.0.2", (60, 1500, 8264, 8316)), ("::1", "::1", (80, 1500, 8284, 8336))],
)
def test_probes_of_every_size_are_answered(near: str, far: str, sizes: tuple[int, ...]):
    with (
        Device([near], udp_port=UDP_PORT, evs_per_port=4) as asking,
        Device([far], udp_port=UDP_PORT + 1, evs_per_port=4, answer_strangers=True) as answering,
    ):
        peer = Peer((far,), UDP_PORT + 1)
        for size in sizes:
            before = answering.statistics().ports[0].received_bytes
            answers = asking.controller.probe(peer, timeout_s=5, packet_bytes=size)
            assert [one.answered for one in answers] == [True] * 4
            taken = answering.statistics().ports[0].received_bytes - before
            assert taken == 4 * (size - sizes[0] + 32)


@pytest.mark.parametrize("size", [59, 61, 8320])
def test_sizes_that_no_data_packet_has_are_refused(size: int):
    with (
        Device(["127.97.0.1"], udp_port=UDP_PORT) as device,
        pytest.raises(ConfigError, match="packet_bytes") as caught,
    ):
        device.controller.probe(Peer(("127.97.0.2",), UDP_PORT), packet_bytes=size)
    assert "60 to 8316 bytes" in str(caught.value)
