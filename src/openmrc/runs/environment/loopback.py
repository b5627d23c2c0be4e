"""Loopback: processes on this machine with nothing between them."""

from __future__ import annotations

from collections.abc import Sequence

from openmrc.fabric import Fault, check_emulated_fault
from openmrc.runs.environment.base import Attachment, Environment
from openmrc.runs.run_plan import loopback_addresses

__all__ = ["LoopbackEnvironment"]


class LoopbackEnvironment(Environment):
    """Addresses of loopback, one for each plane of a host.

    Args:
        hosts: Number of hosts.
        planes: Ports of each host.
    """

    title = "loopback"

    def __init__(self, hosts: int, planes: int) -> None:
        super().__init__(None)
        self._addresses = loopback_addresses(hosts, planes)

    def attach(self, hosts: Sequence[int]) -> list[Attachment]:
        """Addresses of loopback."""
        return [Attachment(tuple(self._addresses[host])) for host in hosts]

    def check(self, fault: Fault) -> None:
        """As the emulated fabric; a plan without a fabric has no faults."""
        check_emulated_fault(fault)
