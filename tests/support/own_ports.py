"""Four port numbers of this test process, for UDP and TCP, used by no other test process of the network namespace."""

from __future__ import annotations

import re
import socket

_FIRST, _STEP, _COUNT = 20_000, 4, 2_500  # below the kernel's ephemeral ports, above those of the C++ tests


def _claim() -> tuple[int, socket.socket]:
    """The first of four free numbers, and the socket whose abstract name reserves them until this process ends."""
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    for number in range(_COUNT):
        port = _FIRST + _STEP * number
        try:
            claim.bind(f"\0openmrc-test-ports-{port}")
        except OSError:
            continue
        return port, claim
    raise RuntimeError(f"all ports from {_FIRST} to {_FIRST + _STEP * _COUNT - 1} are claimed by test processes")


UDP_PORT, _claimed = _claim()
TCP_PORT = UDP_PORT
# Address of loopback for tests that need a fixed port: the network is this process's own.
LOOPBACK = f"127.{128 + (UDP_PORT - _FIRST) // _STEP // 256}.{(UDP_PORT - _FIRST) // _STEP % 256}"


def on_own_ports(program: str) -> str:
    """A program of the documentation with ports of this test process in place of fixed and default ones."""
    program, addresses = re.subn(r"127\.0\.0\.1:\d+", f"127.0.0.1:{TCP_PORT}", program)
    assert addresses == 1
    return with_own_devices(program)


def with_own_devices(program: str) -> str:
    """A program whose devices use a port of this test process in place of the default one."""
    program, devices = re.subn(r"(\bDevice\((?:\[[^]]*\]|\w+))\)", rf"\1, udp_port={UDP_PORT})", program)
    assert devices > 0
    return program
