"""Consistency of a test bed's layout: cables, names, numbers, and routes along the planned paths."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmrc.errors import ConfigError
from openmrc.fabric import Fabric, make_fabric
from openmrc.fabric.cabling import Node, cables
from openmrc.srv6.paths import pack, unpack
from openmrc.testbed.layout import NAME_CHARACTERS_MAX, Layout
from openmrc.testbed.routes import Route, routes, rules, usid_prefix


def fabric_of(**shape: int) -> Fabric:
    return make_fabric(name="bed", rate="1Gbit", delay="1us", **shape)


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    nics = draw(st.integers(1, 2))
    shape = {
        "planes": draw(st.integers(1, 3)),
        "hosts": draw(st.integers(1, 6)),
        "hosts_per_t0": draw(st.integers(1, 3)) * nics,
        "t1s": draw(st.integers(1, 3)),
        "nics_per_host": nics,
    }
    return fabric_of(**shape)


def chosen(layout: Layout, node: Node, target: IPv4Address | IPv6Address, pick: int) -> tuple[Route, Node | None]:
    """The most specific route to a target, and the node behind one of its hops."""
    route = max(
        (
            route
            for route in routes(layout, node)
            if target.version == route.prefix.version and target in route.prefix and route.table == 254
        ),
        key=lambda route: route.prefix.prefixlen,
    )
    if not route.hops or route.kind == "end":
        return route, None
    hop = route.hops[pick % len(route.hops)]
    interface = next(port for port in layout.interfaces(node) if port.name == hop.interface)
    assert layout.peer(interface).link_local == hop.via
    return route, interface.peer.node


@given(fabrics())
def test_the_two_interfaces_of_a_cable_name_each_other(fabric: Fabric):
    layout = Layout.of(fabric, "bed")
    ends = list(layout.all_interfaces())
    assert len(ends) == 2 * len(list(cables(fabric)))
    for end in ends:
        assert layout.peer(layout.peer(end)) == end
        assert layout.peer(end).plane == end.plane
        assert layout.interface(end.node, end.port) == end


@given(fabrics())
def test_names_numbers_and_addresses_are_unique_where_they_must_be(fabric: Fabric):
    layout = Layout.of(fabric, "bed")
    ends = list(layout.all_interfaces())
    assert [end.number for end in ends] == list(range(1, len(ends) + 1))
    assert len({end.mac for end in ends}) == len(ends)
    assert all(end.link_local != layout.peer(end).link_local for end in ends)
    assert all(int(end.mac[:2], 16) & 3 == 2 for end in ends)  # locally administered, not multicast
    for node in layout.nodes():
        names = [end.name for end in layout.interfaces(node)]
        assert len(set(names)) == len(names)
        assert all(len(name) <= NAME_CHARACTERS_MAX for name in names)
    assert len(set(layout.namespaces())) == len(layout.namespaces()) == len(list(layout.nodes())) + 1
    own = [address for end in ends for address in layout.addresses(end)]
    for nic in range(fabric.hosts):
        for plane in range(fabric.planes):
            assert sum(address.ip == layout.paths.address(nic, plane) for address in own) == 1
            assert own.count(layout.ipv4(nic, plane)) == 1
    managed = {layout.management_address(host) for host in layout.hosts()}
    assert len(managed) == fabric.hosts // fabric.nics_per_host


@given(fabrics(), st.data())
def test_plain_routes_lead_from_every_host_to_every_port(fabric: Fabric, data: st.DataObject):
    layout = Layout.of(fabric, "bed")
    nic, plane = data.draw(st.integers(0, fabric.hosts - 1)), data.draw(st.integers(0, fabric.planes - 1))
    pick = data.draw(st.integers(0, 63))
    for target in (layout.paths.address(nic, plane), layout.ipv4(nic, plane).ip):
        for host in layout.hosts():
            if host.index == nic // fabric.nics_per_host:
                continue
            at: Node | None = host
            for _ in range(6):
                assert at is not None
                _, at = chosen(layout, at, target, pick)
                if at is not None and at.kind == "host":
                    break
            assert at == Node("host", nic // fabric.nics_per_host)


@pytest.mark.parametrize("tiers", [2, 3])
def test_usid_routes_follow_every_path_of_the_plan(tiers: int):
    shape = {"planes": 2, "hosts": 8, "hosts_per_t0": 2, "t1s": 2}
    fabric = fabric_of(**shape, **({} if tiers == 2 else {"tiers": 3, "t0s_per_pod": 2, "t1_uplinks": 2}))
    layout = Layout.of(fabric, "bed")
    for source, destination in ((0, 1), (0, 3), (7, 0), (5, 2)):
        for selector in layout.paths.selectors():
            path = layout.paths.path(source, destination, 1, selector)
            address, at, seen = path.address, Node("host", source), []
            while True:
                route, following = chosen(layout, at, address, 0)
                if route.kind == "end":
                    seen.append(at)
                    address = pack(layout.paths.blocks, unpack(address)[1:])
                    continue
                assert following is not None
                at = following
                if at.kind == "host":
                    break
            assert tuple(seen) == path.switches
            assert at == Node("host", destination)
            assert address == layout.paths.receive_address(destination, 1)


def test_a_port_that_is_not_there_is_unreachable_and_not_looked_for_above():
    layout = Layout.of(fabric_of(planes=1, hosts=3, hosts_per_t0=2, t1s=2), "bed")
    route, following = chosen(layout, Node("t0", 1, 0), layout.paths.blocks.port(0, 1, 1), 0)
    assert (route.kind, following) == ("unreachable", None)


def test_packets_of_one_of_several_nics_stay_on_it():
    layout = Layout.of(fabric_of(planes=2, hosts=4, nics_per_host=2, hosts_per_t0=2, t1s=1), "bed")
    host = Node("host", 1)
    assert [port.name for port in layout.interfaces(host)] == ["nic0eth0", "nic0eth1", "nic1eth0", "nic1eth1"]
    for rule in rules(layout, host):
        owner = next(p for p in layout.interfaces(host) if rule.source in [a.ip for a in layout.addresses(p)])
        own = [route for route in routes(layout, host) if route.table == rule.table]
        assert own
        assert {hop.interface for route in own for hop in route.hops} == {owner.name}


def test_a_switch_knows_its_own_usid_and_those_of_its_neighbours():
    layout = Layout.of(fabric_of(planes=1, hosts=4, hosts_per_t0=2, t1s=2), "bed")
    t0 = Node("t0", 0, 0)
    usids = layout.paths.usids
    known = [usids.of(t0), usids.nic(0, 0), usids.nic(0, 1), usids.t1(0, 0), usids.t1(0, 1)]
    lists = {route.prefix for route in routes(layout, t0)}
    assert lists >= {usid_prefix(layout, usid) for usid in known}


@pytest.mark.parametrize("name", ["", "Bed", "a/b", "9a", "x" * 33, "a b"])
def test_a_name_that_cannot_begin_namespaces_is_refused(name: str):
    with pytest.raises(ConfigError, match="name is"):
        Layout.of(fabric_of(planes=1, hosts=2, hosts_per_t0=1, t1s=1), name)


def test_a_fabric_too_large_for_a_test_bed_is_refused_with_a_hint():
    with pytest.raises(ConfigError, match="openmrc sim"):
        Layout.of(fabric_of(planes=1, hosts=600, hosts_per_t0=300, t1s=1), "bed")


def test_nodes_are_found_by_name():
    layout = Layout.of(fabric_of(planes=1, hosts=2, hosts_per_t0=1, t1s=1), "bed")
    assert layout.node("p0-t1-0") == Node("t1", 0, 0)
    with pytest.raises(ConfigError, match="host0"):
        layout.node("host7")
