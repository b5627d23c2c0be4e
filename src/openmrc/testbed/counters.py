"""Traffic of the links of a test bed, counted by the kernel and the data plane."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pyroute2.netlink.rtnl import RTM_GETLINK
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

from openmrc.linux.netlink import attributes
from openmrc.testbed.bed import TestBed
from openmrc.testbed.dataplane import DataPlane
from openmrc.testbed.netlink_batches import Netlink

__all__ = ["LinkCounters", "link_counters"]

_LINK_HEADERS_BYTES = 32  # of netlink, then of RTM_NEWLINK
_IFNAME, _STATS64, _CARRIER = 3, 23, 33  # IFLA_*


@dataclass(frozen=True, slots=True)
class LinkCounters:
    """One direction of a link: packets sent at one end, and received at the other.

    `carrier`: carrier of the sender's interface. `port`: the data plane's counters, empty without a data plane.
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
    """Counters of every interface of the test bed, node by node.

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
    """Packets and bytes sent by each interface, and True if it has a carrier.

    pyroute2 would decode some hundred other fields of every interface.
    """
    found = {}
    with Netlink(namespace) as link:
        for data in link.dump(RTM_GETLINK, ifinfmsg()):
            fields = attributes(data, _LINK_HEADERS_BYTES)
            _, packets, _, total = struct.unpack_from("=4Q", fields[_STATS64])
            name = fields[_IFNAME].rstrip(b"\0").decode()
            found[name] = (packets, total, fields[_CARRIER] == b"\1")
    return found
