"""Tests the kernel features of a test bed, in a network namespace that ends with this process.

A separate program, since a process can only leave its namespaces for good: prints one JSON object of `NamespaceFacts`.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
from dataclasses import asdict, dataclass, replace

from openmrc.linux import netlink
from openmrc.linux.netlink import attribute

__all__ = ["NamespaceFacts", "probe_namespace"]

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_RTM_NEWLINK = 16
_RTM_NEWROUTE = 24
_RTM_GETROUTE = 26
_NESTED = 0x8000
_INDEX = 10
_IFF_UP = 1
_LINK = struct.Struct("=BxHiII")
_ROUTE = struct.Struct("=BBBBBBBBI")
_SEG6_LOCAL = 7
_FLAVORS = 11
_NEXT_CSID = 1 << 4
_SECONDS = 10
_USID = socket.inet_pton(socket.AF_INET6, "fcbb:bb00:1::")


@dataclass(frozen=True, slots=True)
class NamespaceFacts:
    """Results of the tests, in this order; tests after a failure were skipped.

    Args:
        made: A network namespace could be created.
        by_user: It required a user namespace, for lack of privileges.
        links: A veth pair could be created in it.
        seg6local: A route with an SRv6 action was accepted.
        next_csid: The route shifts uSIDs.
        reason: The kernel's error at the first failure.
    """

    made: bool = False
    by_user: bool = False
    links: bool = False
    seg6local: bool = False
    next_csid: bool = False
    reason: str = ""


def probe_namespace() -> NamespaceFacts:
    """Runs this module as a program, which leaves nothing behind."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name if __name__ == "__main__" else __name__],
            capture_output=True, text=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
        return NamespaceFacts(**json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return NamespaceFacts(reason=f"the trial ended early: {error}")


def main() -> None:
    """Leaves this process's namespaces, runs the tests, and prints the results."""
    sys.stdout.write(json.dumps(asdict(_tried())))


def _tried() -> NamespaceFacts:
    by_user = False
    try:
        try:
            _unshare(_CLONE_NEWNET)
        except PermissionError:
            _unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
            by_user = True
    except OSError as error:
        return NamespaceFacts(reason=error.strerror or str(error))
    facts = NamespaceFacts(made=True, by_user=by_user)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
            link.settimeout(2)
            _change(link, _RTM_NEWLINK, _veth())
            facts = replace(facts, links=True)
            _change(link, _RTM_NEWROUTE, _shifting_route())
            facts = replace(facts, seg6local=True)
            return replace(facts, next_csid=_shifts(link))
    except OSError as error:
        return replace(facts, reason=error.strerror or str(error))


def _unshare(what: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(what) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _veth() -> bytes:
    details = attribute(1, b"veth\0")
    return _LINK.pack(0, 0, _INDEX, _IFF_UP, _IFF_UP) + attribute(3, b"try0\0") + attribute(18, details)


def _shifting_route() -> bytes:
    """`fcbb:bb00:1::/48 encap seg6local action End flavors next-csid lblen 32 nflen 16 dev try0`."""
    flavors = attribute(1, struct.pack("=I", _NEXT_CSID)) + attribute(2, b"\x20") + attribute(3, b"\x10")
    action = attribute(1, struct.pack("=I", 1)) + attribute(_FLAVORS | _NESTED, flavors)
    attributes = (
        attribute(1, _USID)
        + attribute(4, struct.pack("=I", _INDEX))
        + attribute(21, struct.pack("=H", _SEG6_LOCAL))
        + attribute(22 | _NESTED, action)
    )
    main_table, static, universe, unicast = 254, 4, 0, 1
    return _ROUTE.pack(socket.AF_INET6, 48, 0, 0, main_table, static, universe, unicast, 0) + attributes


def _change(link: socket.socket, kind: int, body: bytes) -> None:
    link.send(netlink.encoded(kind, netlink.REQUEST | netlink.ACK | netlink.CREATE | netlink.EXCL, body))
    for received in netlink.messages(link.recv(1 << 16)):
        if error := netlink.error_number(received.body):
            raise OSError(error, os.strerror(error))


def _shifts(link: socket.socket) -> bool:
    """True if the route has kept its flavors: kernels without next-csid drop them silently."""
    routes = netlink.dump(link, _RTM_GETROUTE, _ROUTE.pack(socket.AF_INET6, 0, 0, 0, 0, 0, 0, 0, 0))
    wanted = struct.pack("=HH", 8, 1) + struct.pack("=I", _NEXT_CSID)
    return any(wanted in route.body for route in netlink.messages(routes) if _USID in route.body)


if __name__ == "__main__":
    main()
