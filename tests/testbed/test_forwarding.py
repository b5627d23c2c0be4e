"""The kernel forwards as planned: plain addresses between all hosts, and every uSID list over its own switches."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from openmrc.errors import ConfigError
from openmrc.fabric import Fabric, make_fabric
from openmrc.fabric.cabling import Node
from openmrc.linux.netlink import attributes
from openmrc.testbed import TestBed, TestBedError, namespaces
from openmrc.testbed.netlink_batches import Netlink
from openmrc.testbed.routes import routes

pytestmark = pytest.mark.root

UDP_SEGMENT, NO_CHECK6_TX, NO_CHECK6_RX = 103, 101, 102
PORT = 7471


@contextlib.contextmanager
def udp(bed: TestBed, host: Node, address: object, *, checksums: bool = True) -> Iterator[socket.socket]:
    """A UDP socket of a host's, bound to one of its addresses."""
    family = socket.AF_INET6 if ":" in str(address) else socket.AF_INET
    with namespaces.inside(bed.layout.namespace(host)):
        made = socket.socket(family, socket.SOCK_DGRAM)
    with made:
        made.settimeout(5)
        if not checksums:
            made.setsockopt(socket.IPPROTO_UDP, NO_CHECK6_TX, 1)
            made.setsockopt(socket.IPPROTO_UDP, NO_CHECK6_RX, 1)
        made.bind((str(address), PORT))
        yield made


def sent(bed: TestBed) -> dict[tuple[str, str], int]:
    """Packets that each interface has sent, by node and interface."""
    from openmrc.testbed.counters import link_counters

    return {(link.node, link.interface): link.packets for link in link_counters(bed)}


def route_messages(bed: TestBed, node: Node) -> list[bytes]:
    """All routes of a node, as the kernel's messages."""
    from pyroute2.netlink.rtnl import RTM_GETROUTE
    from pyroute2.netlink.rtnl.rtmsg import rtmsg

    found = []
    with Netlink(bed.layout.namespace(node)) as link:
        for family in (socket.AF_INET, socket.AF_INET6):
            body = rtmsg()
            body["family"] = family
            found += link.dump(RTM_GETROUTE, body)
    return found


def kernel_routes(bed: TestBed) -> set[tuple[str, bytes, bytes, bytes]]:
    """All unicast routes that the kernel has: node, header, prefix, interface or next hops."""
    found = set()
    for node in bed.layout.nodes():
        for data in route_messages(bed, node):
            fields = attributes(data, 28)
            if data[23] == 1:  # RTN_UNICAST
                hops = fields.get(4, b"") + fields.get(5, b"")  # RTA_OIF, RTA_GATEWAY
                found.add((node.name, data[16:24], fields.get(1, b""), hops))
    return found


def test_every_host_reaches_every_other_over_every_plane_by_plain_ipv6_and_ipv4(bed: TestBed):
    layout = bed.layout
    for plane in range(bed.fabric.planes):
        for address in (layout.paths.address, lambda nic, plane: layout.ipv4(nic, plane).ip):
            for source, destination in itertools.permutations(layout.hosts(), 2):
                own, far = address(source.index, plane), address(destination.index, plane)
                with udp(bed, source, own) as sender, udp(bed, destination, far) as receiver:
                    sender.sendto(b"over there", (str(far), PORT))
                    assert receiver.recvfrom(100) == (
                        b"over there",
                        (str(own), PORT, 0, 0)[: 4 if ":" in str(own) else 2],
                    )


def test_a_usid_list_takes_a_datagram_over_its_switches_and_no_others(bed: TestBed):
    layout = bed.layout
    hosts = list(layout.hosts())
    for source, destination in itertools.permutations(hosts, 2):
        for plane, selector in itertools.product(range(bed.fabric.planes), layout.paths.selectors()):
            path = layout.paths.path(source.index, destination.index, plane, selector)
            own = layout.paths.address(source.index, plane)
            receive = layout.paths.receive_address(destination.index, plane)
            before = sent(bed)
            with (
                udp(bed, source, own, checksums=False) as sender,
                udp(bed, destination, receive, checksums=False) as receiver,
            ):
                for number in range(20):
                    size = 8192 if number == 0 else 16
                    sender.sendto(bytes(size), (str(path.address), PORT))
                    data, (sender_address, *_) = receiver.recvfrom(9000)
                    assert (len(data), sender_address) == (size, str(own))
            more = {key for key, count in sent(bed).items() if count - before[key] >= 20}
            assert {node for node, _ in more} == {source.name, *(switch.name for switch in path.switches)}


def test_the_fabric_sees_packets_that_fit_a_wire_from_segmenting_senders_too(bed: TestBed):
    layout = bed.layout
    hosts = list(layout.hosts())
    own, far = layout.paths.address(0, 0), layout.paths.address(2, 0)
    before = sent(bed)
    with udp(bed, hosts[0], own) as sender, udp(bed, hosts[2], far) as receiver:
        sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1000)
        sender.sendto(bytes(40_000), (str(far), PORT))
        assert [len(receiver.recv(9000)) for _ in range(40)] == [1000] * 40
    assert sent(bed)["p0-t0-0", "down0"] - before["p0-t0-0", "down0"] < 5
    assert sum(sent(bed)["p0-t0-0", up] - before["p0-t0-0", up] for up in ("up0", "up1")) >= 40


def test_with_offload_a_burst_crosses_every_link_whole(needs_namespaces: None, bed_fabric: Fabric):
    from openmrc.testbed.faults import BedFaults

    with TestBed.up(bed_fabric, f"t{os.getpid()}-offload", offload=True) as bed:
        assert TestBed.open(bed.name).state.offload
        hosts = list(bed.layout.hosts())
        own, far = bed.layout.paths.address(0, 0), bed.layout.paths.address(2, 0)
        with udp(bed, hosts[0], own) as sender, udp(bed, hosts[2], far) as receiver:
            sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1000)
            sender.sendto(bytes(40_000), (str(far), PORT))
            assert [len(receiver.recv(9000)) for _ in range(40)] == [1000] * 40
        assert sum(sent(bed)["p0-t0-0", up] for up in ("up0", "up1")) < 10, "forty datagrams as one"
        if bed.state.data_plane is not None:
            with pytest.raises(TestBedError, match="offload"):
                BedFaults(bed).apply("plane 0 corrupt 1%")


def test_offload_is_refused_where_switches_trim(needs_namespaces: None):
    trimming = make_fabric(planes=1, hosts=2, hosts_per_t0=2, t1s=1, rate="200Mbit", delay="1us", trim="on")
    with pytest.raises(ConfigError, match="trim"):
        TestBed.up(trimming, f"t{os.getpid()}-trimming", offload=True)


def test_no_route_changes_on_its_own_when_a_far_link_fails(bed: TestBed):
    before = kernel_routes(bed)
    failed, seen = bed.layout.node("p0-t1-0"), bed.layout.node("p0-t0-1")
    set_down(bed, failed, "down1")
    assert not carrier(bed, seen, "up0")
    gone, new = before - kernel_routes(bed), kernel_routes(bed) - before
    assert {node for node, *_ in gone} == {failed.name}, "only the node whose interface was set down loses routes"
    assert not new
    bed.configure(failed)
    assert carrier(bed, seen, "up0")
    assert kernel_routes(bed) == before


def test_no_route_changes_anywhere_while_a_switch_is_silently_dead(needs_data_plane: None, bed_fabric: Fabric):
    """By a netlink monitor in every namespace, with traffic through the dead switch."""
    from openmrc.testbed.faults import BedFaults

    with TestBed.up(bed_fabric, f"t{os.getpid()}-monitored") as bed, contextlib.ExitStack() as stack:
        assert bed.state.data_plane is not None, bed.state.data_plane_missing
        monitors = {node: stack.enter_context(route_monitor(bed, node)) for node in bed.layout.nodes()}
        faults = BedFaults(bed)
        source, destination = Node("host", 0), Node("host", 2)
        own = bed.layout.paths.address(0, 0)
        receive = bed.layout.paths.receive_address(2, 0)
        with (
            udp(bed, source, own, checksums=False) as sender,
            udp(bed, destination, receive, checksums=False) as receiver,
        ):
            paths = [bed.layout.paths.path(0, 2, 0, selector) for selector in bed.layout.paths.selectors()]
            for dead in (True, False):
                faults.apply("t1 0 plane 0 blackhole" if dead else "repair all")
                for number, path in enumerate(paths):
                    sender.sendto(bytes([number]), (str(path.address), PORT))
                arrived = {receiver.recv(10)[0] for _ in paths[1 if dead else 0 :]}
                assert arrived == set(range(1 if dead else 0, len(paths)))
        for node, monitor in monitors.items():
            assert not [data for data in changes(monitor) if not is_multicast(data)], node.name
        seen = bed.layout.node("p0-t1-0")
        set_down(bed, seen, "down1")
        assert monitors[seen].recv(1 << 16), "the monitor sees a route that goes"


def test_a_test_bed_is_up_once_all_its_addresses_are_usable(bed_name: str, monkeypatch: pytest.MonkeyPatch):
    """An address whose uniqueness the kernel has yet to probe stands for one whose turn has not come."""
    from openmrc.testbed import addresses

    namespace = f"{bed_name}-addresses"
    namespaces.create(namespace)

    def ip(arguments: str) -> str:
        return subprocess.run(
            ["ip", "-n", namespace, *arguments.split()], check=True, capture_output=True, text=True
        ).stdout

    # Without a carrier the kernel does not begin to probe; even an address that it need not probe gets its route only
    # some time after the request has ended.
    ip("link add name one type veth peer name two")
    ip("link set one up")
    ip("address add fd00::1/64 dev one nodad")
    ip("address add fd00::2/64 dev one")
    while "fd00::1 " not in ip("-6 route show table local"):
        time.sleep(0.01)
    with monkeypatch.context() as patch:
        patch.setattr(addresses, "_LIMIT_S", 0.0)
        with pytest.raises(TestBedError, match=f"{namespace}: address fd00::2 does not become usable"):
            addresses.await_addresses([namespace])
    ip("link set two up")
    addresses.await_addresses([namespace])
    with namespaces.inside(namespace):
        made = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    with made:
        made.bind(("fd00::2", PORT))


def changes(monitor: socket.socket) -> Iterator[bytes]:
    """Changes received so far."""
    with contextlib.suppress(BlockingIOError):
        while True:
            yield monitor.recv(1 << 16)


def is_multicast(data: bytes) -> bool:
    """A route of type RTN_MULTICAST: the kernel adds ff00::/8 some time after an interface has come up."""
    return data[23] == 5


def set_down(bed: TestBed, node: Node, interface: str) -> None:
    """Sets an interface of a node down without the test bed's knowledge."""
    subprocess.run(
        ["ip", "-n", bed.layout.namespace(node), "link", "set", interface, "down"], check=True, capture_output=True
    )


def route_monitor(bed: TestBed, node: Node) -> socket.socket:
    """A socket that gets every change of a route in the node's namespace."""
    with namespaces.inside(bed.layout.namespace(node)):
        monitor = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    monitor.bind((0, 0x40 | 0x400))  # RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_ROUTE
    monitor.setblocking(False)
    return monitor


def carrier(bed: TestBed, node: Node, interface: str) -> bool:
    from openmrc.testbed.counters import link_counters

    return next(link.carrier for link in link_counters(bed) if (link.node, link.interface) == (node.name, interface))


def test_the_kernel_has_exactly_the_routes_of_the_layout(bed: TestBed):
    for node in bed.layout.nodes():
        found = set()
        for data in route_messages(bed, node):
            family, length, protocol = data[16], data[17], data[21]
            if protocol == 4:  # RTPROT_STATIC
                destination = attributes(data, 28)[1]  # RTA_DST
                found.add((family, socket.inet_ntop(family, destination), length))
        wanted = {
            (
                socket.AF_INET if route.prefix.version == 4 else socket.AF_INET6,
                str(route.prefix.network_address),
                length,
            )
            for route in routes(bed.layout, node)
            if (length := route.prefix.prefixlen)
        }
        assert found == wanted


def test_hosts_reach_each_other_over_the_management_network(bed: TestBed):
    hosts = list(bed.layout.hosts())
    far = bed.layout.management_address(hosts[3]).ip
    with udp(bed, hosts[0], bed.layout.management_address(hosts[0]).ip) as sender, udp(bed, hosts[3], far) as receiver:
        sender.sendto(b"hello", (str(far), PORT))
        assert receiver.recv(100) == b"hello"


def test_three_tiers_and_hosts_with_two_nics_forward_too(needs_namespaces: None):
    fabric = make_fabric(
        planes=2, tiers=3, hosts=4, nics_per_host=2, hosts_per_t0=2, t0s_per_pod=2, t1s=2, t1_uplinks=2,
        rate="200Mbit", delay="1us",
    )  # fmt: skip
    with TestBed.up(fabric, f"t{os.getpid()}-three", data_plane=False) as bed:
        layout = bed.layout
        for selector in layout.paths.selectors():
            path = layout.paths.path(1, 6, 1, selector)
            receive = layout.paths.receive_address(6, 1)
            with (
                udp(bed, Node("host", 0), layout.paths.address(1, 1), checksums=False) as sender,
                udp(bed, Node("host", 3), receive, checksums=False) as receiver,
            ):
                sender.sendto(b"far", (str(path.address), PORT))
                assert receiver.recvfrom(100)[1][0] == str(layout.paths.address(1, 1))
        for nic, plane in itertools.product(range(2, 8), range(2)):
            far = layout.paths.address(nic, plane)
            with (
                udp(bed, Node("host", 0), layout.paths.address(1, plane)) as sender,
                udp(bed, Node("host", nic // 2), far) as receiver,
            ):
                before = sent(bed)["host0", f"nic1eth{plane}"]
                sender.sendto(b"near", (str(far), PORT))
                assert receiver.recv(100) == b"near"
                assert sent(bed)["host0", f"nic1eth{plane}"] > before
