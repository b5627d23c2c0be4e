"""The rtnetlink messages that create a test bed, one function per object."""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Address, IPv6Address, IPv6Interface
from typing import Any

from pyroute2.netlink.rtnl import (
    RTM_GETROUTE,
    RTM_NEWADDR,
    RTM_NEWLINK,
    RTM_NEWNEIGH,
    RTM_NEWQDISC,
    RTM_NEWROUTE,
    RTM_NEWRULE,
)
from pyroute2.netlink.rtnl.fibmsg import fibmsg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.ndmsg import ndmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg
from pyroute2.netlink.rtnl.tcmsg import sched_tbf, tcmsg

from openmrc.linux.netlink import attribute, attributes
from openmrc.testbed.layout import Address, Interface
from openmrc.testbed.netlink_batches import ADD, REPLACE, Message, Netlink
from openmrc.testbed.routes import Route, Rule

__all__ = [
    "LOOPBACK_INDEX",
    "OWN_USID_INDEX",
    "ROUTE_HEADERS_BYTES",
    "address",
    "bridge",
    "index_of",
    "link_local",
    "link_up",
    "management_veth",
    "neighbour",
    "route",
    "rule",
    "shaper",
    "shifts",
    "veth",
]

LOOPBACK_INDEX = 1
OWN_USID_INDEX = 3  # the interface with a switch's own uSID
_FIRST_INDEX = 10  # interface index: number plus this, so that no lookup is needed
_IFF_UP = 1
_IFA_F_NODAD_PERMANENT = 0x02 | 0x80
_NUD_PERMANENT = 0x80
_TC_ROOT = 0xFFFFFFFF
_RTPROT_STATIC = 4
_RTN = {"unicast": 1, "end": 1, "unreachable": 7}
_SEG6_LOCAL = 7  # LWTUNNEL_ENCAP_SEG6_LOCAL
_SEG6_LOCAL_FLAVORS = 11
_NESTED = 0x8000
ROUTE_HEADERS_BYTES = 28  # of netlink, then of RTM_NEWROUTE
_RTA_ENCAP = 22
_LINK_LOCAL_BITS = 64
_ETHERNET_HEADER_BYTES = 14


class _Route(rtmsg):  # type: ignore[misc]
    """A route with its encapsulation as bytes, since pyroute2 does not support flavors of seg6local."""

    __slots__ = ()
    nla_map = tuple((name, "cdata" if name == "RTA_ENCAP" else kind) for name, kind in rtmsg.nla_map)


def index_of(interface: Interface) -> int:
    """Index of the interface in its namespace."""
    return _FIRST_INDEX + interface.number


def _filled(message: Any, **fields: Any) -> Any:
    for name, value in fields.items():
        message[name] = value
    return message


def _end_next_csid() -> bytes:
    """Seg6local: End, with next-csid for a 32-bit block and 16-bit uSIDs."""
    next_csid = 1 << 4  # SEG6_LOCAL_FLV_OP_NEXT_CSID
    flavors = b"".join(
        (
            attribute(1, struct.pack("=I", next_csid)),
            attribute(2, struct.pack("=B", 32)),
            attribute(3, struct.pack("=B", 16)),
        )
    )
    return attribute(1, struct.pack("=I", 1)) + attribute(_SEG6_LOCAL_FLAVORS | _NESTED, flavors)


def veth(lower: Interface, upper: Interface, upper_namespace: int, mtus: tuple[int, int], segments_max: int) -> Message:
    """Creates both ends of a cable in their namespaces; `upper_namespace` is an open file of the other one.

    `segments_max`: number of packets of a burst that may cross it as one. With 1 senders segment packets themselves,
    and the fabric sees the packets of a real wire.
    """
    peer = {
        "index": index_of(upper),
        "attrs": [*_link_attributes(upper.name, upper.mac, mtus[1], segments_max), ["IFLA_NET_NS_FD", upper_namespace]],
    }
    own = _link_attributes(lower.name, lower.mac, mtus[0], segments_max)
    return _veth(index_of(lower), own, peer, f"link {lower.name}")


def management_veth(index: int, name: str, peer_index: int, peer_name: str, peer_namespace: int) -> Message:
    """Creates the cable of a host to the bridge of the management network, whose namespace is an open file."""
    peer = {"index": peer_index, "attrs": [["IFLA_IFNAME", peer_name], ["IFLA_NET_NS_FD", peer_namespace]]}
    return _veth(index, [["IFLA_IFNAME", name]], peer, f"link {name}")


def _veth(index: int, attributes: list[Any], peer: dict[str, Any], what: str) -> Message:
    data = {"attrs": [["VETH_INFO_PEER", peer]]}
    info = {"attrs": [["IFLA_INFO_KIND", "veth"], ["IFLA_INFO_DATA", data]]}
    return Message(RTM_NEWLINK, _filled(ifinfmsg(), index=index, attrs=[*attributes, ["IFLA_LINKINFO", info]]), what)


def _link_attributes(name: str, mac: str, mtu: int, segments_max: int) -> list[Any]:
    return [
        ["IFLA_IFNAME", name],
        ["IFLA_ADDRESS", mac],
        ["IFLA_MTU", mtu],
        ["IFLA_GSO_MAX_SEGS", segments_max],
    ]


def bridge(index: int, name: str) -> Message:
    """A bridge."""
    info = {"attrs": [["IFLA_INFO_KIND", "bridge"]]}
    body = _filled(ifinfmsg(), index=index, attrs=[["IFLA_IFNAME", name], ["IFLA_LINKINFO", info]])
    return Message(RTM_NEWLINK, body, f"bridge {name}")


def link_up(index: int, master: int | None = None) -> Message:
    """Sets an interface up, and makes it a port of a bridge."""
    attributes = [] if master is None else [["IFLA_MASTER", master]]
    body = _filled(ifinfmsg(), index=index, flags=_IFF_UP, change=_IFF_UP, attrs=attributes)
    return Message(RTM_NEWLINK, body, f"interface {index} up", REPLACE & ~0x500)


def shaper(index: int, rate_bps: int, burst_bytes: int, limit_bytes: int, framing_bytes: int) -> Message:
    """Sets the rate of a link, by tbf: packets beyond a backlog of `limit_bytes` are dropped.

    The kernel counts a packet with its Ethernet header; a longer framing is added to it.
    """
    options = sched_tbf.get_parameters({"rate": rate_bps // 8, "burst": burst_bytes, "limit": limit_bytes})
    options["attrs"][0][1]["rate_overhead"] = max(framing_bytes - _ETHERNET_HEADER_BYTES, 0)
    attributes = [["TCA_KIND", "tbf"], ["TCA_OPTIONS", options]]
    body = _filled(tcmsg(), index=index, parent=_TC_ROOT, handle=0x10000, attrs=attributes)
    return Message(RTM_NEWQDISC, body, f"the rate of interface {index}", REPLACE)


def address(index: int, value: Address) -> Message:
    """An address of an interface, valid at once."""
    text, family = str(value.ip), _family(value.ip)
    attributes: list[Any] = [["IFA_ADDRESS", text], ["IFA_FLAGS", _IFA_F_NODAD_PERMANENT]]
    if family == socket.AF_INET:
        attributes.append(["IFA_LOCAL", text])
    length = value.network.prefixlen
    body = _filled(ifaddrmsg(), family=family, prefixlen=length, index=index, attrs=attributes)
    return Message(RTM_NEWADDR, body, f"address {value}", REPLACE)


def link_local(index: int, interface: Interface) -> Message:
    """The link-local address of an interface."""
    return address(index, IPv6Interface((interface.link_local, _LINK_LOCAL_BITS)))


def neighbour(index: int, other: Interface) -> Message:
    """A permanent entry for the interface at the other end."""
    attributes = [["NDA_DST", str(other.link_local)], ["NDA_LLADDR", other.mac]]
    body = _filled(ndmsg(), family=socket.AF_INET6, ifindex=index, state=_NUD_PERMANENT, attrs=attributes)
    return Message(RTM_NEWNEIGH, body, f"neighbour {other.link_local}", REPLACE)


def route(value: Route, indexes: dict[str, int]) -> Message:
    """A static route; `indexes` are those of the node's interfaces by name."""
    prefix = value.prefix
    family = _family(prefix.network_address)
    attributes: list[Any] = [["RTA_DST", str(prefix.network_address)], ["RTA_TABLE", value.table]]
    if value.source is not None:
        attributes.append(["RTA_PREFSRC", str(value.source)])
    what = f"route {prefix}"
    if value.kind == "end":
        what = f"own uSID {prefix}"
        attributes += [["RTA_OIF", OWN_USID_INDEX], ["RTA_ENCAP_TYPE", _SEG6_LOCAL], ["RTA_ENCAP", _end_next_csid()]]
    elif len(value.hops) == 1:
        attributes += [["RTA_OIF", indexes[value.hops[0].interface]], _via(family, value.hops[0].via)]
    elif value.hops:
        hops = [
            {"oif": indexes[hop.interface], "hops": 0, "flags": 0, "attrs": [_via(family, hop.via)]}
            for hop in value.hops
        ]
        attributes.append(["RTA_MULTIPATH", hops])
    body = _filled(
        _Route(),
        family=family,
        dst_len=prefix.prefixlen,
        table=value.table if value.table < 256 else 0,
        proto=_RTPROT_STATIC,
        type=_RTN[value.kind],
        attrs=attributes,
    )
    return Message(RTM_NEWROUTE, body, what, REPLACE)


def shifts(link: Netlink) -> bool:
    """True if a namespace has a uSID that shifts; kernels without support ignore the request silently."""
    for data in link.dump(RTM_GETROUTE, _filled(rtmsg(), family=socket.AF_INET6)):
        fields = attributes(data, ROUTE_HEADERS_BYTES)
        if _SEG6_LOCAL_FLAVORS in attributes(fields.get(_RTA_ENCAP, b""), 0):
            return True
    return False


def rule(value: Rule) -> Message:
    """A rule that sends packets from an address to a table of their own."""
    length = value.source.max_prefixlen
    attributes = [["FRA_SRC", str(value.source)], ["FRA_TABLE", value.table]]
    family = _family(value.source)
    body = _filled(fibmsg(), family=family, src_len=length, action=1, attrs=attributes)
    return Message(RTM_NEWRULE, body, f"rule from {value.source}", ADD)


def _family(value: IPv4Address | IPv6Address) -> int:
    return socket.AF_INET if value.version == 4 else socket.AF_INET6


def _via(family: int, hop: IPv6Address) -> list[Any]:
    if family == socket.AF_INET:
        return ["RTA_VIA", {"family": socket.AF_INET6, "addr": str(hop)}]
    return ["RTA_GATEWAY", str(hop)]
