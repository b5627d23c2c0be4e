"""Effects of faults on the links of a test bed: settings of the data plane, and interfaces set down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pyroute2.netlink.rtnl import RTM_NEWLINK
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from openmrc.fabric.cabling import Node
from openmrc.testbed import messages
from openmrc.testbed.bed import TestBed
from openmrc.testbed.dataplane import DataPlane
from openmrc.testbed.dataplane_layout import PortEffects, PortSettings
from openmrc.testbed.layout import Interface
from openmrc.testbed.netlink_batches import Message, Netlink
from openmrc.testbed.routes import routes

__all__ = ["set_effects", "set_links"]

_REQUEST_ACK = 1 | 4
_IFF_UP = 1


def set_effects(bed: TestBed, before: Mapping[Interface, PortEffects], after: Mapping[Interface, PortEffects]) -> None:
    """Applies the effects on their links to ports; requires a data plane.

    Args:
        bed: The test bed.
        before: Earlier effects; missing ports had none.
        after: New effects.

    Raises:
        DataPlaneUnavailableError: this process lacks access to the data plane.
        TestBedError: the kernel refused.
    """
    assert bed.state.data_plane is not None
    well = PortEffects()
    changed = [each for each in before.keys() | after.keys() if before.get(each, well) != after.get(each, well)]
    with DataPlane.open(bed.state.data_plane) as plane:
        slower = []
        for interface in changed:
            effects = after.get(interface, well)
            settings = replace(PortSettings.of(bed.fabric, interface.kind), effects=effects)
            plane.configure(interface.number, settings)
            if before.get(interface, well).rate_ppm != effects.rate_ppm:
                slower.append((interface, settings))
        for interface, settings in slower:  # takes the kernel up to a second, so last
            with Netlink(bed.layout.namespace(interface.node)) as link:
                plane.change_rate(link, messages.index_of(interface), settings)


def set_links(bed: TestBed, changed: Iterable[Interface], down: frozenset[Interface]) -> None:
    """Sets the upper ends of cables down, or up again with all that the kernel removed.

    The lower end, a NIC or a switch nearer to the hosts, loses its carrier and keeps its routes.

    Args:
        bed: The test bed.
        changed: The upper ends.
        down: Set `changed` interfaces down if listed here, up otherwise.

    Raises:
        TestBedError: the kernel refused.
    """
    for node, interfaces in _by_node(changed):
        with Netlink(bed.layout.namespace(node)) as link:
            for interface in interfaces:
                link.change([_set_down(interface)] if interface in down else list(_set_up(bed, interface, down)))


def _set_down(interface: Interface) -> Message:
    body = ifinfmsg()
    body["index"], body["flags"], body["change"] = messages.index_of(interface), 0, _IFF_UP
    return Message(RTM_NEWLINK, body, f"interface {interface.name} down", _REQUEST_ACK)


def _set_up(bed: TestBed, interface: Interface, down: frozenset[Interface]) -> Iterator[Message]:
    """The interface's part of its node's configuration; routes omit hops that are still down."""
    layout, node, index = bed.layout, interface.node, messages.index_of(interface)
    yield messages.link_local(index, interface)
    yield messages.link_up(index)
    yield messages.neighbour(index, layout.peer(interface))
    lost = {other.name for other in down if other.node == node}
    indexes = {other.name: messages.index_of(other) for other in layout.interfaces(node)}
    for route in routes(layout, node):
        hops = tuple(hop for hop in route.hops if hop.interface not in lost)
        if any(hop.interface == interface.name for hop in hops):
            yield messages.route(replace(route, hops=hops), indexes)


def _by_node(interfaces: Iterable[Interface]) -> Iterator[tuple[Node, list[Interface]]]:
    found: dict[Node, list[Interface]] = {}
    for interface in interfaces:
        found.setdefault(interface.node, []).append(interface)
    yield from found.items()
