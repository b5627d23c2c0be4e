"""What the links of a test bed have carried, as the kernel and the data plane count it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pyroute2.netlink.rtnl import RTM_GETLINK
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from openmrc.testbed.bed import TestBed
from openmrc.testbed.dataplane import DataPlane
from openmrc.testbed.netlink import Netlink

__all__ = ["LinkCounters", "link_counters"]


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """One direction of a link: what its sender put on it and what arrived at the other end.

    `carrier`: whether the sender's interface has one. `port`: the data plane's counters, empty where there is none.
    """

    node: str
    interface: str
    peer: str
    plane: int
    carrier: bool
    packets: int
    bytes: int
    port: dict[str, int]


def link_counters(bed: TestBed) -> Iterator[LinkCounters]:
    """Those of every interface of the bed, node by node.

    Raises:
        TestBedError: a namespace cannot be entered.
    """
    plane = None if bed.state.data_plane is None else DataPlane.open(bed.state.data_plane)
    try:
        for node in bed.layout.nodes():
            sent = _sent(bed.layout.namespace(node))
            for interface in bed.layout.interfaces(node):
                packets, total, carrier = sent[interface.name]
                ports: dict[str, Any] = {} if plane is None else asdict(plane.counters(interface.number))
                peer = bed.layout.peer(interface)
                yield LinkCounters(
                    node.name, interface.name, peer.node.name, interface.plane, carrier, packets, total, ports
                )
    finally:
        if plane is not None:
            plane.close()


def _sent(namespace: str) -> dict[str, tuple[int, int, bool]]:
    """Packets and bytes that each interface has sent, and whether it has a carrier."""
    found = {}
    with Netlink(namespace) as link:
        for data in link.dump(RTM_GETLINK, ifinfmsg()):
            answer = ifinfmsg(data)
            answer.decode()
            counts = answer.get_attr("IFLA_STATS64")
            carrier = bool(answer.get_attr("IFLA_CARRIER"))
            found[answer.get_attr("IFLA_IFNAME")] = (counts["tx_packets"], counts["tx_bytes"], carrier)
    return found
