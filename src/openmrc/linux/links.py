"""The kernel's lists of links and addresses from rtnetlink: of this network namespace, without privileges.

/sys/class/net may show another namespace's interfaces if it was not mounted again; rtnetlink cannot.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface, ip_interface

from openmrc.errors import DeviceError
from openmrc.linux import netlink

__all__ = [
    "AddressRecord",
    "LinkRecord",
    "addresses_in",
    "dump_addresses",
    "dump_links",
    "link_changes_in",
    "links_in",
    "links_request",
]

_RTM_NEWLINK = 16
_RTM_DELLINK = 17
_RTM_GETLINK = 18
_RTM_NEWADDR = 20
_RTM_GETADDR = 22

_IFF_UP = 0x1
_IFF_RUNNING = 0x40
_IFF_DORMANT = 0x20000

_IFLA_IFNAME = 3
_IFLA_MTU = 4
_IFLA_LINK = 5
_IFLA_MASTER = 10
_IFLA_LINKINFO = 18
_IFLA_CARRIER = 33
_IFLA_LINK_NETNSID = 37
_INFO_KIND = 1
_IFA_ADDRESS = 1
_IFA_LOCAL = 2
_IFA_FLAGS = 8

_LINK = struct.Struct("=BxHiII")  # family, device type, index, flags, change
_ADDRESS = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, index
_U32 = struct.Struct("=I")


@dataclass(frozen=True, slots=True)
class LinkRecord:
    """One link: `device_type` is ARPHRD_*, `flags` IFF_*, `kind` the type for `ip link add type`, "" for hardware.

    `lower` is the index of the link below in this network namespace, 0: none.
    """

    index: int
    name: str
    device_type: int
    flags: int
    mtu: int
    carrier: bool
    kind: str
    lower: int
    master: int

    @property
    def passes_frames(self) -> bool:
        """True if the link is up, has a carrier, and waits for no authentication.

        Not by IFF_RUNNING: the kernel sets it up to a second after the carrier, so that a new link would first look
        down.
        """
        return self.carrier and self.flags & (_IFF_UP | _IFF_DORMANT) == _IFF_UP

    @property
    def settled(self) -> bool:
        """True if the link is down, or the kernel has noticed its carrier; until then it drops what it should send."""
        return self.flags & (_IFF_UP | _IFF_RUNNING) != _IFF_UP


@dataclass(frozen=True, slots=True)
class AddressRecord:
    """One address of the link with number `index`; `flags` are IFA_F_*."""

    index: int
    address: IPv4Interface | IPv6Interface
    flags: int


def links_request() -> bytes:
    """Request for a dump of all links."""
    return netlink.encoded(_RTM_GETLINK, netlink.REQUEST | netlink.DUMP, _LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0))


def dump_links() -> list[LinkRecord]:
    """All links of this network namespace, by index.

    Raises:
        DeviceError: the kernel refuses.
    """
    return links_in(_dump(_RTM_GETLINK, _LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0)))


def dump_addresses() -> list[AddressRecord]:
    """All addresses of this network namespace.

    Raises:
        DeviceError: the kernel refuses.
    """
    return addresses_in(_dump(_RTM_GETADDR, _ADDRESS.pack(socket.AF_UNSPEC, 0, 0, 0, 0)))


def links_in(data: bytes) -> list[LinkRecord]:
    """The links in netlink messages; other messages are skipped."""
    return sorted((_link(body) for body in _bodies(data, _RTM_NEWLINK)), key=lambda link: link.index)


def link_changes_in(data: bytes) -> Iterator[tuple[bool, LinkRecord]]:
    """Each link in netlink messages, with True if it is gone; other messages are skipped."""
    for kind, _sequence, body in netlink.messages(data):
        # A port of a bridge sends notices of family AF_BRIDGE about itself, too.
        if kind in (_RTM_NEWLINK, _RTM_DELLINK) and len(body) >= _LINK.size and body[0] == socket.AF_UNSPEC:
            yield kind == _RTM_DELLINK, _link(body)


def addresses_in(data: bytes) -> list[AddressRecord]:
    """The addresses in netlink messages; other messages are skipped."""
    records = (_address(body) for body in _bodies(data, _RTM_NEWADDR))
    return [record for record in records if record is not None]


def _dump(kind: int, body: bytes) -> bytes:
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as asked:
            asked.bind((0, 0))
            return netlink.dump(asked, kind, body)
    except OSError as error:
        raise DeviceError(error.errno, "cannot list network interfaces") from error


def _bodies(data: bytes, wanted: int) -> Iterator[bytes]:
    return (one.body for one in netlink.messages(data) if one.kind == wanted)


def _link(body: bytes) -> LinkRecord:
    _family, device_type, index, flags, _change = _LINK.unpack_from(body)
    attributes = netlink.attributes(body[_LINK.size :])
    details = netlink.attributes(attributes.get(_IFLA_LINKINFO, b""))
    return LinkRecord(
        index=index,
        name=_text(attributes.get(_IFLA_IFNAME, b"")),
        device_type=device_type,
        flags=flags,
        mtu=_number(attributes.get(_IFLA_MTU)),
        carrier=attributes.get(_IFLA_CARRIER, b"\0")[0] == 1,
        kind=_text(details.get(_INFO_KIND, b"")),
        lower=0 if _IFLA_LINK_NETNSID in attributes else _number(attributes.get(_IFLA_LINK)),
        master=_number(attributes.get(_IFLA_MASTER)),
    )


def _address(body: bytes) -> AddressRecord | None:
    family, prefix, short_flags, _scope, index = _ADDRESS.unpack_from(body)
    attributes = netlink.attributes(body[_ADDRESS.size :])
    # For a point-to-point link IFA_ADDRESS is the other end's.
    packed = attributes.get(_IFA_LOCAL) or attributes.get(_IFA_ADDRESS)
    if packed is None or family not in (socket.AF_INET, socket.AF_INET6):
        return None
    flags = _number(attributes[_IFA_FLAGS]) if _IFA_FLAGS in attributes else short_flags
    return AddressRecord(index, ip_interface((packed, prefix)), flags)


def _text(packed: bytes) -> str:
    return packed.rstrip(b"\0").decode(errors="replace")


def _number(packed: bytes | None) -> int:
    return _U32.unpack(packed)[0] if packed is not None and len(packed) == _U32.size else 0
