"""Readiness of a test bed's addresses: the kernel makes an IPv6 address usable some time after its interface is up."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Iterable

from pyroute2.netlink.rtnl import RTM_GETADDR, RTM_GETROUTE
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.rtmsg import rtmsg

from openmrc.linux.netlink import attributes
from openmrc.testbed import messages
from openmrc.testbed.errors import TestBedError
from openmrc.testbed.netlink_batches import Netlink

__all__ = ["await_addresses"]

_LIMIT_S = 30.0
_PAUSE_S = 0.002
_ADDRESS_HEADERS_BYTES = 24  # of netlink, then of RTM_NEWADDR
_ROUTE_TYPE_AT, _RTN_LOCAL = 23, 2
_IFA_ADDRESS, _RTA_DST = 1, 1


def await_addresses(namespaces: Iterable[str]) -> None:
    """Returns once all IPv6 addresses of these namespaces can be bound and reached.

    All their interfaces must be up, as the addresses of others stay unusable.

    Raises:
        TestBedError: an address is unusable for half a minute.
    """
    deadline_s = time.monotonic() + _LIMIT_S
    for namespace in namespaces:
        with Netlink(namespace) as link:
            while missing := _unrouted(link):
                if time.monotonic() > deadline_s:
                    name = socket.inet_ntop(socket.AF_INET6, min(missing))
                    raise TestBedError(f"{namespace}: address {name} does not become usable")
                time.sleep(_PAUSE_S)
            # The kernel routes a forwarding interface's anycast address under the same lock, which this takes as well.
            link.change([messages.link_up(messages.LOOPBACK_INDEX)])


def _unrouted(link: Netlink) -> Counter[bytes]:
    """Addresses without their route in the table `local`; two interfaces may have the same address."""
    address, route = ifaddrmsg(), rtmsg()
    address["family"] = route["family"] = socket.AF_INET6
    own = Counter(attributes(found, _ADDRESS_HEADERS_BYTES)[_IFA_ADDRESS] for found in link.dump(RTM_GETADDR, address))
    routed = Counter(
        attributes(found, messages.ROUTE_HEADERS_BYTES)[_RTA_DST]
        for found in link.dump(RTM_GETROUTE, route)
        if found[_ROUTE_TYPE_AT] == _RTN_LOCAL
    )
    return own - routed
