"""Attachment of hosts to an emulated fabric on loopback.

On plane p, host h has the local address A.(B+p).h.1, to which its NIC binds, and the advertised address A.(B+p).h.2, to
which its peers send and which the fabric owns; `A.B.0.0` is the fabric's address base.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address

from openmrc.errors import ConfigError
from openmrc.fabric.model import Fabric

__all__ = ["HostPort", "host_ports"]

HOSTS_MAX = 256


@dataclass(frozen=True)
class HostPort:
    """One port of an emulated host: its NIC's local address, and its address for peers."""

    local: IPv4Address
    advertised: IPv4Address

    def __str__(self) -> str:
        return f"{self.local}@{self.advertised}"


def host_ports(fabric: Fabric, host: int) -> list[HostPort]:
    """The ports of one host, in plane order. `str()` of one is the text form of a NIC's port.

    Raises:
        ConfigError: for a host that the fabric does not have, or one beyond the address scheme.
    """
    if not 0 <= host < fabric.hosts:
        raise ConfigError("host", host, f"0 to {fabric.hosts - 1}")
    if host >= HOSTS_MAX:
        raise ConfigError("hosts", fabric.hosts, f"up to {HOSTS_MAX} in an emulated fabric")
    base = int(IPv4Address(fabric.address_base))
    nets = [base + (plane << 16) + (host << 8) for plane in range(fabric.planes)]
    return [HostPort(IPv4Address(net + 1), IPv4Address(net + 2)) for net in nets]
