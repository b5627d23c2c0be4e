"""The static routes of every node of a test bed, and nothing else ever changes them.

Three kinds of destination, each routed by itself: uSID lists (every switch knows its own uSID and those of its
neighbours), the NIC ports' own IPv6 addresses, and their IPv4 addresses (both with ECMP over the uplinks).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Literal

from openmrc.fabric.blocks import BLOCK_BITS
from openmrc.fabric.cabling import Node
from openmrc.srv6.paths import pack
from openmrc.srv6.usid import USID_BITS
from openmrc.testbed.layout import Interface, Layout

__all__ = ["MAIN_TABLE", "Hop", "Route", "Rule", "routes", "rules", "usid_prefix"]

MAIN_TABLE = 254
_FIRST_PORT_TABLE = 1000
_PORT_BITS = 80  # HOSTS:plane:t0:port::/80
Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Hop:
    """Out of this interface, to the neighbour with this link-local address."""

    interface: str
    via: IPv6Address


@dataclass(frozen=True, slots=True)
class Route:
    """Where packets to `prefix` go. Several hops: one of them by a hash of addresses, ports and flow label.

    `end`: a uSID of this very node, which shifts the list (seg6local End with next-csid). `source`: what the node's own
    packets come from unless their socket says otherwise.
    """

    prefix: Network
    hops: tuple[Hop, ...] = ()
    kind: Literal["unicast", "end", "unreachable"] = "unicast"
    source: IPv4Address | IPv6Address | None = None
    table: int = MAIN_TABLE


@dataclass(frozen=True, slots=True)
class Rule:
    """Packets from `source` follow the routes of `table`."""

    source: IPv4Address | IPv6Address
    table: int


def routes(layout: Layout, node: Node) -> tuple[Route, ...]:
    """All routes of a node."""
    if node.kind == "host":
        return tuple(_host_routes(layout, node))
    return (*_usid_routes(layout, node), *_plain_routes(layout, node))


def rules(layout: Layout, node: Node) -> tuple[Rule, ...]:
    """What keeps packets of one NIC on that NIC, where a host has several; otherwise nothing is needed."""
    if node.kind != "host" or layout.fabric.nics_per_host == 1:
        return ()
    return tuple(
        Rule(address.ip, _FIRST_PORT_TABLE + interface.port)
        for interface in layout.interfaces(node)
        for address in layout.addresses(interface)
    )


def usid_prefix(layout: Layout, usid: int) -> IPv6Network:
    """The /48 of all lists that begin with this uSID."""
    return IPv6Network((int(pack(layout.paths.blocks, [usid])), BLOCK_BITS + USID_BITS))


def _hop(layout: Layout, interface: Interface) -> Hop:
    return Hop(interface.name, layout.peer(interface).link_local)


def _host_routes(layout: Layout, host: Node) -> Iterator[Route]:
    several = layout.fabric.nics_per_host > 1
    together: dict[Network, list[Route]] = {}
    for interface in layout.interfaces(host):
        own, _, ipv4 = layout.addresses(interface)
        hops = (_hop(layout, interface),)
        t0 = usid_prefix(layout, layout.paths.usids.of(interface.peer.node))
        plane_ipv4 = _plane_ipv4(interface.plane)
        for prefix, source in (
            (t0, own.ip),
            (layout.paths.blocks.plane_prefix(interface.plane), own.ip),
            (plane_ipv4, ipv4.ip),
        ):
            route = Route(prefix, hops, source=source)
            together.setdefault(prefix, []).append(route)
            if several:
                yield Route(prefix, hops, source=source, table=_FIRST_PORT_TABLE + interface.port)
    for prefix, choices in together.items():
        yield Route(prefix, tuple(hop for route in choices for hop in route.hops), source=choices[0].source)


def _usid_routes(layout: Layout, switch: Node) -> Iterator[Route]:
    usids = layout.paths.usids
    yield Route(usid_prefix(layout, usids.of(switch)), kind="end")
    for interface in layout.interfaces(switch):
        neighbour = interface.peer.node
        usid = usids.nic(interface.plane, interface.port) if neighbour.kind == "host" else usids.of(neighbour)
        yield Route(usid_prefix(layout, usid), (_hop(layout, interface),))


def _plain_routes(layout: Layout, switch: Node) -> Iterator[Route]:
    """To the NIC ports below by the port that leads there; everything else of the plane over all uplinks."""
    assert switch.plane is not None
    plane, blocks = switch.plane, layout.paths.blocks
    uplinks = []
    for interface in layout.interfaces(switch):
        hop = _hop(layout, interface)
        if interface.kind in ("t0_up", "t1_up"):
            uplinks.append(hop)
        elif interface.kind == "nic_down":
            own = blocks.port(plane, switch.index, interface.port)
            yield Route(IPv6Network((own, _PORT_BITS), strict=False), (hop,))
            yield Route(IPv4Network(f"10.{plane}.{switch.index}.{interface.port + 1}/32"), (hop,))
        else:
            for t0 in _t0s_below(layout, interface):
                yield Route(blocks.t0_prefix(plane, t0), (hop,))
                yield Route(_t0_ipv4(plane, t0), (hop,))
    if switch.kind == "t0":  # a port that is not there must not be looked for above
        yield Route(blocks.t0_prefix(plane, switch.index), kind="unreachable")
        yield Route(_t0_ipv4(plane, switch.index), kind="unreachable")
    if uplinks:
        yield Route(blocks.plane_prefix(plane), tuple(uplinks))
        yield Route(_plane_ipv4(plane), tuple(uplinks))


def _t0s_below(layout: Layout, interface: Interface) -> range:
    """The T0s that a down port of a T1 or T2 leads to."""
    if interface.kind == "t1_down":
        return range(interface.peer.node.index, interface.peer.node.index + 1)
    per_pod = layout.fabric.t0s_per_pod
    return range(interface.port * per_pod, min((interface.port + 1) * per_pod, layout.fabric.t0s))


def _plane_ipv4(plane: int) -> IPv4Network:
    return IPv4Network(f"10.{plane}.0.0/16")


def _t0_ipv4(plane: int, t0: int) -> IPv4Network:
    return IPv4Network(f"10.{plane}.{t0}.0/24")
