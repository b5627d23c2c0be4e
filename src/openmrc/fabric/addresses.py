"""Where hosts attach to an emulated fabric on loopback.

Host h has on plane p the local address A.(B+p).h.1, where its NIC binds, and the advertised address A.(B+p).h.2, which
its peers send to and which the fabric owns; `A.B.0.0` is the fabric's address base.
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
    """One port of an emulated host: where its NIC binds, and what its peers know it by."""

    local: IPv4Address
    advertised: IPv4Address

    def __str__(self) -> str:
        return f"{self.local}@{self.advertised}"


def host_ports(fabric: Fabric, host: int) -> list[HostPort]:
    """The ports of one host, in plane order. `str()` of one is what a NIC takes as its port.

    Raises:
        ConfigError: for a host the fabric does not have, or one that the address scheme has no room for.
    """
    if not 0 <= host < fabric.hosts:
        raise ConfigError("host", host, f"0 to {fabric.hosts - 1}")
    if host >= HOSTS_MAX:
        raise ConfigError("hosts", fabric.hosts, f"up to {HOSTS_MAX} in an emulated fabric")
    base = int(IPv4Address(fabric.address_base))
    nets = [base + (plane << 16) + (host << 8) for plane in range(fabric.planes)]
    return [HostPort(IPv4Address(net + 1), IPv4Address(net + 2)) for net in nets]
