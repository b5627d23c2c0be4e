"""The network interfaces of this host, and the choice of a device's ports among them."""

from __future__ import annotations

import fcntl
import re
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Interface, ip_address
from pathlib import Path

from openmrc.errors import ConfigError, did_you_mean
from openmrc.linux.links import AddressRecord, LinkRecord, dump_addresses, dump_links
from openmrc.verbs.device import PORTS_MAX, Port

__all__ = ["ChosenPorts", "Interface", "choose_ports", "list_interfaces"]

_IFF_UP = 0x1
_IFF_LOOPBACK = 0x8
_ARPHRD_ETHER = 1
_ARPHRD_INFINIBAND = 32
_IFA_F_TEMPORARY = 0x01
_IFA_F_DADFAILED = 0x08
_IFA_F_DEPRECATED = 0x20
_IFA_F_TENTATIVE = 0x40
_SIOCETHTOOL = 0x8946
_ETHTOOL_GSET = 1
_SPEED_UNKNOWN = 0xFFFFFFFF

# Kinds that are usually cables come before those that are only in containers and laptops; other kinds are a last
# resort.
_WIRED = ("ethernet", "infiniband", "bond", "team", "vlan", "macvlan", "ipvlan")
_SECOND = ("veth", "wireless")
_ON_TOP = ("vlan", "macvlan", "ipvlan")
_MANAGEMENT = re.compile(r"(mgmt|mgt|oob|bmc|ipmi|idrac|ilo)\d*")
_SLOW_SHARE = 4


@dataclass(frozen=True, slots=True)
class Interface:
    """One network interface in its current state.

    Args:
        name: As `ip link` shows it.
        index: The kernel's number.
        kind: "ethernet", "infiniband", "wireless", "loopback", or for interfaces of software the kernel's word:
            "veth", "bridge", "bond", "vlan", "tun", "dummy", ...
        addresses: Usable addresses, best first in each family: temporary and deprecated ones last, without those that
            are still checked for duplicates.
        up: Set up by the administrator.
        carrier: The other end of the cable is present.
        mtu: Bytes of the largest IP packet.
        speed_bps: Bit rate of the link in b/s; None: unknown to the driver.
        lower: Index of the interface below this one (of a VLAN: its parent), 0: none.
        master: Index of the bridge or bond that this one belongs to, 0: none.
    """

    name: str
    index: int
    kind: str
    addresses: tuple[IPv4Interface | IPv6Interface, ...]
    up: bool
    carrier: bool
    mtu: int
    speed_bps: int | None = None
    lower: int = 0
    master: int = 0

    @property
    def loopback(self) -> bool:
        """True for an interface that leads back to this host."""
        return self.kind == "loopback"

    def address(self, version: int) -> IPv4Interface | IPv6Interface | None:
        """The first address of a family (4 or 6) that is valid for peers, which link-local ones are not."""
        return next((one for one in self.addresses if one.version == version and not one.ip.is_link_local), None)


@dataclass(frozen=True, slots=True)
class ChosenPorts:
    """The ports recommended for a device.

    Args:
        ports: In the order of the planes, for `Device`.
        why: One line for people: the chosen ports, and the omitted ones with reasons.
        interfaces: The interface of each port, if it is one of this host's.
    """

    ports: tuple[Port, ...]
    why: str
    interfaces: tuple[Interface | None, ...] = ()


def list_interfaces() -> list[Interface]:
    """The interfaces of this network namespace, by the kernel's number. Requires no privilege.

    Raises:
        DeviceError: the kernel refuses to list them.
    """
    by_index: dict[int, list[AddressRecord]] = {}
    for record in dump_addresses():
        by_index.setdefault(record.index, []).append(record)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        return [
            interface_of(link, by_index.get(link.index, ()), lambda name: _speed_bps(asked, name), _is_wireless)
            for link in dump_links()
        ]


def interface_of(
    link: LinkRecord,
    addresses: Iterable[AddressRecord],
    speed_bps: Callable[[str], int | None],
    is_wireless: Callable[[str], bool],
) -> Interface:
    """An interface from the kernel's records; `speed_bps` and `is_wireless` supply the values that these lack."""
    usable = [one for one in addresses if not one.flags & (_IFA_F_TENTATIVE | _IFA_F_DADFAILED)]
    usable.sort(key=lambda one: bool(one.flags & _IFA_F_DEPRECATED) * 2 + _is_temporary(one))
    return Interface(
        name=link.name,
        index=link.index,
        kind=_kind(link, is_wireless),
        addresses=tuple(one.address for one in usable),
        up=bool(link.flags & _IFF_UP),
        carrier=link.carrier,
        mtu=link.mtu,
        speed_bps=speed_bps(link.name),
        lower=link.lower,
        master=link.master,
    )


def choose_ports(
    wanted: str | None = None, *, field: str = "ports", interfaces: Sequence[Interface] | None = None
) -> ChosenPorts:
    """The ports of a device: the requested ones, or every suitable interface of this host.

    A suitable interface is up, has a carrier and an address, and is wired; if there is none, veth and wireless
    interfaces are suitable, then other software interfaces, then loopback. Management interfaces, and those with less
    than a quarter of the fastest one's speed, are left out. Planes meet by number, so the order is that of the names
    (eth2 before eth10), the same on every host. All ports have addresses of one family: the one that all of them have,
    IPv4 if both.

    Args:
        wanted: Names of interfaces or ports ("ADDRESS[%INTERFACE][@ADVERTISE]"), separated by commas, one per plane in
            this order. None: choose.
        field: Name of the user's setting, for messages: "OPENMRC_PORTS".
        interfaces: Candidates; None: those of this host.

    Raises:
        ConfigError: no such interface or address, an interface without address, ports of both families.
        DeviceError: the kernel refuses to list the interfaces.
    """
    known = list_interfaces() if interfaces is None else list(interfaces)
    return _suitable(known) if wanted is None else _wanted(wanted, field, known)


# --- what was asked for


def _wanted(wanted: str, field: str, known: list[Interface]) -> ChosenPorts:
    words = [word.strip() for word in wanted.split(",") if word.strip()]
    if not 1 <= len(words) <= PORTS_MAX:
        raise ConfigError(field, wanted, f"1 to {PORTS_MAX} interfaces or addresses, separated by commas")
    by_name = {interface.name: interface for interface in known}
    places = [by_name.get(word) or _port(word, field, known) for word in words]
    version = _common_version(field, wanted, places)
    ports = [place if isinstance(place, Port) else _port_of(place, version, field) for place in places]
    if len({port.seen_as for port in ports}) < len(ports):
        raise ConfigError(field, wanted, "a different address for each port")
    owners = tuple(_owner(port, known) for port in ports)
    notes = [f"{owner.name} {_silence(owner)}" for owner in owners if owner is not None and _silence(owner)]
    return ChosenPorts(tuple(ports), _sentence(ports, f"from {field}", notes), owners)


def _port(word: str, field: str, known: list[Interface]) -> Port:
    """A port by its address, which must be one of this host's, but not necessarily of the interface it names."""
    names = [interface.name for interface in known]
    try:
        ip_address(word.partition("@")[0].partition("%")[0])
    except ValueError:
        here = f"interfaces of this host ({', '.join(names)}) or addresses"
        raise ConfigError(field, word, here, hint=did_you_mean(word, names)) from None
    port = Port.parse(word, field)
    if port.interface is not None and port.interface not in names:
        here = f"an interface of this host ({', '.join(names)})"
        raise ConfigError(field, word, here, hint=did_you_mean(port.interface, names))
    own = [str(one.ip) for interface in known for one in interface.addresses if not one.ip.is_link_local]
    if ip_address(port.address) not in map(ip_address, own) and not ip_address(port.address).is_loopback:
        hint = did_you_mean(port.address, own)
        raise ConfigError(field, word, f"an address of this host ({', '.join(own)})", hint=hint)
    return port


def _common_version(field: str, wanted: str, places: Sequence[Interface | Port]) -> int:
    """The family of all candidates; an interface may have both, an explicit address has its own."""
    for version in (4, 6):
        if all(place.version == version if isinstance(place, Port) else place.address(version) for place in places):
            return version
    for place in places:
        if isinstance(place, Interface) and not (place.address(4) or place.address(6)):
            hint = f"ip addr add ADDRESS/PREFIX dev {place.name}"
            raise ConfigError(field, place.name, "interfaces with an address", hint=hint)
    raise ConfigError(field, wanted, "ports that all have IPv4 or all have IPv6")


def _port_of(interface: Interface, version: int, field: str) -> Port:
    address = interface.address(version)
    if address is None:
        raise ConfigError(field, interface.name, f"interfaces with an IPv{version} address")
    return Port(str(address.ip), None if interface.loopback else interface.name)


def _owner(port: Port, known: Iterable[Interface]) -> Interface | None:
    for interface in known:
        if port.interface == interface.name:
            return interface
        if port.interface is None and any(one.ip == ip_address(port.address) for one in interface.addresses):
            return interface
    return None


def _silence(interface: Interface) -> str:
    if not interface.up:
        return "is down"
    return "" if interface.carrier else "has no carrier"


# --- what suits


def _suitable(known: list[Interface]) -> ChosenPorts:
    left_out = {interface.name: reason for interface in known if (reason := _unfit(interface))}
    fit = [interface for interface in known if interface.name not in left_out]
    chosen: list[Interface] = []
    for tier in range(3):
        chosen = [interface for interface in fit if _tier(interface) == tier]
        if chosen:
            break
    if not chosen:
        return _loopback(known)
    left_out |= {one.name: one.kind for one in fit if one not in chosen and not one.loopback}
    version = _best_version(chosen)
    for reject in (_without(version), _doubled(chosen), _slow(chosen)):
        left_out |= {interface.name: reason for interface in chosen if (reason := reject(interface))}
        chosen = [interface for interface in chosen if interface.name not in left_out]
    chosen.sort(key=lambda interface: _natural(interface.name))
    left_out |= {interface.name: f"over {PORTS_MAX} ports" for interface in chosen[PORTS_MAX:]}
    chosen = chosen[:PORTS_MAX]
    ports = [_port_of(interface, version, "ports") for interface in chosen]
    worth_a_word = (one.name for one in known if one.addresses or (one.up and one.kind in _WIRED))
    told = sorted((name for name in worth_a_word if name in left_out), key=_natural)
    rest = ", ".join(f"{name} ({left_out[name]})" for name in told)
    notes = [f"left out {rest}"] if rest else []
    return ChosenPorts(tuple(ports), _sentence(ports, "all suitable interfaces", notes), tuple(chosen))


def _unfit(interface: Interface) -> str:
    """Reason why an interface is never suitable; "" if there is none. Loopback needs no reason."""
    if interface.loopback:
        return ""
    if silence := _silence(interface):
        return silence.removeprefix("is ").replace("has no", "no")
    if not (interface.address(4) or interface.address(6)):
        return "no address"
    return "for management" if _MANAGEMENT.fullmatch(interface.name) else ""


def _tier(interface: Interface) -> int:
    if interface.loopback:
        return 3
    return 0 if interface.kind in _WIRED else 1 if interface.kind in _SECOND else 2


def _best_version(chosen: Sequence[Interface]) -> int:
    """The family of most interfaces, and thus of all of them if one exists."""
    return max((4, 6), key=lambda version: sum(one.address(version) is not None for one in chosen))


def _without(version: int) -> Callable[[Interface], str]:
    return lambda one: "" if one.address(version) else f"no IPv{version} address"


def _doubled(chosen: Sequence[Interface]) -> Callable[[Interface], str]:
    """Rejects two ports over one cable, which would not be two planes."""
    names = {one.index: one.name for one in chosen}
    return lambda one: f"on {names[one.lower]}" if one.kind in _ON_TOP and one.lower in names else ""


def _slow(chosen: Sequence[Interface]) -> Callable[[Interface], str]:
    fastest = max((one.speed_bps or 0 for one in chosen), default=0)
    return lambda one: "slow" if one.speed_bps and one.speed_bps * _SLOW_SHARE < fastest else ""


def _loopback(known: Sequence[Interface]) -> ChosenPorts:
    interface = next((one for one in known if one.loopback and one.address(4)), None)
    seen = ", ".join(f"{one.name} ({_unfit(one)})" for one in known if not one.loopback)
    why = f"1 port: loopback 127.0.0.1, so this host alone: no other interface {'suits: ' + seen if seen else 'exists'}"
    return ChosenPorts((Port("127.0.0.1"),), why, (interface,))


def _sentence(ports: Sequence[Port], reason: str, notes: Sequence[str]) -> str:
    named = ", ".join(f"{port.interface or ''} {port.address}".lstrip() for port in ports)
    count = f"{len(ports)} port{'' if len(ports) == 1 else 's'}"
    return "; ".join([f"{count}, {reason}: {named}", *notes])


def _natural(name: str) -> list[tuple[str, int]]:
    return [(letters, int(digits or -1)) for letters, digits in re.findall(r"(\D*)(\d*)", name)]


# --- what rtnetlink does not say


def _kind(link: LinkRecord, is_wireless: Callable[[str], bool]) -> str:
    if link.flags & _IFF_LOOPBACK:
        return "loopback"
    if link.kind:
        return link.kind
    if link.device_type == _ARPHRD_INFINIBAND:
        return "infiniband"
    if link.device_type != _ARPHRD_ETHER:
        return "other"
    return "wireless" if is_wireless(link.name) else "ethernet"


def _is_temporary(record: AddressRecord) -> bool:
    return record.address.version == 6 and bool(record.flags & _IFA_F_TEMPORARY)


def _is_wireless(name: str) -> bool:
    return Path(f"/sys/class/net/{name}/phy80211").exists()


def _speed_bps(asked: socket.socket, name: str) -> int | None:
    """Speed from ETHTOOL_GSET, supported by every kernel: a 32-bit number of Mb/s in two halves."""
    import array

    command = array.array("B", struct.pack("=I40x", _ETHTOOL_GSET))
    request = struct.pack("16sQ16x", name.encode()[:15], command.buffer_info()[0])
    try:
        fcntl.ioctl(asked.fileno(), _SIOCETHTOOL, request)
    except OSError:
        return None
    low, high = struct.unpack_from("=12xH14xH", command.tobytes())
    mbps = high << 16 | low
    return None if mbps in (0, 0xFFFF, _SPEED_UNKNOWN) else mbps * 1_000_000
