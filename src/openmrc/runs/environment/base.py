"""Interface of environments: hosts, the network between them, and faults of that network."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from openmrc.fabric import Fabric, Fault
from openmrc.runs.processes.supervisor import Family

__all__ = ["Attachment", "CarrierNotice", "Environment"]


@dataclass(frozen=True, slots=True)
class Attachment:
    """A host's access to the network.

    Args:
        ports: Texts of the device's ports, in plane order; none with `paths`.
        paths: Text of the NIC's path file, for a device in EV format SRV6.
        settings: Keyword arguments of the device beside those of the plan; they win.
        management: Address for TCP connections of the run itself, which no fault strikes.
        follow_links: The device follows the carrier of the interfaces that its ports name.
    """

    ports: tuple[str, ...] = ()
    paths: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    management: str = "127.0.0.1"
    follow_links: bool = False


@dataclass(frozen=True, slots=True)
class CarrierNotice:
    """The link of a host's port went down or came up."""

    host: int
    port: int
    up: bool


class Environment(ABC):
    """Hosts of a run and the network between them, in use from `start` to `stop`.

    Args:
        fabric: The network between the hosts; None: there is none to speak of, and nothing can be broken.
    """

    title: ClassVar[str]
    """Name in sentences, with an article."""
    counted: ClassVar[str] = ""
    """Description of the bytes that `plane_bytes` counts."""
    carries_tcp: ClassVar[bool] = True
    """True if TCP crosses the network, for transports other than MRC."""
    one_namespace: ClassVar[bool] = True
    """True if all hosts share the network namespace of this process, so that their ports must differ."""

    def __init__(self, fabric: Fabric | None) -> None:
        self.fabric = fabric

    def start(self, family: Family) -> None:  # noqa: B027  # most environments have no process
        """Starts the network without waiting for it; processes that it takes belong to `family`."""

    def stop(self) -> None:  # noqa: B027
        """Ends all faults, and the network if `start` made it. A second call does nothing."""

    @contextlib.contextmanager
    def up(self, family: Family) -> Iterator[Self]:
        """Context in which the environment is in use. At its end all processes of `family` end before the network."""
        self.start(family)
        try:
            yield self
        finally:
            try:
                family.close()
            finally:
                self.stop()

    def prefix(self, _host: int) -> tuple[str, ...]:
        """Words in front of a command that runs on the host."""
        return ()

    @abstractmethod
    def attach(self, hosts: Sequence[int]) -> list[Attachment]:
        """Access of these hosts to the network, which is ready for them when this returns."""

    @abstractmethod
    def check(self, fault: Fault) -> None:
        """Refuses a fault that cannot be caused here.

        Raises:
            FaultError: naming the part that cannot.
        """

    def strike(self, faults: Sequence[str]) -> None:  # noqa: B027
        """Schedules faults; their times count from now."""

    def repair(self) -> None:  # noqa: B027
        """Ends all faults."""

    def carriers(self) -> list[CarrierNotice]:
        """Links of hosts that went down or came up since the last call, where hosts cannot see it themselves."""
        return []

    @property
    def header_bytes(self) -> int | None:
        """Bytes of a packet around the transport's datagram, as the links count them; None without a fabric."""
        return None if self.fabric is None else self.fabric.header_bytes

    def uplink(self, _ev: int) -> int | None:
        """Number of the T0's uplink, hence of the T1 in the pod, that packets with this EV take; None: unknown."""
        return None

    def plane_bytes(self, _pids: Sequence[int]) -> list[int]:
        """Bytes by plane that have arrived at the hosts of these processes; `counted` says which bytes."""
        raise NotImplementedError(f"{self.title} counts no bytes by plane")

    def statistics(self) -> dict[str, Any]:
        """Counters of the network, by name; none where it has no counters of its own."""
        return {}
