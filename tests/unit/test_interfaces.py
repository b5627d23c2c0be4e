"""The kernel's interfaces as records, and the choice of ports among them."""

from __future__ import annotations

import socket
import struct
from ipaddress import ip_interface

import pytest
from own_ports import UDP_PORT

from openmrc.errors import ConfigError
from openmrc.linux.links import AddressRecord, LinkRecord, addresses_in, links_in
from openmrc.verbs.device import Device, Port
from openmrc.verbs.interfaces import Interface, choose_ports, interface_of, list_interfaces

LO = Interface("lo", 1, "loopback", (ip_interface("127.0.0.1/8"), ip_interface("::1/128")), True, True, 65536)


def interface(name: str, *addresses: str, kind: str = "ethernet", up: bool = True, carrier: bool = True, **more: int):
    index = more.pop("index", 100 + sum(name.encode()))
    return Interface(name, index, kind, tuple(map(ip_interface, addresses)), up, carrier, 1500, **more)


def chosen(*interfaces: Interface) -> list[str]:
    return [port.interface or port.address for port in choose_ports(interfaces=[LO, *interfaces]).ports]


# --- the kernel's records


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", len(value) + 4, kind) + value + bytes(-len(value) % 4)


def message(kind: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", len(body) + 16, kind, 2, 1, 0) + body + bytes(-len(body) % 4)


def link_message(name: str, *attributes: bytes, index: int = 3, flags: int = 0x1) -> bytes:
    body = struct.pack("=BxHiII", 0, 1, index, flags, 0) + attribute(3, name.encode() + b"\0")
    return message(16, body + attribute(4, struct.pack("=I", 9000)) + b"".join(attributes))


def test_links_of_a_dump():
    kind = attribute(18, attribute(1, b"veth\0"))
    data = link_message("eth1", attribute(33, b"\1"), kind, attribute(5, struct.pack("=I", 7)), index=9)
    data += message(3, bytes(4))
    data = link_message("eth0", index=2) + data
    assert links_in(data) == [
        LinkRecord(2, "eth0", 1, 1, 9000, carrier=False, kind="", lower=0, master=0),
        LinkRecord(9, "eth1", 1, 1, 9000, carrier=True, kind="veth", lower=7, master=0),
    ]


@pytest.mark.parametrize(
    ("flags", "carrier", "expected"),
    [
        (0x11043, 1, True),  # IFF_UP, IFF_RUNNING, IFF_LOWER_UP
        (0x11003, 1, True),  # the kernel has not updated IFF_RUNNING for the new carrier yet
        (0x1003, 0, False),
        (0x10002, 1, False),  # not up
        (0x31003, 1, False),  # IFF_DORMANT: not authenticated
    ],
)
def test_a_link_passes_frames_from_the_moment_that_it_has_a_carrier(flags: int, carrier: int, expected: bool):
    (link,) = links_in(link_message("eth0", attribute(33, bytes([carrier])), flags=flags))
    assert link.passes_frames is expected


def test_the_lower_interface_of_another_namespace_has_no_number_here():
    data = link_message("eth0", attribute(5, struct.pack("=I", 7)), attribute(37, struct.pack("=I", 0)))
    assert links_in(data)[0].lower == 0


def test_addresses_of_a_dump():
    local, other = socket.inet_aton("10.0.0.1"), socket.inet_aton("10.0.0.2")
    point_to_point = struct.pack("=BBBBI", socket.AF_INET, 32, 0x80, 0, 4) + attribute(1, other) + attribute(2, local)
    six = socket.inet_pton(socket.AF_INET6, "fd00::1")
    long_flags = struct.pack("=BBBBI", socket.AF_INET6, 64, 0, 0, 4) + attribute(1, six)
    long_flags += attribute(8, struct.pack("=I", 0x140))
    unknown = struct.pack("=BBBBI", socket.AF_PACKET, 0, 0, 0, 4)
    assert addresses_in(message(20, point_to_point) + message(20, long_flags) + message(20, unknown)) == [
        AddressRecord(4, ip_interface("10.0.0.1/32"), 0x80),
        AddressRecord(4, ip_interface("fd00::1/64"), 0x140),
    ]


def test_a_message_cut_short_ends_the_list():
    assert links_in(link_message("eth0") + b"\4\0\0\0" + bytes(12)) == links_in(link_message("eth0"))


@pytest.mark.parametrize(
    ("device_type", "flags", "kind", "wireless", "expected"),
    [
        (772, 0x9, "", False, "loopback"),
        (1, 1, "", False, "ethernet"),
        (1, 1, "", True, "wireless"),
        (1, 1, "bridge", False, "bridge"),
        (32, 1, "", False, "infiniband"),
        (65534, 1, "tun", False, "tun"),
        (512, 1, "", False, "other"),
    ],
)
def test_kinds(device_type: int, flags: int, kind: str, wireless: bool, expected: str):
    link = LinkRecord(2, "x0", device_type, flags, 1500, carrier=True, kind=kind, lower=0, master=0)
    assert interface_of(link, (), lambda _: None, lambda _: wireless).kind == expected


def test_addresses_to_use_come_in_order_of_preference_and_unchecked_ones_not_at_all():
    link = LinkRecord(2, "eth0", 1, 1, 1500, carrier=True, kind="", lower=0, master=0)
    records = [
        AddressRecord(2, ip_interface(text), flags)
        for text, flags in (
            ("fd00::1/64", 0x20), ("fd00::2/64", 0x01), ("fd00::3/64", 0x40), ("fd00::4/64", 0x08), ("fd00::5/64", 0),
        )
    ]  # fmt: skip
    found = interface_of(link, records, lambda _: 10**10, lambda _: False)
    assert [str(one.ip) for one in found.addresses] == ["fd00::5", "fd00::2", "fd00::1"]
    assert (found.up, found.carrier, found.mtu, found.speed_bps) == (True, True, 1500, 10**10)


def test_an_ipv4_address_that_is_not_the_first_of_its_network_is_no_temporary_one():
    link = LinkRecord(2, "eth0", 1, 1, 1500, carrier=True, kind="", lower=0, master=0)
    secondary, primary = (
        AddressRecord(2, ip_interface("10.0.0.2/24"), 1),
        AddressRecord(2, ip_interface("10.0.0.1/24"), 0),
    )
    found = interface_of(link, [secondary, primary], lambda _: None, lambda _: False)
    assert [str(one.ip) for one in found.addresses] == ["10.0.0.2", "10.0.0.1"]


def test_this_host_has_a_loopback_interface_that_programs_may_use():
    loopback = next(one for one in list_interfaces() if one.loopback)
    assert loopback.index == socket.if_nametoindex(loopback.name)
    assert loopback.mtu > 1500
    assert loopback.speed_bps is None


def test_chosen_ports_make_a_device():
    with Device(choose_ports().ports, udp_port=UDP_PORT, evs_per_port=2) as device:
        assert device.ports == choose_ports().ports


# --- suitable interfaces


def test_all_wired_interfaces_in_the_order_of_their_numbers():
    names = ["eth10", "eth2", "eth0", "ens1f0"]
    interfaces = [interface(name, f"10.0.{number}.1/24") for number, name in enumerate(names)]
    assert chosen(*interfaces) == ["ens1f0", "eth0", "eth2", "eth10"]


@pytest.mark.parametrize(
    ("left_out", "reason"),
    [
        (interface("eth1", "10.0.1.1/24", up=False), "down"),
        (interface("eth1", "10.0.1.1/24", carrier=False), "no carrier"),
        (interface("eth1"), "no address"),
        (interface("eth1", "fe80::1/64", "169.254.3.4/16"), "no address"),
        (interface("eth1", "fd00::1/64"), "no IPv4 address"),
        (interface("eth1", "10.0.1.1/24", speed_bps=10**9), "slow"),
        (interface("mgmt0", "10.0.1.1/24"), "for management"),
        (interface("docker0", "172.17.0.1/16", kind="bridge"), "bridge"),
        (interface("veth7", "10.0.1.1/24", kind="veth"), "veth"),
        (interface("wlan0", "10.0.1.1/24", kind="wireless"), "wireless"),
        (interface("eth0.5", "10.0.1.1/24", kind="vlan", lower=2), "on eth0"),
    ],
)
def test_left_out_beside_a_wired_one(left_out: Interface, reason: str):
    wired = interface("eth0", "10.0.0.1/24", speed_bps=10**11, index=2)
    answer = choose_ports(interfaces=[LO, left_out, wired])
    assert answer.ports == (Port("10.0.0.1", "eth0"),)
    assert answer.why == f"1 port, all suitable interfaces: eth0 10.0.0.1; left out {left_out.name} ({reason})"
    assert answer.interfaces == (wired,)


def test_a_cable_that_is_out_of_a_port_without_address_is_not_worth_a_word():
    spare = interface("eth1", up=False)
    assert "eth1" not in choose_ports(interfaces=[LO, interface("eth0", "10.0.0.1/24"), spare]).why


def test_second_and_third_choice():
    veth, bridge = interface("eth0", "10.0.0.1/24", kind="veth"), interface("br0", "10.1.0.1/24", kind="bridge")
    assert chosen(veth, bridge) == ["eth0"]
    assert chosen(bridge) == ["br0"]


def test_a_vlan_whose_lower_interface_has_no_address_is_a_port():
    lower = interface("eth0", index=2)
    assert chosen(lower, interface("eth0.5", "10.0.0.1/24", kind="vlan", lower=2)) == ["eth0.5"]


def test_the_family_that_all_have():
    both = interface("eth0", "10.0.0.1/24", "fd00::1/64")
    assert choose_ports(interfaces=[both]).ports == (Port("10.0.0.1", "eth0"),)
    six = interface("eth1", "fd00:1::1/64")
    assert choose_ports(interfaces=[both, six]).ports == (Port("fd00::1", "eth0"), Port("fd00:1::1", "eth1"))


def test_not_more_ports_than_a_device_has():
    many = [interface(f"eth{number}", f"10.0.{number}.1/24") for number in range(18)]
    answer = choose_ports(interfaces=many)
    assert len(answer.ports) == 16
    assert "left out eth16 (over 16 ports), eth17 (over 16 ports)" in answer.why


@pytest.mark.parametrize(
    ("others", "ending"),
    [([], "exists"), ([interface("eth0", "10.0.0.1/24", up=False), interface("eth1")],
                      "suits: eth0 (down), eth1 (no address)")],
)  # fmt: skip
def test_loopback_when_there_is_nothing_else(others: list[Interface], ending: str):
    answer = choose_ports(interfaces=[LO, *others])
    assert answer.ports == (Port("127.0.0.1"),)
    assert answer.why == f"1 port: loopback 127.0.0.1, so this host alone: no other interface {ending}"


# --- requested interfaces

HOST = [
    LO,
    interface("eth0", "10.0.0.1/24", "fd00::1/64", index=2),
    interface("eth1", "10.1.0.1/24", "fd00:1::1/64", index=3),
    interface("eth2", "fd00:2::1/64", index=4, carrier=False),
    interface("eth3", index=5),
]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("eth1,eth0", [Port("10.1.0.1", "eth1"), Port("10.0.0.1", "eth0")]),
        ("eth0, eth2", [Port("fd00::1", "eth0"), Port("fd00:2::1", "eth2")]),
        ("10.1.0.1,eth0,", [Port("10.1.0.1"), Port("10.0.0.1", "eth0")]),
        ("fd00::1,eth1", [Port("fd00::1"), Port("fd00:1::1", "eth1")]),
        ("fd00:0::1", [Port("fd00:0::1")]),
        ("10.0.0.1%eth1@192.0.2.7", [Port("10.0.0.1", "eth1", "192.0.2.7")]),
        ("127.0.0.5,127.0.0.6", [Port("127.0.0.5"), Port("127.0.0.6")]),
        ("lo", [Port("127.0.0.1")]),
    ],
)
def test_wanted_ports_in_the_order_written(wanted: str, expected: list[Port]):
    assert list(choose_ports(wanted, interfaces=HOST).ports) == expected


def test_the_sentence_says_where_the_wish_came_from_and_what_is_silent():
    answer = choose_ports("eth0,eth2", field="OPENMRC_PORTS", interfaces=HOST)
    assert answer.why == "2 ports, from OPENMRC_PORTS: eth0 fd00::1, eth2 fd00:2::1; eth2 has no carrier"
    assert answer.interfaces == (HOST[1], HOST[3])
    assert choose_ports(["fd00:0::1", "127.0.0.1"][0], interfaces=HOST).interfaces == (HOST[1],)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("eht1", (r"--ports is 'eht1'; allowed: interfaces of this host \(lo, eth0, eth1, eth2, eth3\) or addresses "
                 r"\(hint: did you mean 'eth1'\?\)")),
        ("10.0.0.7", r"allowed: an address of this host \(.*10\.0\.0\.1, .*hint: did you mean '10\.[01]\.0\.1'"),
        ("10.0.0.1%eth9", r"allowed: an interface of this host \(lo, .*hint: did you mean 'eth"),
        ("eth3", r"allowed: interfaces with an address \(hint: ip addr add ADDRESS/PREFIX dev eth3\)"),
        ("10.0.0.1,eth2", "ports that all have IPv4 or all have IPv6"),
        ("eth0,10.0.0.1", "a different address for each port"),
        ("eth0,eth0", "a different address for each port"),
        (" , ", "1 to 16 interfaces or addresses"),
        (",".join(["eth0"] * 17), "1 to 16 interfaces or addresses"),
    ],
)  # fmt: skip
def test_mistakes_name_what_exists(wanted: str, message: str):
    with pytest.raises(ConfigError, match=message):
        choose_ports(wanted, field="--ports", interfaces=HOST)
