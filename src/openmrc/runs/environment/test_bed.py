"""A test bed: host processes in its namespaces, and the kernel's fabric between them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from openmrc.fabric import Fabric, Fault, parse_fault
from openmrc.fabric.cabling import Node
from openmrc.fabric.model import IP_HEADER_BYTES, UDP_HEADER_BYTES
from openmrc.runs.environment.base import Attachment, Environment
from openmrc.srv6.path_file import render_nic_paths
from openmrc.testbed import namespaces
from openmrc.testbed.bed import TestBed
from openmrc.testbed.faults import FaultPlayer, check_bed_fault

__all__ = ["MODES", "Mode", "TestBedEnvironment"]

Mode = Literal["srv6", "udp"]
MODES: tuple[Mode, ...] = ("srv6", "udp")
_SELECTOR_SHIFT = 16  # the selector is the high half of the EV


class TestBedEnvironment(Environment):
    """Hosts of a bed, with one NIC each.

    Args:
        bed: It is up, and stays up afterwards.
        mode: Choice of paths by EVs: "srv6", the uSID list in the destination address; "udp", the switches' ECMP hash
            of the source port.
    """

    __test__ = False  # no class of tests, whatever its name

    title = "a kernel test bed"
    counted = "bytes that the interfaces received, headers and acknowledgements included"
    one_namespace = False
    fabric: Fabric

    def __init__(self, bed: TestBed, mode: Mode = "srv6") -> None:
        super().__init__(bed.fabric)
        self.bed, self._mode = bed, mode
        self._players: list[FaultPlayer] = []

    def stop(self) -> None:
        """Ends all faults; the bed stays."""
        self.repair()

    def prefix(self, host: int) -> tuple[str, ...]:
        """Runs a command in the host's namespace."""
        return tuple(self.bed.prefix(Node("host", host)))

    def attach(self, hosts: Sequence[int]) -> list[Attachment]:
        """The hosts' interfaces, one per plane."""
        return [self._attachment(Node("host", host)) for host in hosts]

    def _attachment(self, host: Node) -> Attachment:
        layout, management = self.bed.layout, self.management(host.index)
        if self._mode == "srv6":
            paths = render_nic_paths(layout.nic_paths(host))
            return Attachment(paths=paths, management=management, follow_links=True)
        ports = tuple(f"{layout.addresses(port)[0].ip}%{port.name}" for port in layout.interfaces(host))
        return Attachment(ports, management=management, follow_links=True)

    def namespace(self, host: int) -> str:
        """Name of the host's network namespace."""
        return self.bed.layout.namespace(Node("host", host))

    def interfaces(self, host: int) -> list[str]:
        """Names of the host's interfaces, in plane order."""
        return [interface.name for interface in self.bed.layout.interfaces(Node("host", host))]

    def addresses(self, host: int) -> list[str]:
        """The host's own IPv6 addresses, in plane order."""
        layout = self.bed.layout
        return [str(layout.addresses(interface)[0].ip) for interface in layout.interfaces(Node("host", host))]

    def management(self, host: int) -> str:
        """The host's address on the management network, which no fault strikes."""
        return str(self.bed.layout.management_address(Node("host", host)).ip)

    def processes(self, hosts: Sequence[int]) -> list[int]:
        """Ids of the processes on these hosts."""
        return namespaces.processes(self.namespace(host) for host in hosts)

    def check(self, fault: Fault) -> None:
        """Refuses a fault that a test bed cannot cause."""
        check_bed_fault(self.fabric, fault)

    def strike(self, faults: Sequence[str]) -> None:
        """Plays the faults in a thread."""
        player = FaultPlayer(self.bed, [parse_fault(text) for text in faults])
        player.start()
        self._players.append(player)

    def repair(self) -> None:
        """Stops all players, which repair their faults."""
        while self._players:
            self._players.pop().stop()

    @property
    def header_bytes(self) -> int:
        """UDP and one IPv6 header, in both modes: uSIDs need no header of their own."""
        return UDP_HEADER_BYTES + IP_HEADER_BYTES["ipv6"] + self.fabric.framing_bytes

    def uplink(self, ev: int) -> int | None:
        """The uplink in the EV's selector; None in mode "udp", as the hash of an EV is unknown."""
        if self._mode != "srv6":
            return None
        return ev >> _SELECTOR_SHIFT >> self.bed.layout.paths.usids.second_uplink_bits

    def plane_bytes(self, pids: Sequence[int]) -> list[int]:
        """Counters of the kernel for each interface, in the processes' namespaces."""
        planes = {name: plane for plane, name in enumerate(self.interfaces(0))}
        totals = [0] * self.fabric.planes
        for pid in pids:
            try:
                lines = Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii").splitlines()
            except OSError:
                continue  # it has ended
            for line in lines:
                name, _, counters = line.partition(":")
                if (plane := planes.get(name.strip())) is not None:
                    totals[plane] += int(counters.split()[0])
        return totals
