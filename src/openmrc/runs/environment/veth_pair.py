"""Two network namespaces joined by a veth pair: the closest thing to two machines on one machine. Needs root."""

from __future__ import annotations

from collections.abc import Sequence

from openmrc.fabric import Fault, FaultError
from openmrc.runs.environment.base import Attachment, Environment
from openmrc.runs.processes.supervisor import Family
from openmrc.runs.processes.veth_pairs import VethPair

__all__ = ["VethPairEnvironment"]


class VethPairEnvironment(Environment):
    """Two hosts with one port each.

    Args:
        mtu: MTU of both interfaces in bytes.
    """

    title = "a veth pair"
    one_namespace = False

    def __init__(self, mtu: int) -> None:
        super().__init__(None)
        self._pair = VethPair(mtu)

    def start(self, family: Family) -> None:  # noqa: ARG002
        """Makes both namespaces.

        Raises:
            NamespaceError: without root.
        """
        self._pair.__enter__()

    def stop(self) -> None:
        """Removes both namespaces, and all processes in them."""
        self._pair.__exit__(None, None, None)

    def prefix(self, host: int) -> tuple[str, ...]:
        """Runs a command in the host's namespace."""
        return self._pair.prefix(host)

    def attach(self, hosts: Sequence[int]) -> list[Attachment]:
        """Addresses of both ends."""
        return [
            Attachment((address,), management=address) for address in (self._pair.addresses[host] for host in hosts)
        ]

    def check(self, fault: Fault) -> None:
        """Refuses every fault."""
        raise FaultError(str(fault), "", "nothing: a veth pair cannot be broken on purpose")
