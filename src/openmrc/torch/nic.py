"""The device of a process, for all its groups: from the environment's settings, or from every suitable interface."""

from __future__ import annotations

import errno
import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address

from openmrc.errors import ConfigError, DeviceError
from openmrc.srv6 import read_nic_paths
from openmrc.torch.hosts import Neighbours
from openmrc.variables import ADDRESS, PATHS, PORTS
from openmrc.verbs import Device, Port
from openmrc.verbs.carrier import LinkCarrier
from openmrc.verbs.interfaces import choose_ports

__all__ = ["Nic", "acquire", "current", "release"]

FIRST_UDP_PORT = 4791
_UDP_PORTS = 256
_LOOPBACK = "127.0.0.1"


@dataclass(eq=False, slots=True)
class Nic:
    """A device with its address and carrier monitor.

    Args:
        device: It is open.
        address: For TCP connections of other ranks.
        why: One line for people: the chosen ports, and the reason.
        carrier: Informs the device about unplugged cables.
    """

    device: Device
    address: str
    why: str
    carrier: LinkCarrier | None
    users: int = 0


_lock = threading.Lock()
_nic: Nic | None = None


def acquire(neighbours: Neighbours, store_host: str | None) -> Nic:
    """The device of this process, opened for the first user. Return it with `release`.

    Args:
        neighbours: The ranks that share hosts.
        store_host: Host of the store; None: not on the network.

    Raises:
        ConfigError: the environment has invalid ports or an invalid file.
        DeviceError: the operating system refuses the ports.
    """
    global _nic  # noqa: PLW0603  # one NIC per process, however many groups
    with _lock:
        if _nic is None:
            _nic = _open(os.environ, neighbours, store_host)
        _nic.users += 1
        return _nic


def release(nic: Nic) -> None:
    """Closes the device after its last user."""
    global _nic  # noqa: PLW0603
    with _lock:
        nic.users -= 1
        if nic.users:
            return
        _nic = None
    if nic.carrier is not None:
        nic.carrier.close()
    nic.device.close()


def current() -> Device | None:
    """The device in use by process groups; None if there are none."""
    with _lock:
        return None if _nic is None else _nic.device


def _leave_to_parent() -> None:
    """Called in a forked child, which opens a device of its own."""
    global _lock, _nic
    _lock, _nic = threading.Lock(), None


os.register_at_fork(after_in_child=_leave_to_parent)


def _open(environment: Mapping[str, str], neighbours: Neighbours, store_host: str | None) -> Nic:
    wanted, file = environment.get(PORTS), environment.get(PATHS)
    if wanted is not None and file is not None:
        raise ConfigError(PORTS, wanted, f"unset, as {PATHS} also gives the ports")
    if file is not None:
        paths = read_nic_paths(file)
        device = Device(paths=paths, udp_port=FIRST_UDP_PORT)
        why = f"{len(device.ports)} ports, from {PATHS}: {file}"
    else:
        ports, why = _ports(wanted, neighbours)
        # A translator of addresses for peers keeps the UDP port, which therefore must be the same at all ranks.
        seen_elsewhere = any(port.seen_as != port.address for port in ports)
        device = _first_free(ports, 0 if seen_elsewhere else neighbours.own_index)
    try:
        carrier = LinkCarrier(device) if any(port.interface for port in device.ports) else None
    except DeviceError:
        device.close()
        raise
    # The route to the store is known to work, and need not be one of the planes, which may fail.
    address = environment.get(ADDRESS) or _address_toward(store_host) or device.ports[0].address
    return Nic(device, address, why, carrier)


def _address_toward(host: str | None) -> str | None:
    """Own address on the route to a host; None: no address that other hosts could use."""
    if host is None:
        return None
    try:
        # As bytes: the codec for text takes longer to import than everything else here.
        name = host.encode() if host.isascii() else host
        family, kind, _, _, address = socket.getaddrinfo(name, 1, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(address)
            found = str(probe.getsockname()[0])
    except OSError:
        return None
    own = ip_address(found.partition("%")[0])
    return None if own.is_loopback or own.is_link_local else found


def _ports(wanted: str | None, neighbours: Neighbours) -> tuple[tuple[Port, ...], str]:
    if wanted is None and neighbours.all_here:
        return (Port(_LOOPBACK),), f"1 port, loopback {_LOOPBACK}: all ranks are on this host ({PORTS} names others)"
    chosen = choose_ports(wanted, field=PORTS)
    if not neighbours.shared or "%" in (wanted or ""):
        return chosen.ports, chosen.why
    # A socket bound to an interface sends through it and never reaches a rank on the same host.
    return tuple(replace(port, interface=None) for port in chosen.ports), chosen.why


def _first_free(ports: tuple[Port, ...], own_index: int) -> Device:
    """A device on the first free UDP port; each rank of a host begins the search at another one."""
    for number in range(own_index, own_index + _UDP_PORTS):
        try:
            return Device(ports, udp_port=FIRST_UDP_PORT + number)
        except DeviceError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise DeviceError(errno.EADDRINUSE, f"no UDP port from {FIRST_UDP_PORT + own_index} on is free")
