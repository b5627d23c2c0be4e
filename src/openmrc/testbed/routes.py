"""The static routes of every node of a test bed; nothing else changes them.

Three kinds of destination, each routed independently: uSID lists (every switch knows its own uSID and those of its
neighbours), the NIC ports' own IPv6 addresses, and their IPv4 addresses (both with ECMP over the uplinks).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Literal

from openmrc.fabric.address_blocks import BLOCK_BITS, FIELD_BITS
from openmrc.fabric.cabling import Node
from openmrc.srv6.configs.derive import switch_config
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
    """Next hop: an interface, and the neighbour's link-local address."""

    interface: str
    via: IPv6Address


@dataclass(frozen=True, slots=True)
class Route:
    """Route of packets to `prefix`. Several hops: one of them by a hash of addresses, ports and flow label.

    `end`: a uSID of this node, which shifts the list (seg6local End with next-csid). `source`: default source of the
    node's own packets.
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
    return tuple(_switch_routes(layout, node))


def rules(layout: Layout, node: Node) -> tuple[Rule, ...]:
    """Rules that keep packets of one NIC on that NIC, if a host has several; otherwise none."""
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


def _switch_routes(layout: Layout, switch: Node) -> Iterator[Route]:
    """Routes of the switch's configuration, as written by `openmrc plan --out`, and IPv4 beside IPv6."""
    config = switch_config(layout.paths, switch)
    names = {interface.port: interface.name for interface in layout.interfaces(switch)}
    yield Route(IPv6Network(config.locator), kind="end")
    for written in (*config.usid_routes, *config.host_routes):
        hops = tuple(Hop(names[hop.port], IPv6Address(hop.via)) for hop in written.hops)
        kind: Literal["unicast", "unreachable"] = "unicast" if hops else "unreachable"
        prefix = IPv6Network(written.prefix)
        yield Route(prefix, hops, kind)
        if written in config.host_routes and prefix.prefixlen > BLOCK_BITS:
            yield Route(_ipv4_beside(prefix), hops, kind)


def _ipv4_beside(prefix: IPv6Network) -> IPv4Network:
    """10.PLANE.T0.(down port + 1) for the same NIC ports."""
    fields = int(prefix.network_address) >> 128 - _PORT_BITS
    plane, t0, down = (fields >> shift & 0xFFFF for shift in (2 * FIELD_BITS, FIELD_BITS, 0))
    if prefix.prefixlen == _PORT_BITS:
        return IPv4Network(f"10.{plane}.{t0}.{down + 1}/32")
    within_plane = prefix.prefixlen - BLOCK_BITS - FIELD_BITS  # 0: the plane; 16: one T0; between: several
    length = 16 if within_plane == 0 else 24 - (FIELD_BITS - within_plane)
    return IPv4Network(f"10.{plane}.{t0}.0/{length}")


def _plane_ipv4(plane: int) -> IPv4Network:
    return IPv4Network(f"10.{plane}.0.0/16")
