"""A device from a path file: ports, EVs, refusals, and a WRITE without switches, with the peer itself as the path."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, IPv6Network

import numpy as np
import pytest
from own_ports import UDP_PORT
from waiting import until

from openmrc import Device, QpSettings, connect, listen
from openmrc.errors import ConfigError, DeviceError, HandshakeError
from openmrc.fabric import make_fabric
from openmrc.srv6.nic_paths import nic_paths
from openmrc.srv6.paths import PathPlan
from openmrc.srv6.rules import Copy, NicPaths, NicPort, PathRule
from openmrc.verbs import EvFormatMode, EvProfileMode, Peer, Port

LOOPBACK = IPv6Address("::1")
ITSELF = PathRule(IPv6Network("::1/128"), LOOPBACK)
PORT = NicPort(0, LOOPBACK, LOOPBACK, (0, 1, 5))


def paths(*rules: PathRule, **port: object) -> NicPaths:
    return NicPaths((replace(PORT, **port),), rules or (ITSELF,))


def copied(source: str, at: int, bits: int, to: int) -> NicPaths:
    return paths(replace(ITSELF, copies=(Copy(source, at, bits, to),)))  # type: ignore[arg-type]


def test_a_path_file_is_all_that_a_device_needs():
    with Device(paths=paths(rate_bps=25_000_000_000), udp_port=UDP_PORT) as device:
        assert device.ev_format is EvFormatMode.SRV6
        assert device.ports[0].rate_bps == 25_000_000_000
        assert device.burst_packets == 1
        assert [port.address for port in device.ports] == ["::1"]
        assert device.query().evs_per_port == device.evs_per_port == 33
        selectors = Counter(value >> 16 for value, port in device.evs() if port == 0)
        assert selectors == {0: 11, 1: 11, 5: 11}
        assert device.statistics().ports[0].socket.no_path == 0


def test_evs_go_through_all_paths_before_they_repeat_one():
    with Device(paths=paths(), udp_port=UDP_PORT, evs_per_port=4, first_source_port=50000) as device:
        assert [(value >> 16, value & 0xFFFF) for value, _ in device.evs()] == [
            (0, 50000), (1, 50000), (5, 50000), (0, 50001),
        ]  # fmt: skip


def test_with_fewer_evs_than_paths_the_seed_draws_which():
    def drawn(seed: int) -> set[int]:
        with Device(paths=paths(selectors=tuple(range(200))), udp_port=UDP_PORT, evs_per_port=16, seed=seed) as device:
            return {value >> 16 for value, _ in device.evs()}

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert len(drawn(1)) == len(drawn(2)) == 16


def test_many_paths_are_as_many_evs_as_a_device_may_have():
    with Device(paths=paths(selectors=tuple(range(65536))), udp_port=UDP_PORT) as device:
        assert len({value >> 16 for value, _ in device.evs()}) == len(device.evs()) == 1024


@pytest.mark.parametrize(
    ("near", "far", "payload_mtu"),
    [
        ({}, {}, 8192),
        ({}, {"payload_mtu": 4096}, 4096),
        ({"payload_mtu": 4096}, {}, 4096),
        ({"signal": "delay"}, {}, 8192),
    ],
)
def test_packets_carry_8192_bytes_unless_an_end_offers_less(
    near: dict[str, object], far: dict[str, object], payload_mtu: int
):
    with (
        Device(paths=paths(), udp_port=UDP_PORT + 1) as one,
        Device(paths=paths(), udp_port=UDP_PORT + 2) as other,
        listen(other, "[::1]:0", settings=QpSettings(**far)) as listener,
        ThreadPoolExecutor() as pool,
    ):
        accepting = pool.submit(listener.accept, timeout_s=10)
        with connect(one, listener.address, settings=QpSettings(**near)) as connection, accepting.result() as accepted:
            assert connection.agreed["payload_mtu"] == accepted.agreed["payload_mtu"] == payload_mtu


def test_a_planned_path_file_needs_its_addresses_on_the_machine():
    fabric = make_fabric(planes=2, hosts=4, hosts_per_t0=2, t1s=2, rate="1Gbit")
    planned = nic_paths(PathPlan.of(fabric, fabric.addresses), 3)
    with pytest.raises(DeviceError, match=r"cannot receive on fcbb:bb00:e001:: port 4791"):
        Device(paths=planned)


def test_writes_over_srv6_arrive_without_offloads():
    memory = np.zeros(1 << 20, dtype=np.uint8)
    message = np.random.default_rng(3).integers(0, 256, len(memory), dtype=np.uint8)
    with (
        Device(paths=paths(), udp_port=UDP_PORT + 1) as near,
        Device(paths=paths(), udp_port=UDP_PORT + 2) as far,
        listen(far, "[::1]:0", region=memory) as listener,
    ):
        with ThreadPoolExecutor() as pool:
            accepting = pool.submit(listener.accept, timeout_s=10)
            connection = connect(near, listener.address)
        with accepting.result(), connection:
            assert [one.answered for one in near.controller.probe(Peer(("::1",), UDP_PORT + 2))] == [True] * 33
            assert connection.agreed["payload_mtu"] == 8192
            connection.write(message).wait(timeout_s=10)
            assert np.array_equal(memory, message)
            # A busy machine answers late, and paths given up because of it come back.
            until(lambda: Counter(value >> 16 for value in connection.qp.active_evs()) == {0: 11, 1: 11, 5: 11})
        socket = near.statistics().ports[0].socket
        assert not socket.segmentation_offload
        assert not far.statistics().ports[0].socket.receive_offload
        assert not any(one.answered for one in near.controller.probe(Peer(("::1",), UDP_PORT + 2), timeout_s=0.05))


def test_a_peer_that_no_rule_knows_is_an_error_before_anything_is_sent():
    stranger = PathRule(IPv6Network("fd00::/16"), LOOPBACK)
    with Device(paths=paths(stranger), udp_port=UDP_PORT) as device:
        peer = Peer(("::1",), UDP_PORT + 1)
        with pytest.raises(DeviceError, match="no way from ::1 to ::1: no path rule knows the peer"):
            device.path_mtu_bytes(peer)
        assert not any(one.answered for one in device.controller.probe(peer, timeout_s=0.01))
        socket = device.statistics().ports[0].socket
        assert socket.no_path == socket.dropped_datagrams == 33
        assert socket.sent_datagrams == socket.send_errors == 0


def test_both_ends_must_have_the_same_ev_format():
    with (
        Device(paths=paths(), udp_port=UDP_PORT + 1) as near,
        Device(["::1"], ev_format="stev", udp_port=UDP_PORT + 2, evs_per_port=4) as far,
        listen(far, "[::1]:0") as listener,
    ):
        with ThreadPoolExecutor() as pool:
            accepting = pool.submit(listener.accept, timeout_s=0.5)
            with pytest.raises(HandshakeError, match="EV format differs: STEV here, SRV6 there"):
                connect(near, listener.address)
        with pytest.raises(TimeoutError):
            accepting.result()


def test_only_paths_of_the_path_file_can_be_in_a_profile():
    with Device(paths=paths(), udp_port=UDP_PORT) as device:
        source_port = device.evs()[0][0] & 0xFFFF
        with pytest.raises(ConfigError, match="evs"):
            device.controller.create_ev_profile(1, EvProfileMode.EXP, evs=[2 << 16 | source_port])


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"ev_format": "srv6", "ports": ["::1"]}, "ev_format"),
        ({"paths": paths(), "ports": ["::1"]}, "ports"),
        ({"paths": paths(), "ev_format": "udp"}, "ev_format"),
        ({"paths": paths(), "ev_format": EvFormatMode.STEV}, "ev_format"),
        ({"paths": "host3.json"}, "paths"),
        ({}, "ports"),
        ({"paths": NicPaths((), (ITSELF,))}, "paths.ports"),
        ({"paths": NicPaths((PORT,) * 17, (ITSELF,))}, "paths.ports"),
        ({"paths": NicPaths((PORT, replace(PORT, plane=1)), (ITSELF,))}, "paths.ports.address"),
        ({"paths": NicPaths((PORT,), ())}, "paths.rules"),
        ({"paths": paths(plane=1)}, "paths.ports[0].plane"),
        ({"paths": paths(address=IPv4Address("127.0.0.1"))}, "paths.ports[0].address"),
        ({"paths": paths(receive=IPv4Address("127.0.0.1"))}, "paths.ports[0].receive"),
        ({"paths": paths(selectors=())}, "paths.ports[0].selectors"),
        ({"paths": paths(selectors=(65536,))}, "paths.ports[0].selectors"),
        ({"paths": paths(selectors=(-1,))}, "paths.ports[0].selectors"),
        ({"paths": paths(selectors=(3, 4, 3))}, "paths.ports[0].selectors"),
        ({"paths": paths(rate_bps=999)}, "paths.ports[0].rate_bps"),
        ({"ports": [Port("::1", rate_bps=0)]}, "ports[0].rate_bps"),
        ({"paths": paths(ITSELF, ITSELF)}, "paths.rules"),
        ({"paths": paths(replace(ITSELF, base=IPv4Address("10.0.0.1")))}, "paths.rules[0].base"),  # type: ignore[arg-type]
        ({"paths": paths(replace(ITSELF, copies=(Copy("peer", 0, 1, 0),) * 9))}, "paths.rules[0].copies"),
        ({"paths": copied("selector", 15, 2, 0)}, "paths.rules[0].copies[0]"),
        ({"paths": copied("peer", 127, 2, 0)}, "paths.rules[0].copies[0]"),
        ({"paths": copied("peer", 0, 2, 127)}, "paths.rules[0].copies[0]"),
        ({"paths": copied("peer", 0, 0, 0)}, "paths.rules[0].copies[0]"),
        ({"paths": copied("plane", 0, 1, 0)}, "paths.rules[0].copies[0].source"),
        ({"paths": paths(), "evs_per_port": 1025}, "evs_per_port"),
    ],
)
def test_invalid_paths_are_refused_by_name(settings, field):
    with pytest.raises(ConfigError) as caught:
        Device(udp_port=UDP_PORT, **settings)
    assert caught.value.field == field
