"""Names of the ports of hosts and switches."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HOST_FIELDS", "LINUX_NAME_MAX", "SWITCH_FIELDS", "InterfaceNames"]

LINUX_NAME_MAX = 15  # IFNAMSIZ without the terminating zero
HOST_FIELDS = ("plane", "nic", "port")
SWITCH_FIELDS = ("plane", "port")


@dataclass(frozen=True, slots=True)
class InterfaceNames:
    """Name patterns with `{plane}`, `{nic}` and `{port}` for numbers; ports are numbered as cables are.

    A host's port is `nic * planes + plane`. A switch's ports lead down first, then up.
    """

    host: str = "eth{port}"
    switch: str = "Ethernet{port}"

    def of_host(self, nic: int, plane: int, planes: int) -> str:
        """Name of the port that the `nic`-th NIC of a host has in a plane."""
        return self.host.format(nic=nic, plane=plane, port=nic * planes + plane)

    def of_switch(self, plane: int, port: int) -> str:
        """Name of a port of any switch of a plane."""
        return self.switch.format(plane=plane, port=port)
