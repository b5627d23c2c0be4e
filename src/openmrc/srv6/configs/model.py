"""Vendor-neutral configuration of a switch or a host.

Addresses of links are link-local and the same on every link: the end nearer to the hosts is `fe80::a`, the other one
`fe80::b`. A cable that is moved to the same port of another switch thus needs no new configuration at its far end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from openmrc.fabric.cabling import Node

__all__ = ["LOWER_END", "UPPER_END", "Hop", "HostConfig", "HostPort", "Port", "Route", "SwitchConfig"]

LOWER_END = "fe80::a"
UPPER_END = "fe80::b"


class Hop(NamedTuple):
    """Next hop of a route: a port, and the neighbour's link-local address."""

    port: int
    via: str


class Port(NamedTuple):
    """A port with a cable: its number, our address on the link and the node at the other end."""

    number: int
    own: str
    neighbour: str
    neighbour_port: int

    @property
    def description(self) -> str:
        """The node at the other end, in words: `p0-t1-2 port 5`."""
        return f"{self.neighbour} port {self.neighbour_port}"


class Route(NamedTuple):
    """A static route. Several hops share the flows by hash; without a hop, packets are dropped."""

    prefix: str
    hops: tuple[Hop, ...]


@dataclass(frozen=True, slots=True)
class SwitchConfig:
    """Complete configuration of a switch: its uSID, its ports and its routes, all static.

    `block` is the /32 of the uSIDs, `locator` the /48 of the switch's own. `usid_routes` apply after a shift,
    `host_routes` to the NIC ports' own addresses; both end with a route that drops addresses outside the fabric.
    """

    node: Node
    block: str
    locator: str
    usid: int
    ports: tuple[Port, ...]
    usid_routes: tuple[Route, ...]
    host_routes: tuple[Route, ...]


@dataclass(frozen=True, slots=True)
class HostPort:
    """A NIC port: its own address, the address on which uSID packets arrive, and the prefixes reached through it.

    `plane_prefix` holds the NIC ports of the plane; `t0_prefix` is the /48 of the T0's uSID, with which every path of
    this port starts. `nic` counts within the host.
    """

    number: int
    nic: int
    plane: int
    address: str
    receive: str
    plane_prefix: str
    t0_prefix: str
    neighbour: str
    neighbour_port: int


@dataclass(frozen=True, slots=True)
class HostConfig:
    """Complete configuration of a host. `block` is the /32 of the uSIDs, `hosts` that of the ports' own addresses."""

    node: Node
    block: str
    hosts: str
    ports: tuple[HostPort, ...]
