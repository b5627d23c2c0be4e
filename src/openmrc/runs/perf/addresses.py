"""Addresses of `openmrc perf`: ports of either end, and the address to listen on."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import replace

from openmrc.errors import ConfigError, PeerUnreachableError
from openmrc.verbs import Port
from openmrc.verbs.interfaces import ChosenPorts, Interface, choose_ports

__all__ = ["facing", "family_of", "listening_address", "own_ports", "serving_ports"]


def facing(address: str) -> str:
    """The routing table's source address towards another; on loopback its neighbour, which is free."""
    peer = ipaddress.ip_address(address)
    if peer.version == 4 and peer.is_loopback:
        return str(peer + 1)
    with socket.socket(family_of(address), socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except OSError as error:
            raise PeerUnreachableError(address, 0.0, error.strerror or str(error)) from None
        return str(probe.getsockname()[0])


def serving_ports(wanted: str | None, interfaces: Sequence[Interface] | None = None) -> ChosenPorts:
    """Ports of the server's device: the requested ones, else all suitable interfaces as in `openmrc doctor`.

    Args:
        wanted: As for `choose_ports`.
        interfaces: Of this host; None: from the kernel.

    Raises:
        ConfigError: no such interface or address.
        DeviceError: the kernel does not list its interfaces.
    """
    chosen = choose_ports(wanted, field="--ports", interfaces=interfaces)
    if wanted is not None or len(chosen.ports) > 1:
        return chosen
    # A single port leaves through its interface anyway, and if it is not bound, clients on this host can reach it.
    return replace(chosen, ports=(replace(chosen.ports[0], interface=None),))


def listening_address(ports: Sequence[Port]) -> str:
    """Address for TCP connections of clients: all of this host, or loopback if all ports are on it."""
    local = all(ipaddress.ip_address(port.address).is_loopback for port in ports)
    return ("127.0.0.1" if local else "0.0.0.0") if ports[0].version == 4 else ("::1" if local else "::")


def own_ports(theirs: Sequence[str]) -> list[str]:
    """Default ports of a client: the routing table's source addresses towards the server's.

    Raises:
        ConfigError: two of the server's ports are reached from the same address.
        PeerUnreachableError: no route leads to one of them.
    """
    found: dict[str, str] = {}
    for address in theirs:
        own = facing(address)
        if own in found:
            shared = f"{found[own]} and {address} of the server are both reached from {own}"
            needed = f"{len(theirs)} addresses of this host, one for each of the server's {', '.join(theirs)}"
            hint = f"{shared}: name them here, or start the server with --ports {found[own]}"
            raise ConfigError("--ports", "not given", needed, hint=hint)
        found[own] = address
    return list(found)


def family_of(address: str) -> socket.AddressFamily:
    """IPv4 or IPv6."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET
