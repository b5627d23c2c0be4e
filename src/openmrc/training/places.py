"""Where the ranks live: the kernel's test bed, which carries TCP too, or the emulated fabric, with UDP alone."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from openmrc.emulate import EmulatedFabric
from openmrc.fabric import Fabric, Fault, check_emulated_fault, make_fabric, parse_fault
from openmrc.fabric.cabling import Node
from openmrc.live.fabric_process import open_fabric
from openmrc.live.venue import CarrierNotice
from openmrc.srv6.path_file import render_nic_paths
from openmrc.testbed import TestBed
from openmrc.testbed.errors import TestBedError
from openmrc.testbed.faults import FaultPlayer, check_bed_fault

__all__ = ["BedPlace", "EmulatedPlace", "Place"]

_STORE_PORT = 29500
_EMULATED = "--place emulated does without"


class Place(ABC):
    """A fabric that is up while it is entered as a context, with one rank on each host.

    Args:
        ranks: Hosts of the fabric.
        planes: Of the fabric.
        rate_bps: Of each link.
        seed: Of what the fabric draws.
    """

    title: str
    """What people call it, with an article."""
    backends: tuple[str, ...]
    """Those that can run here."""
    counted: str
    """What `plane_bytes` counts, in words."""
    shape: ClassVar[Mapping[str, Any]]
    """What `make_fabric` is told beside the arguments."""

    def __init__(self, ranks: int, planes: int, rate_bps: int, seed: int) -> None:
        self.ranks, self.planes, self.rate_bps = ranks, planes, rate_bps
        # Every host has a T0 of its own, so that all traffic crosses a T1, unless the shape says otherwise.
        sizes = {"planes": planes, "hosts": ranks, "hosts_per_t0": 1, "rate": f"{rate_bps}bit"}
        self.fabric: Fabric = make_fabric(name="train", seed=seed, **(sizes | dict(self.shape)))

    @abstractmethod
    def __enter__(self) -> Self:
        """Calls the fabric up."""

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Takes it down."""

    @abstractmethod
    def prefix(self, rank: int) -> tuple[str, ...]:
        """What to put before a command so that it runs where the rank lives."""

    @abstractmethod
    def environment(self, rank: int, backend: str) -> dict[str, str]:
        """What tells the backend which interfaces to use."""

    @abstractmethod
    def store(self) -> str:
        """HOST:PORT at which rank 0 can hold the store, in a network that no fault strikes."""

    @abstractmethod
    def check(self, fault: Fault) -> None:
        """Refuses what cannot be done here.

        Raises:
            FaultError: naming what cannot.
        """

    @abstractmethod
    def strike(self, fault: str) -> None:
        """The fault begins now, and its times count from now."""

    @abstractmethod
    def end(self) -> None:
        """Everything is whole again."""

    @abstractmethod
    def plane_bytes(self, pids: Sequence[int]) -> list[int]:
        """Bytes that have arrived at the hosts of these processes, by plane."""

    def carriers(self) -> list[CarrierNotice]:
        """Links of hosts that went down or came up since the last call, where nobody else tells the ranks."""
        return []


class BedPlace(Place):
    """Network namespaces; the kernel forwards. Needs root."""

    title = "a kernel test bed"
    backends = ("mrc", "gloo")
    counted = "bytes that the interfaces received, headers and acknowledgements included"
    shape: ClassVar[Mapping[str, Any]] = {"t1s": 4, "delay": "100us", "framing": "ipv6"}
    offload: ClassVar[bool] = False
    """Whether bursts cross links whole; see `TestBed.up`."""

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="openmrc-train-")
        self._bed = TestBed.up(self.fabric, f"train-{os.getpid()}", offload=self.offload)
        self._players: list[FaultPlayer] = []
        if self._bed.state.data_plane is None:
            why = self._bed.state.data_plane_missing
            self.__exit__(None, None, None)
            raise TestBedError(f"the faults of this demo act in the data plane, which is missing: {why}", _EMULATED)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.end()
        finally:
            self._bed.__exit__(kind, error, trace)
            self._folder.cleanup()

    def prefix(self, rank: int) -> tuple[str, ...]:
        """Runs in the host's namespace."""
        return tuple(self._bed.prefix(Node("host", rank)))

    def environment(self, rank: int, backend: str) -> dict[str, str]:
        """MRC: the paths over all planes; Gloo: the interface in plane 0."""
        if backend == "gloo":
            return {"GLOO_SOCKET_IFNAME": self.interfaces(rank)[0]}
        path = Path(self._folder.name) / f"rank{rank}.paths"
        path.write_text(render_nic_paths(self._bed.layout.nic_paths(Node("host", rank))), encoding="utf-8")
        return {"OPENMRC_PATHS": str(path), "OPENMRC_ADDRESS": self.management(rank)}

    def namespace(self, rank: int) -> str:
        """Of the host."""
        return self._bed.layout.namespace(Node("host", rank))

    def interfaces(self, rank: int) -> list[str]:
        """The host's interfaces, in plane order."""
        return [interface.name for interface in self._bed.layout.interfaces(Node("host", rank))]

    def management(self, rank: int) -> str:
        """The host's address on the management network, which no fault strikes."""
        return str(self._bed.layout.management_address(Node("host", rank)).ip)

    def store(self) -> str:
        """On the management network."""
        return f"{self.management(0)}:{_STORE_PORT}"

    def check(self, fault: Fault) -> None:
        """As the bed can."""
        check_bed_fault(self.fabric, fault)

    def strike(self, fault: str) -> None:
        """Plays it."""
        player = FaultPlayer(self._bed, [parse_fault(fault)])
        player.start()
        self._players.append(player)

    def end(self) -> None:
        """Stops all players."""
        while self._players:
            self._players.pop().stop()

    def plane_bytes(self, pids: Sequence[int]) -> list[int]:
        """What the kernel counts for each interface, in the processes' namespaces."""
        planes = {name: plane for plane, name in enumerate(self.interfaces(0))}
        totals = [0] * self.planes
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


class EmulatedPlace(Place):
    """The emulated fabric, between UDP sockets on loopback. Needs no privileges."""

    title = "the emulated fabric"
    backends = ("mrc",)
    counted = "bytes that the fabric delivered to hosts, headers and acknowledgements included"
    shape: ClassVar[Mapping[str, Any]] = {"t1s": 4}

    def __enter__(self) -> Self:
        self._running: EmulatedFabric = open_fabric(self.fabric)
        self._notices: list[CarrierNotice] = []
        self._lock = threading.Lock()
        self._running.subscribe(self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.stop()

    def _hear(self, event: dict[str, Any]) -> None:
        if event["event"] == "carrier":
            with self._lock:
                self._notices.append(CarrierNotice(event["host"], event["port"], event["up"]))

    def prefix(self, rank: int) -> tuple[str, ...]:  # noqa: ARG002
        """Nothing: all processes see the same loopback."""
        return ()

    def environment(self, rank: int, backend: str) -> dict[str, str]:  # noqa: ARG002
        """The host's ports, and no shared memory: all hosts are on one loopback, and data has to cross the fabric."""
        ports = ",".join(str(port) for port in self._running.ports(rank))
        return {"OPENMRC_PORTS": ports, "OPENMRC_ADDRESS": "127.0.0.1", "OPENMRC_SHARED_MEMORY": "0"}

    def store(self) -> str:
        """On loopback."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return f"127.0.0.1:{probe.getsockname()[1]}"

    def check(self, fault: Fault) -> None:
        """As the emulated fabric can."""
        check_emulated_fault(fault)

    def strike(self, fault: str) -> None:
        """Hands it to the fabric."""
        self._running.inject(fault)

    def end(self) -> None:
        """Repairs what is left of them."""
        self._running.inject("repair all")

    def plane_bytes(self, pids: Sequence[int]) -> list[int]:  # noqa: ARG002
        """What the fabric counts on the links to the hosts."""
        totals = [0] * self.planes
        for link in self._running.statistics().links:
            if link.kind == "nic_down":
                totals[link.plane] += link.bytes
        return totals

    def carriers(self) -> list[CarrierNotice]:
        """What the fabric told since the last call."""
        with self._lock:
            found, self._notices = self._notices, []
        return found
