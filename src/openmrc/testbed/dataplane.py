"""The switches' data plane: one eBPF program at the egress of every interface, with settings and counters per port.

A virtual queue per port marks ECN, trims and drops by the rules of the simulator's ports; faults of the wire act behind
it. The program and its maps live in the kernel as long as an interface uses them, so that a later command opens them
again by the ids that `DataPlane.state` names. Without clang, libbpf or the right to load programs there is no data
plane (`DataPlaneUnavailableError` says why), and a test bed has plain queues instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from openmrc.testbed.dataplane_layout import (
    CONFIG_BYTES,
    STATE_BYTES,
    PortCounters,
    PortEffects,
    PortSettings,
    pack_port,
)
from openmrc.testbed.dataplane_program import DataPlaneUnavailableError, Map, load_program
from openmrc.testbed.dataplane_queue import (
    PRIORITY_MAJOR,
    program_messages,
    queue_drops,
    queue_messages,
    rate_messages,
    software_checksums,
)
from openmrc.testbed.netlink import Netlink

__all__ = ["DataPlane", "DataPlaneUnavailableError", "PortCounters", "PortEffects", "PortSettings", "queue_drops"]

PORTS_MAX = 0xFFFF  # the program reads the number from 16 bits
_SIZES = {"configs": CONFIG_BYTES, "states": STATE_BYTES}


class DataPlane:
    """The maps of a test bed's switch ports. As a context manager it lets go of them; the program goes on.

    Made by `DataPlane.load` for a new test bed, by `DataPlane.open` for one that runs.
    """

    def __init__(self, maps: Mapping[str, Map], program: int | None = None) -> None:
        self._configs, self._states = maps["configs"], maps["states"]
        self._program = program

    @classmethod
    @contextmanager
    def load(cls, ports: int) -> Iterator[Self]:
        """A fresh program with room for port numbers 1 to `ports`; interfaces are attached inside the context.

        Raises:
            DataPlaneUnavailableError: with the reason why this machine cannot.
        """
        if ports > PORTS_MAX:
            raise DataPlaneUnavailableError(f"a data plane has at most {PORTS_MAX} ports, not {ports}")
        with load_program(ports, _SIZES) as (program, maps), cls(maps, program) as plane:
            yield plane

    @classmethod
    def open(cls, state: Mapping[str, Any]) -> Self:
        """The data plane of a test bed that runs.

        Args:
            state: What `DataPlane.state` gave.

        Raises:
            DataPlaneUnavailableError: it is gone, or this process may not have it.
        """
        return cls({name: Map.open(int(state[name]), size) for name, size in _SIZES.items()})

    @property
    def state(self) -> dict[str, int]:
        """What `open` needs, to be kept with the test bed."""
        return {"configs": self._configs.id, "states": self._states.id}

    def attach(
        self, netlink: Netlink, ports: Iterable[tuple[str, int, int, PortSettings]], *, checksums: bool = True
    ) -> None:
        """Make interfaces of one namespace ports of the data plane; their queues are replaced.

        Args:
            netlink: Of the namespace.
            ports: Name, index and port number of each interface, and what it does.
            checksums: Packets have theirs before they are cut or corrupted.

        Raises:
            TestBedError: the kernel refused.
        """
        assert self._program is not None, "only a fresh program is attached"
        found = list(ports)
        messages = []
        for _, index, number, settings in found:
            self.configure(number, settings)
            messages += queue_messages(index, settings)
            messages += program_messages(index, number, self._program)
        if checksums:
            software_checksums(netlink.namespace, (name for name, *_ in found))
        netlink.change(messages)

    def configure(self, number: int, settings: PortSettings) -> None:
        """Settings of a port from now on; its counters and what waits there stay."""
        self._configs.write(number, pack_port(settings, PRIORITY_MAJOR))

    def change_rate(self, netlink: Netlink, index: int, settings: PortSettings) -> None:
        """Give the queue behind a port the rate of these settings, which `configure` has given the port.

        Args:
            netlink: Of the interface's namespace.
            index: The interface's.
            settings: All of them, with what is wrong with the link.

        Raises:
            TestBedError: the kernel refused.
        """
        netlink.change(rate_messages(index, settings))

    def counters(self, number: int) -> PortCounters:
        """What this port did since it was attached."""
        return PortCounters.unpack(self._states.read(number))

    def close(self) -> None:
        """Lets go of the maps; ports that are attached go on."""
        self._configs.close()
        self._states.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
