"""The switches' data plane: one eBPF program at the egress of every interface, with settings and counters per port.

A virtual queue per port marks ECN, trims and drops by the rules of the simulator's ports; faults of the wire act behind
it. The program and its maps live in the kernel as long as an interface uses them, so that a later command can open them
again by the ids in `DataPlane.state`. Without clang, libbpf or the privilege to load programs there is no data plane
(`DataPlaneUnavailableError` has the reason), and a test bed has plain queues instead.
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
from openmrc.testbed.netlink_batches import Netlink

__all__ = ["DataPlane", "DataPlaneUnavailableError", "PortCounters", "PortEffects", "PortSettings", "queue_drops"]

PORTS_MAX = 0xFFFF  # the program reads the number from 16 bits
_SIZES = {"configs": CONFIG_BYTES, "states": STATE_BYTES}


class DataPlane:
    """The maps of a test bed's switch ports. As a context manager it releases them; the program stays active.

    Created by `DataPlane.load` for a new test bed, by `DataPlane.open` for a running one.
    """

    def __init__(self, maps: Mapping[str, Map], program: int | None = None) -> None:
        self._configs, self._states = maps["configs"], maps["states"]
        self._program = program

    @classmethod
    @contextmanager
    def load(cls, ports: int) -> Iterator[Self]:
        """A new program with room for port numbers 1 to `ports`; interfaces are attached inside the context.

        Raises:
            DataPlaneUnavailableError: with the reason.
        """
        if ports > PORTS_MAX:
            raise DataPlaneUnavailableError(f"a data plane has at most {PORTS_MAX} ports, not {ports}")
        with load_program(ports, _SIZES) as (program, maps), cls(maps, program) as plane:
            yield plane

    @classmethod
    def open(cls, state: Mapping[str, Any]) -> Self:
        """The data plane of a running test bed.

        Args:
            state: From `DataPlane.state`.

        Raises:
            DataPlaneUnavailableError: it is gone, or this process lacks the privilege.
        """
        return cls({name: Map.open(int(state[name]), size) for name, size in _SIZES.items()})

    @property
    def state(self) -> dict[str, int]:
        """State for `open`, to be stored with the test bed."""
        return {"configs": self._configs.id, "states": self._states.id}

    def attach(
        self, netlink: Netlink, ports: Iterable[tuple[str, int, int, PortSettings]], *, checksums: bool = True
    ) -> None:
        """Makes interfaces of one namespace ports of the data plane; replaces their queues.

        Args:
            netlink: Of the namespace.
            ports: Name, index, port number and settings of each interface.
            checksums: Complete the checksums of packets before they are cut or corrupted.

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
        """Changes the settings of a port; its counters and waiting packets stay."""
        self._configs.write(number, pack_port(settings, PRIORITY_MAJOR))

    def change_rate(self, netlink: Netlink, index: int, settings: PortSettings) -> None:
        """Changes the rate of the queue behind a port to that of these settings, which `configure` has applied to the
        port.

        Args:
            netlink: Of the interface's namespace.
            index: The interface's.
            settings: All of them, including the effects on the link.

        Raises:
            TestBedError: the kernel refused.
        """
        netlink.change(rate_messages(index, settings))

    def counters(self, number: int) -> PortCounters:
        """Counters of this port since it was attached."""
        return PortCounters.unpack(self._states.read(number))

    def close(self) -> None:
        """Releases the maps; attached ports stay active."""
        self._configs.close()
        self._states.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
