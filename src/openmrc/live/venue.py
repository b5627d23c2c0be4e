"""Where the hosts of a run live: what is between them, how their processes are started, who tells of carriers.

The emulated fabric, and nothing but loopback. Other places implement `Venue` as well.
"""

from __future__ import annotations

import base64
import pickle
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openmrc.fabric import Fabric, Fault, check_emulated_fault
from openmrc.live.plan import RunPlan, loopback_addresses
from openmrc.live.supervise import Child, Family

__all__ = ["CarrierNotice", "EmulatedVenue", "HostPlace", "LoopbackVenue", "Venue"]


@dataclass(frozen=True, slots=True)
class HostPlace:
    """What a host's process opens its device with.

    Args:
        ports: Texts of the device's ports, in plane order; none with `paths`.
        paths: Text of the NIC's path file, for a device in EV format SRV6.
        settings: Keyword arguments of the device beside those of the plan; they win.
        listen: TCP address for handshakes, port 0.
        follow_links: The device follows the carrier of the interfaces that its ports name.
    """

    ports: tuple[str, ...]
    paths: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    listen: str = "127.0.0.1:0"
    follow_links: bool = False


@dataclass(frozen=True, slots=True)
class CarrierNotice:
    """The link of a host's port went down or came up."""

    host: int
    port: int
    up: bool


class Venue(ABC):
    """A place for a run, used once: `begin`, `open`, `start`, `finish` in this order."""

    def begin(self, family: Family, plan: RunPlan) -> None:  # noqa: B027  # a place without a process of its own
        """Starts what the place needs; hosts start at the same time."""

    def prefix(self, _host: int) -> tuple[str, ...]:
        """What to put before a command so that it runs where the host lives."""
        return ()

    @abstractmethod
    def open(self, hosts: Sequence[int]) -> list[HostPlace]:
        """Where these hosts attach; everything is ready for them when it returns."""

    def check(self, fault: Fault) -> None:
        """Makes sure that this fault can be done here.

        Raises:
            FaultError: naming what cannot.
        """
        check_emulated_fault(fault)

    def start(self, faults: Sequence[str]) -> None:  # noqa: B027  # a place in which nothing can be broken
        """Faults of the plan count from now."""

    def carrier(self, _message: Mapping[str, Any]) -> CarrierNotice | None:
        """What a message of a child says about a carrier, if it says something."""
        return None

    def header_bytes(self, fabric: Fabric) -> int:
        """What the links count of each packet around the transport's datagram."""
        return fabric.header_bytes

    def uplink(self, _fabric: Fabric, _ev: int) -> int | None:
        """The uplink of the T0, that is the T1 of the pod, that packets with this EV take; None: not known."""
        return None

    def finish(self) -> dict[str, Any]:
        """Ends the faults and tells what the fabric counted."""
        return {}


class LoopbackVenue(Venue):
    """Nothing between the hosts."""

    def __init__(self, plan: RunPlan) -> None:
        self._addresses = loopback_addresses(plan.hosts, plan.planes)

    def open(self, hosts: Sequence[int]) -> list[HostPlace]:
        """Addresses of loopback."""
        return [HostPlace(tuple(self._addresses[host])) for host in hosts]


class EmulatedVenue(Venue):
    """The emulated fabric, as a process of its own."""

    def __init__(self) -> None:
        self._family: Family | None = None
        self._fabric: Fabric | None = None
        self._child: Child | None = None

    def begin(self, family: Family, plan: RunPlan) -> None:
        """Starts the fabric's process."""
        self._family, self._fabric = family, plan.fabric()
        self._child = family.spawn("fabric", "openmrc.live.fabric_process")

    def open(self, hosts: Sequence[int]) -> list[HostPlace]:
        """Makes the fabric."""
        assert self._family is not None
        assert self._child is not None
        packed = base64.b64encode(pickle.dumps(self._fabric)).decode()
        ports = self._family.ask(self._child, {"do": "open", "fabric": packed}, "ports", 30)["ports"]
        return [HostPlace(tuple(ports[host])) for host in hosts]

    def start(self, faults: Sequence[str]) -> None:
        """Hands the faults to the fabric."""
        assert self._child is not None
        self._child.send({"do": "start", "faults": list(faults)})

    def carrier(self, _message: Mapping[str, Any]) -> CarrierNotice | None:
        """The fabric tells of every host's links."""
        notice = _message.get("carrier")
        return CarrierNotice(notice["host"], notice["plane"], notice["up"]) if notice else None

    def uplink(self, _fabric: Fabric, _ev: int) -> int | None:
        """The lowest digit of the EV, where paths are not hashed."""
        return _ev % _fabric.t1s if _fabric.routing == "modulo" else None

    def finish(self) -> dict[str, Any]:
        """Counters of all links."""
        assert self._family is not None
        assert self._child is not None
        result: dict[str, Any] = self._family.ask(self._child, {"do": "finish"}, "result")["result"]
        return result
