"""The test bed as a place for runs: host processes in the namespaces of a bed that is up, over the kernel's fabric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from openmrc.fabric import Fabric, Fault, parse_fault
from openmrc.fabric.cabling import Node
from openmrc.fabric.model import IP_HEADER_BYTES, UDP_HEADER_BYTES
from openmrc.live.venue import HostPlace, Venue
from openmrc.srv6.path_file import render_nic_paths
from openmrc.testbed.bed import TestBed
from openmrc.testbed.faults import FaultPlayer, check_bed_fault

__all__ = ["MODES", "BedVenue", "Mode"]

Mode = Literal["srv6", "udp"]
MODES: tuple[Mode, ...] = ("srv6", "udp")
_SELECTOR_SHIFT = 16  # the selector is the high half of the EV


class BedVenue(Venue):
    """Hosts of a bed, with one NIC each.

    Args:
        bed: It is up, and stays up afterwards.
        mode: How EVs choose paths: "srv6", the uSID list in the destination address; "udp", the switches' ECMP hash of
            the source port.
    """

    def __init__(self, bed: TestBed, mode: Mode = "srv6") -> None:
        self._bed, self._mode = bed, mode
        self._player: FaultPlayer | None = None

    def prefix(self, _host: int) -> tuple[str, ...]:
        """Runs a command in the host's namespace."""
        return tuple(self._bed.prefix(Node("host", _host)))

    def open(self, hosts: Sequence[int]) -> list[HostPlace]:
        """The hosts' interfaces, one per plane."""
        return [self._place(Node("host", host)) for host in hosts]

    def _place(self, host: Node) -> HostPlace:
        layout = self._bed.layout
        listen = f"{layout.management_address(host).ip}:0"
        if self._mode == "srv6":
            return HostPlace((), paths=render_nic_paths(layout.nic_paths(host)), listen=listen, follow_links=True)
        ports = tuple(f"{layout.addresses(port)[0].ip}%{port.name}" for port in layout.interfaces(host))
        return HostPlace(ports, listen=listen, follow_links=True)

    def check(self, fault: Fault) -> None:
        """What a test bed cannot do is refused."""
        check_bed_fault(self._bed.fabric, fault)

    def start(self, faults: Sequence[str]) -> None:
        """Plays the faults."""
        self._player = FaultPlayer(self._bed, [parse_fault(text) for text in faults])
        self._player.start()

    def header_bytes(self, fabric: Fabric) -> int:
        """UDP and one IPv6 header, in both modes: uSIDs need no header of their own."""
        return UDP_HEADER_BYTES + IP_HEADER_BYTES["ipv6"] + fabric.framing_bytes

    def uplink(self, _fabric: Fabric, _ev: int) -> int | None:
        """What the selector says; nobody knows what a hash makes of an EV."""
        if self._mode != "srv6":
            return None
        return _ev >> _SELECTOR_SHIFT >> self._bed.layout.paths.usids.second_uplink_bits

    def finish(self) -> dict[str, object]:
        """Ends the faults."""
        if self._player is not None:
            self._player.stop()
        return {}
