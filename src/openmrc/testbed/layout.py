"""Layout of a test bed: namespaces, interfaces, addresses, routes. Arithmetic alone, without the kernel.

Every node of the fabric is a network namespace, every cable a veth pair. All routes are static and all neighbours
permanent, so no address resolution crosses a deliberately broken link. IPv4 routes use the IPv6 neighbours (RFC 5549),
so switches have no IPv4 address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Interface, IPv4Network, IPv6Address, IPv6Interface

from openmrc.errors import ConfigError
from openmrc.fabric import Fabric
from openmrc.fabric.cabling import Cable, Node, PortRef, cables, count, down_ports, switches
from openmrc.fabric.model import PortKind
from openmrc.srv6.configs.model import LOWER_END, UPPER_END
from openmrc.srv6.nic_paths import nic_paths
from openmrc.srv6.paths import PathPlan
from openmrc.srv6.rules import NicPaths

__all__ = ["MANAGEMENT", "NAME_CHARACTERS_MAX", "Address", "Interface", "Layout"]

NAME_CHARACTERS_MAX = 15  # of an interface: IFNAMSIZ less the final zero
MANAGEMENT = "mgmt0"
_MANAGEMENT_NETWORK = IPv4Network("192.168.0.0/16")
_PORTS_MAX = 250  # down ports of a T0, T0s, planes: an IPv4 address has eight bits for each
_BED_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_EGRESS: dict[tuple[str, bool], PortKind] = {
    ("nic", True): "nic_up",
    ("nic", False): "nic_down",
    ("t0", True): "t0_up",
    ("t0", False): "t1_down",
    ("t1", True): "t1_up",
    ("t1", False): "t2_down",
}

Address = IPv4Interface | IPv6Interface


@dataclass(frozen=True, slots=True)
class Interface:
    """One end of a cable. `kind` is that of its port; `number`, from 1, is unique in the test bed.

    `peer` is the port at the other end of the cable.
    """

    node: Node
    port: int
    name: str
    kind: PortKind
    plane: int
    number: int
    peer: PortRef

    @property
    def mac(self) -> str:
        """Locally administered, with the number in its last four bytes."""
        return "02:6d:" + self.number.to_bytes(4, "big").hex(":")

    @property
    def link_local(self) -> IPv6Address:
        """Next-hop address for the routes of the other end; as in the switches' configuration."""
        return IPv6Address(LOWER_END if self.kind in ("nic_up", "t0_up", "t1_up") else UPPER_END)


@dataclass(frozen=True)
class Layout:
    """A fabric as namespaces and interfaces; `name` is that of the test bed and the prefix of all its namespaces."""

    fabric: Fabric
    name: str
    paths: PathPlan

    @classmethod
    def of(cls, fabric: Fabric, name: str) -> Layout:
        """The layout of a fabric.

        Raises:
            ConfigError: a name that is invalid as a prefix of namespaces, a fabric too large for the addresses, or an
                interface name that is too long for the kernel.
        """
        if not _BED_NAME.fullmatch(name):
            raise ConfigError("name", name, "up to 32 small letters, digits and '-', a letter first")
        for field, value in (("planes", fabric.planes), ("T0s", fabric.t0s), ("hosts per T0", fabric.hosts_per_t0)):
            if value > _PORTS_MAX:
                raise ConfigError(field, value, f"at most {_PORTS_MAX} in a test bed", hint="simulate it: openmrc sim")
        if fabric.unlike:
            raise ConfigError("planes", "settings for each plane", "equal planes in a test bed", hint="planes: 4")
        layout = cls(fabric, name, PathPlan.of(fabric, fabric.addresses))
        longest = max((interface.name for interface in layout.all_interfaces()), key=len)
        if len(longest) > NAME_CHARACTERS_MAX:
            raise ConfigError(
                "interface", longest, f"at most {NAME_CHARACTERS_MAX} characters", hint="fewer NICs per host or planes"
            )
        return layout

    def nodes(self) -> Iterator[Node]:
        """All hosts, then all switches, plane by plane."""
        for host in range(count(self.fabric, "host")):
            yield Node("host", host)
        yield from switches(self.fabric)

    def hosts(self) -> Iterator[Node]:
        """All hosts."""
        return (node for node in self.nodes() if node.kind == "host")

    def node(self, name: str) -> Node:
        """The node of a name, `host3` or `p0-t0-3`.

        Raises:
            ConfigError: the fabric has no such node.
        """
        try:
            return next(node for node in self.nodes() if node.name == name)
        except StopIteration:
            known = [node.name for node in self.nodes()]
            raise ConfigError("node", name, f"{known[0]}, ..., {known[-1]}") from None

    def namespace(self, node: Node) -> str:
        """Name of a node's namespace: `BED-p0-t0-3`."""
        return f"{self.name}-{node.name}"

    @property
    def management_namespace(self) -> str:
        """Name of the namespace with the bridge of the management network."""
        return f"{self.name}-mgmt"

    def namespaces(self) -> list[str]:
        """Names of all namespaces of the bed."""
        return [self.management_namespace, *(self.namespace(node) for node in self.nodes())]

    def interfaces(self, node: Node) -> tuple[Interface, ...]:
        """The node's ends of cables, by port."""
        return self._interfaces[node]

    def nic_paths(self, host: Node) -> NicPaths:
        """The path file of the only NIC of a host: its ports with their interfaces and rates, and the paths."""
        names = [interface.name for interface in self.interfaces(host)]
        fabric = self.fabric
        return nic_paths(self.paths, host.index, names, rate_bps=fabric.rate_bps, base_rtt_us=fabric.base_rtt_us)

    def all_interfaces(self) -> Iterator[Interface]:
        """All ends of cables, by number."""
        return iter(sorted((port for ports in self._interfaces.values() for port in ports), key=lambda i: i.number))

    def interface(self, node: Node, port: int) -> Interface:
        """The end of a cable at this port.

        Raises:
            KeyError: nothing is connected to it.
        """
        return self._by_port[PortRef(node, port)]

    def peer(self, interface: Interface) -> Interface:
        """The other end of the cable."""
        return self._by_port[interface.peer]

    def nic(self, interface: Interface) -> int:
        """The NIC of this host's interface, counted through the fabric."""
        own = interface.port // self.fabric.planes
        return interface.node.index * self.fabric.nics_per_host + own

    def addresses(self, interface: Interface) -> tuple[Address, ...]:
        """All but link-local: the NIC port's own address, the last one of uSID lists, and the IPv4 one."""
        if interface.kind != "nic_up":
            return ()
        nic, plane = self.nic(interface), interface.plane
        return (
            IPv6Interface(self.paths.address(nic, plane)),
            IPv6Interface(self.paths.receive_address(nic, plane)),
            self.ipv4(nic, plane),
        )

    def ipv4(self, nic: int, plane: int) -> IPv4Interface:
        """The NIC port's IPv4 address, `10.PLANE.T0.PORT`; ports count from 1 here."""
        t0, down = divmod(nic, self.fabric.hosts_per_t0)
        return IPv4Interface(f"10.{plane}.{t0}.{down + 1}/32")

    def management_address(self, host: Node) -> IPv4Interface:
        """The host's address on the management network, at its interface `mgmt0`."""
        return IPv4Interface((int(_MANAGEMENT_NETWORK.network_address) + host.index + 1, 16))

    @cached_property
    def _by_port(self) -> dict[PortRef, Interface]:
        ends: dict[PortRef, Interface] = {}
        for number, cable in enumerate(cables(self.fabric)):
            ends[cable.lower] = self._end(cable, lower=True, number=2 * number + 1)
            ends[cable.upper] = self._end(cable, lower=False, number=2 * number + 2)
        return ends

    @cached_property
    def _interfaces(self) -> dict[Node, tuple[Interface, ...]]:
        found: dict[Node, list[Interface]] = {node: [] for node in self.nodes()}
        for end in self._by_port.values():
            found[end.node].append(end)
        return {node: tuple(sorted(ends, key=lambda end: end.port)) for node, ends in found.items()}

    def _end(self, cable: Cable, *, lower: bool, number: int) -> Interface:
        own, peer = (cable.lower, cable.upper) if lower else (cable.upper, cable.lower)
        name = self._interface_name(own)
        return Interface(own.node, own.port, name, _EGRESS[cable.tier, lower], cable.plane, number, peer)

    def _interface_name(self, port: PortRef) -> str:
        if port.node.kind == "host":
            nic, plane = divmod(port.port, self.fabric.planes)
            return f"eth{plane}" if self.fabric.nics_per_host == 1 else f"nic{nic}eth{plane}"
        down = down_ports(self.fabric, port.node.kind)
        return f"down{port.port}" if port.port < down else f"up{port.port - down}"
