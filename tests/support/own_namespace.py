"""Moves a test process into a network namespace of its own, if permitted.

Addresses, ports, abstract sockets and interface names belong to a network namespace, the folders of named namespaces
and of test beds to a mount namespace. With one of each, test processes share none of them: workers of one run, or runs
of several checkouts.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_REC, MS_SLAVE = 0x4000, 0x80000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
PRIVATE_FOLDERS = (Path("/run/netns"), Path("/run/openmrc"))


def enter() -> bool:
    """True if this thread, with all threads and processes it starts later, is in namespaces of its own.

    False without the privilege: tests then rely on `own_ports` alone.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 or libc.unshare(CLONE_NEWNET | CLONE_NEWNS) != 0:
        return False
    _mount(libc, b"none", b"/", None, MS_REC | MS_SLAVE)
    for folder in PRIVATE_FOLDERS:
        folder.mkdir(parents=True, exist_ok=True)
        _mount(libc, b"openmrc-test", os.fsencode(folder), b"tmpfs", 0)
    _raise_loopback()
    return True


def _mount(libc: ctypes.CDLL, source: bytes, target: bytes, kind: bytes | None, flags: int) -> None:
    if libc.mount(source, target, kind, ctypes.c_ulong(flags), None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fsdecode(target))


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(control, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))
