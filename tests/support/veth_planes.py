"""Two network namespaces joined by several planes, each of which can fall silent."""

from __future__ import annotations

import subprocess
from typing import Self

from openmrc.runs.processes.veth_pairs import VethPair

NOBODY = "02:00:00:00:00:99"


class VethPlanes(VethPair):
    """Several veth pairs between two namespaces, each with IPv4 and IPv6 addresses.

    Args:
        planes: Their number, 10 at most.
    """

    def __init__(self, planes: int) -> None:
        super().__init__(mtu=9000)
        self.interfaces = [self.interface, *(f"plane{number}" for number in range(1, planes))]

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            for plane, interface in enumerate(self.interfaces):
                if plane > 0:
                    ends = ["netns", self.names[0], "type", "veth", "peer", interface, "netns", self.names[1]]
                    _ip("link", "add", interface, *ends)
                for end, name in enumerate(self.names):
                    _ip("-n", name, "link", "set", interface, "mtu", str(self.mtu), "up")
                    _ip("-n", name, "address", "add", f"{self.v6(plane, end)}/64", "dev", interface, "nodad")
                    if plane > 0:
                        _ip("-n", name, "address", "add", f"{self.v4(plane, end)}/24", "dev", interface)
        except BaseException:
            self._remove()
            raise
        return self

    def v4(self, plane: int, end: int) -> str:
        """Address of an end."""
        return f"10.213.{7 + plane}.{1 + end}"

    def v6(self, plane: int, end: int) -> str:
        """Address of an end."""
        return f"fd00:213:{plane}::{1 + end}"

    def ports(self, end: int, *, ipv6: bool = False) -> str:
        """All planes, as OPENMRC_PORTS has them."""
        address = self.v6 if ipv6 else self.v4
        return ",".join(address(plane, end) for plane in range(len(self.interfaces)))

    def silence(self, plane: int) -> None:
        """Sends the packets of a plane to a host that does not exist: both ends see links that are up."""
        for end, name in enumerate(self.names):
            for address in (self.v4, self.v6):
                peer = ["to", address(plane, 1 - end), "lladdr", NOBODY, "nud", "permanent"]
                _ip("-n", name, "neighbour", "replace", *peer, "dev", self.interfaces[plane])


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=60)
