"""Tries out what a test bed needs of the kernel, in a network namespace that goes with this process.

A program of its own, as a process can only leave its namespaces for good: prints one JSON object of `NamespaceFacts`.
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

__all__ = ["NamespaceFacts", "probe_namespace"]

_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_REQUEST_ACK = 0x5
_CREATE_EXCLUSIVE = 0x600
_RTM_NEWLINK = 16
_RTM_NEWROUTE = 24
_RTM_GETROUTE = 26
_DUMP = 0x301
_NESTED = 0x8000
_INDEX = 10
_IFF_UP = 1
_HEADER = struct.Struct("=IHHII")
_LINK = struct.Struct("=BxHiII")
_ROUTE = struct.Struct("=BBBBBBBBI")
_SEG6_LOCAL = 7
_FLAVORS = 11
_NEXT_CSID = 1 << 4
_SECONDS = 10
_USID = socket.inet_pton(socket.AF_INET6, "fcbb:bb00:1::")


@dataclass(frozen=True, slots=True)
class NamespaceFacts:
    """What worked, in this order; what follows a failure was not tried.

    Args:
        made: A network namespace could be made.
        by_user: It took a user namespace: this process may not do it as it is.
        links: A veth pair could be made in it.
        seg6local: A route with an SRv6 action was taken.
        next_csid: And it shifts uSIDs.
        reason: What the kernel said at the first failure.
    """

    made: bool = False
    by_user: bool = False
    links: bool = False
    seg6local: bool = False
    next_csid: bool = False
    reason: str = ""


def probe_namespace() -> NamespaceFacts:
    """Runs this module as a program; nothing of it is left afterwards."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name if __name__ == "__main__" else __name__],
            capture_output=True, text=True, timeout=_SECONDS, check=False,
        )  # fmt: skip
        return NamespaceFacts(**json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return NamespaceFacts(reason=f"the trial ended early: {error}")


def main() -> None:
    """Leaves this process's namespaces, tries, and prints what worked."""
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


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", len(value) + 4, kind) + value + bytes(-len(value) % 4)


def _veth() -> bytes:
    details = _attribute(1, b"veth\0")
    return _LINK.pack(0, 0, _INDEX, _IFF_UP, _IFF_UP) + _attribute(3, b"try0\0") + _attribute(18, details)


def _shifting_route() -> bytes:
    """`fcbb:bb00:1::/48 encap seg6local action End flavors next-csid lblen 32 nflen 16 dev try0`."""
    flavors = _attribute(1, struct.pack("=I", _NEXT_CSID)) + _attribute(2, b"\x20") + _attribute(3, b"\x10")
    action = _attribute(1, struct.pack("=I", 1)) + _attribute(_FLAVORS | _NESTED, flavors)
    attributes = (
        _attribute(1, _USID)
        + _attribute(4, struct.pack("=I", _INDEX))
        + _attribute(21, struct.pack("=H", _SEG6_LOCAL))
        + _attribute(22 | _NESTED, action)
    )
    main_table, static, universe, unicast = 254, 4, 0, 1
    return _ROUTE.pack(socket.AF_INET6, 48, 0, 0, main_table, static, universe, unicast, 0) + attributes


def _change(link: socket.socket, kind: int, body: bytes) -> None:
    flags = _REQUEST_ACK | _CREATE_EXCLUSIVE
    link.send(_HEADER.pack(_HEADER.size + len(body), kind, flags, 1, 0) + body)
    error = -struct.unpack_from("=i", link.recv(1 << 16), _HEADER.size)[0]
    if error:
        raise OSError(error, os.strerror(error))


def _shifts(link: socket.socket) -> bool:
    """Whether the route has kept its flavors: kernels that do not know them drop them silently."""
    body = _ROUTE.pack(socket.AF_INET6, 0, 0, 0, 0, 0, 0, 0, 0)
    link.send(_HEADER.pack(_HEADER.size + len(body), _RTM_GETROUTE, _DUMP, 2, 0) + body)
    wanted = struct.pack("=HH", 8, 1) + struct.pack("=I", _NEXT_CSID)
    return any(wanted in message for message in _dumped(link) if _USID in message)


def _dumped(link: socket.socket) -> list[bytes]:
    found: list[bytes] = []
    while True:
        data = link.recv(1 << 17)
        while len(data) >= _HEADER.size:
            length, kind, *_rest = _HEADER.unpack_from(data)
            if kind == 3 or length < _HEADER.size:  # NLMSG_DONE
                return found
            found.append(data[:length])
            data = data[length + 3 & ~3 :]


if __name__ == "__main__":
    main()
