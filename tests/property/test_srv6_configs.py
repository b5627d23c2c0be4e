"""Generated configuration forwards packets as planned: a small uN machine parses the files and follows every path."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from ipaddress import IPv6Address, IPv6Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmrc.fabric.address_blocks import AddressBlocks
from openmrc.fabric.cabling import cables, switches
from openmrc.fabric.model import Shape
from openmrc.srv6.configs.derive import switch_config
from openmrc.srv6.configs.eos import eos_switch
from openmrc.srv6.configs.frr import frr_switch
from openmrc.srv6.configs.linux import linux_switch
from openmrc.srv6.configs.names import PortNames
from openmrc.srv6.configs.sonic import sonic_switch
from openmrc.srv6.paths import PathPlan

PORTS_MAX = 32
USID_BITS = 16


@dataclass
class Table:
    """Contents of a file: own locator, address on each link, and the next hops of each prefix; no hop: dropped."""

    locator: IPv6Network
    own: dict[int, str] = field(default_factory=dict)
    routes: dict[IPv6Network, list[tuple[int, str]]] = field(default_factory=dict)

    def lookup(self, address: IPv6Address) -> list[tuple[int, str]] | None:
        fitting = [prefix for prefix in self.routes if address in prefix]
        return self.routes[max(fitting, key=lambda prefix: prefix.prefixlen)] if fitting else None

    def forward(self, address: IPv6Address) -> tuple[IPv6Address, list[tuple[int, str]]]:
        """The packet's address on departure, and its possible next hops; none: dropped."""
        if address in self.locator:
            low = (1 << 128 - 32) - 1
            address = IPv6Address(int(address) & ~low | int(address) << USID_BITS & low)
        return address, self.lookup(address) or []


def of_linux(text: str, numbers: dict[str, int]) -> Table:
    lines = [line.split() for line in text.partition("<<'END'\n")[2].splitlines()]
    table = Table(next(IPv6Network(words[2]) for words in lines if "End" in words))
    for words in lines:
        if words[0] == "address":
            table.own[numbers[words[4]]] = words[2].removesuffix("/64")
        elif words[:3] == ["route", "replace", "blackhole"]:
            table.routes[IPv6Network(words[3])] = []
        elif words[0] == "route" and words[3] == "via":
            assert (words[1] == "append") == (IPv6Network(words[2]) in table.routes)
            table.routes.setdefault(IPv6Network(words[2]), []).append((numbers[words[6]], words[4]))
    return table


def of_frr(text: str, numbers: dict[str, int]) -> Table:
    table, interface = Table(IPv6Network("::/128")), 0
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["sid"]:
            assert words[2:] == ["locator", "NODE", "behavior", "uN"]
            table.locator = IPv6Network(words[1])
        elif words[:1] == ["prefix"]:
            assert words[2:6] == ["block-len", "32", "node-len", "16"]
        elif words[:1] == ["interface"]:
            interface = numbers[words[1]]
        elif words[:2] == ["ipv6", "address"]:
            table.own[interface] = words[2].removesuffix("/64")
        elif words[:2] == ["ipv6", "route"]:
            hops = table.routes.setdefault(IPv6Network(words[2]), [])
            if words[3] != "blackhole":
                hops.append((numbers[words[4]], words[3]))
    return table


def of_eos(text: str, numbers: dict[str, int]) -> Table:
    table, interface, block = Table(IPv6Network("::/128")), 0, 0
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["block"]:
            block = int(IPv6Network(words[1]).network_address)
        elif words[:1] == ["prefix"]:
            table.locator = IPv6Network((block | int(words[-1], 16) << 128 - 48, 48))
        elif words[:1] == ["interface"]:
            interface = numbers[words[1]]
        elif words[:2] == ["ipv6", "address"]:
            table.own[interface] = words[2].removesuffix("/64")
        elif words[:2] == ["ipv6", "route"]:
            hops = table.routes.setdefault(IPv6Network(words[2]), [])
            if words[3] != "Null0":
                hops.append((numbers[words[3]], words[4]))
    return table


def of_sonic(text: str, numbers: dict[str, int]) -> Table:
    tables = json.loads(text)
    ((name, locator),) = tables["SRV6_MY_LOCATORS"].items()
    ((sid, behaviour),) = tables["SRV6_MY_SIDS"].items()
    assert behaviour["action"] == "uN"
    assert sid == f"{name}|{locator['prefix']}/{int(locator['block_len']) + int(locator['node_len'])}"
    table = Table(IPv6Network(sid.partition("|")[2]))
    for key in tables["INTERFACE"]:
        interface, _, address = key.partition("|")
        assert interface in tables["PORT"]
        if address:
            table.own[numbers[interface]] = address.removesuffix("/64")
    for key, route in tables["STATIC_ROUTE"].items():
        vrf, _, prefix = key.partition("|")
        assert vrf == "default"
        hops = (
            []
            if route.get("blackhole")
            else zip(*(route[key].split(",") for key in ("ifname", "nexthop")), strict=True)
        )
        table.routes[IPv6Network(prefix)] = [(numbers[interface], via) for interface, via in hops]
    return table


READERS = {
    "swp{1}": ((linux_switch, of_linux), (frr_switch, of_frr)),
    "Ethernet{0*8}": ((sonic_switch, of_sonic),),
    "Ethernet{1/4}/{1%4}": ((eos_switch, of_eos),),
}


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    hosts_per_t0 = draw(st.integers(1, 3))
    nics_per_host = draw(st.integers(1, 2))
    hosts = nics_per_host * draw(st.integers(1, 8))
    three = draw(st.booleans())
    return Shape(
        planes=draw(st.integers(1, 3)),
        hosts=hosts,
        hosts_per_t0=hosts_per_t0,
        t1s=draw(st.integers(1, 3)),
        t0s_per_pod=draw(st.integers(1, 3)) if three else 0,
        t1_uplinks=draw(st.integers(1, 3)) if three else 0,
        nics_per_host=nics_per_host,
    )


Machine = tuple[dict[str, Table], dict[tuple[str, int], tuple[str, int]]]


def machine(plan: PathPlan) -> Machine:
    """A table per switch, equal for all formats, and the node at the other end of each cable."""
    tables: dict[str, Table] = {}
    for node in switches(plan.shape):
        config = switch_config(plan, node)
        read = []
        for pattern, formats in READERS.items():
            names = PortNames(pattern).first(PORTS_MAX)
            numbers = {name: number for number, name in enumerate(names)}
            read += [reader(writer(config, names), numbers) for writer, reader in formats]
        assert all(table == read[0] for table in read)
        tables[node.name] = read[0]
    joined = {}
    for cable in cables(plan.shape):
        lower, upper = ((end.node.name, end.port) for end in (cable.lower, cable.upper))
        joined[lower], joined[upper] = upper, lower
    return tables, joined


def follow(
    machine: Machine,
    start: tuple[str, int],
    address: IPv6Address,
) -> list[tuple[list[str], tuple[str, int] | None, IPv6Address]]:
    """All possible paths of a packet from a host's port: switches passed, host port reached or None, last address."""
    tables, joined = machine
    ended, moving = [], [([joined[start][0]], address)]
    while moving:
        passed, now = moving.pop()
        assert len(passed) <= 5, "it goes round in circles"
        left, hops = tables[passed[-1]].forward(now)
        if not hops:
            ended.append((passed, None, left))
        for port, via in hops:
            node, far = joined[passed[-1], port]
            if node in tables:
                assert tables[node].own[far] == via
                moving.append(([*passed, node], left))
            else:
                assert via == "fe80::a"
                ended.append((passed, (node, far), left))
    return ended


def port_of(shape: Shape, nic: int, plane: int) -> tuple[str, int]:
    host, own = divmod(nic, shape.nics_per_host)
    return f"host{host}", own * shape.planes + plane


# proves C.1.2
@pytest.mark.slow
@given(shapes())
def test_each_path_passes_the_planned_switches_and_arrives(shape: Shape):
    plan = PathPlan.of(shape, AddressBlocks())
    built = machine(plan)
    for source in range(shape.hosts):
        for destination in {0, source, shape.hosts // 2, shape.hosts - 1}:
            for plane in range(shape.planes):
                for selector in plan.selectors():
                    path = plan.path(source, destination, plane, selector)
                    ((passed, reached, left),) = follow(built, port_of(shape, source, plane), path.address)
                    assert passed == [node.name for node in path.switches]
                    assert reached == port_of(shape, destination, plane)
                    assert left == plan.receive_address(destination, plane)


@given(shapes())
def test_plain_addresses_arrive_over_as_many_ways_as_there_are_paths(shape: Shape):
    plan = PathPlan.of(shape, AddressBlocks())
    built = machine(plan)
    for source in {0, shape.hosts - 1}:
        for destination in range(shape.hosts):
            ways = follow(built, port_of(shape, source, 0), plan.address(destination, 0))
            assert {reached for _, reached, _ in ways} == {port_of(shape, destination, 0)}
            planned = {
                tuple(node.name for node in plan.path(source, destination, 0, selector).switches)
                for selector in plan.selectors()
            }
            assert {tuple(passed) for passed, _, _ in ways} == planned
            assert len(ways) == len(planned)


@pytest.mark.slow
@given(shapes(), st.data())
def test_packets_to_unknown_addresses_are_dropped(shape: Shape, data: st.DataObject):
    plan = PathPlan.of(shape, AddressBlocks())
    built = machine(plan)
    blocks, start = plan.blocks, port_of(shape, 0, 0)
    last = shape.hosts - 1
    absent = [
        blocks.port(0, shape.t0s, 0),
        blocks.port(0, last // shape.hosts_per_t0, last % shape.hosts_per_t0 + 1),
        blocks.port(0, 0, shape.hosts_per_t0),
        blocks.port(shape.planes, 0, 0),
        blocks.usid.network_address + data.draw(st.integers(0, (1 << 96) - 1)),
        blocks.hosts.network_address + data.draw(st.integers(1 << 64, (1 << 96) - 1)),
    ]
    planned = {plan.address(nic, 0) for nic in range(shape.hosts)}
    for address in absent[:4]:
        assert {reached for _, reached, _ in follow(built, start, address)} == {None}
    for address in absent[4:]:
        for _, reached, left in follow(built, start, address):
            whole = IPv6Network((int(left), 80), strict=False)
            assert reached is None or left in plan.blocks.usid or any(one in whole for one in planned)


@given(shapes())
def test_ports_and_descriptions_are_those_of_the_cables(shape: Shape):
    plan = PathPlan.of(shape, AddressBlocks())
    joined = machine(plan)[1]
    for node in switches(shape):
        ports = switch_config(plan, node).ports
        said = {(node.name, port.number): (port.neighbour, port.neighbour_port) for port in ports}
        assert said == {end: far for end, far in joined.items() if end[0] == node.name}


# proves C.1.2
@given(shapes())
def test_tables_are_as_small_as_the_switch_has_neighbours(shape: Shape):
    plan = PathPlan.of(shape, AddressBlocks())
    for node in switches(shape):
        config = switch_config(plan, node)
        assert len(config.usid_routes) == len(config.ports) + 1
        assert len({route.prefix for route in config.usid_routes}) == len(config.usid_routes)
