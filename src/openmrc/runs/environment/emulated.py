"""The emulated fabric between UDP sockets on loopback, as a process of its own. Needs no privileges."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Sequence
from typing import Any

from openmrc.fabric import Fabric, Fault, check_emulated_fault
from openmrc.runs.environment.base import Attachment, CarrierNotice, Environment
from openmrc.runs.processes.supervisor import Child, Family

__all__ = ["EmulatedEnvironment"]

_READY_S, _OPEN_S, _ANSWER_S = 60.0, 30.0, 20.0


class EmulatedEnvironment(Environment):
    """An emulated fabric.

    Args:
        fabric: The fabric to emulate.
    """

    title = "the emulated fabric"
    counted = "bytes that the fabric delivered to hosts, headers and acknowledgements included"
    carries_tcp = False
    fabric: Fabric

    def __init__(self, fabric: Fabric) -> None:
        super().__init__(fabric)
        self._family: Family | None = None
        self._child: Child | None = None
        self._ports: list[list[str]] | None = None
        self._notices: list[CarrierNotice] = []

    def start(self, family: Family) -> None:
        """Starts the fabric's process."""
        self._family = family
        self._child = family.spawn("fabric", "openmrc.runs.processes.fabric_process", hear=self._hear)

    def attach(self, hosts: Sequence[int]) -> list[Attachment]:
        """Sockets of the hosts at the fabric, which the first call opens.

        Raises:
            ChildError: the fabric's process failed.
        """
        if self._ports is None:
            family, child = self._process
            family.expect(child, "ready", _READY_S)
            packed = base64.b64encode(pickle.dumps(self.fabric)).decode()
            self._ports = family.ask(child, {"do": "open", "fabric": packed}, "ports", _OPEN_S)["ports"]
        return [Attachment(tuple(self._ports[host])) for host in hosts]

    def stop(self) -> None:
        """Lets go of the fabric's process, which ends with its family."""
        self._family = self._child = self._ports = None

    def check(self, fault: Fault) -> None:
        """Refuses a fault that the emulated fabric cannot cause."""
        check_emulated_fault(fault)

    def strike(self, faults: Sequence[str]) -> None:
        """Hands the faults to the fabric."""
        self._process[1].send({"do": "strike", "faults": list(faults)})

    def repair(self) -> None:
        """Repairs all links."""
        self._process[1].send({"do": "repair"})

    def carriers(self) -> list[CarrierNotice]:
        """Notices of the fabric since the last call.

        Raises:
            ChildError: the fabric's process failed.
        """
        self._process[0].poll()
        found, self._notices = self._notices, []
        return found

    def uplink(self, ev: int) -> int | None:
        """The lowest digit of the EV, where paths are not hashed."""
        return ev % self.fabric.t1s if self.fabric.routing == "modulo" else None

    def plane_bytes(self, _pids: Sequence[int]) -> list[int]:
        """Bytes that the fabric delivered to all hosts, by plane."""
        return [int(count) for count in self._ask("plane_bytes")]

    def statistics(self) -> dict[str, Any]:
        """Counters of all links."""
        return dict(self._ask("result"))

    def _ask(self, key: str) -> Any:
        family, child = self._process
        return family.ask(child, {"do": key}, key, _ANSWER_S)[key]

    def _hear(self, message: dict[str, Any]) -> bool:
        """Keeps a notice of a carrier; whether the message was one."""
        if (notice := message.get("carrier")) is None:
            return False
        self._notices.append(CarrierNotice(notice["host"], notice["plane"], notice["up"]))
        return True

    @property
    def _process(self) -> tuple[Family, Child]:
        assert self._family is not None
        assert self._child is not None
        return self._family, self._child
