"""The interfaces recommended as a device's ports: their MTU, offloads, networks, and the UDP port on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openmrc.connection.settings import PAYLOAD_MTU_MAX
from openmrc.doctor.finding import Finding, Verdict
from openmrc.doctor.host import Host
from openmrc.linux.ethtool import Feature
from openmrc.verbs.interfaces import ChosenPorts, Interface

__all__ = ["check_choice", "check_loopback", "check_mtu", "check_networks", "check_offloads", "check_reverse_path"]

_GROUP = "ports"
_HEADERS_BYTES = 44  # BTH, METH, TSETH, RETH, ImmDt and ICRC: the longest data packet
_UDP_BYTES = 8
_IP_BYTES = {4: 20, 6: 40}
_PAYLOAD_BYTES = 4096
_JUMBO_BYTES = 9000


def check_choice(chosen: ChosenPorts) -> Finding:
    """The ports recommended for a device."""
    numbers = {"ports": len(chosen.ports), "only_loopback": _only_loopback(chosen)}
    if _only_loopback(chosen):
        command = "sudo ip addr add ADDRESS/PREFIX dev INTERFACE && sudo ip link set dev INTERFACE up"
        return Finding(_GROUP, "choice", Verdict.IMPROVABLE, f"{chosen.why}.", command, numbers)
    silent = [one.name for one in chosen.interfaces if one is not None and not (one.up and one.carrier)]
    if silent:
        command = f"sudo ip link set dev {silent[0]} up"
        return Finding(_GROUP, "choice", Verdict.IMPROVABLE, f"{chosen.why}.", command, numbers)
    return Finding(_GROUP, "choice", Verdict.OK, f"{chosen.why}.", numbers=numbers)


def check_loopback(interfaces: Sequence[Interface]) -> Finding | None:
    """Checks that loopback is up, as handshakes within a host and this examination require; None: it is."""
    if any(one.loopback and one.up and one.addresses for one in interfaces):
        return None
    sentence = "Loopback is down: processes of this host cannot reach each other, and other findings here are moot."
    return Finding(_GROUP, "loopback", Verdict.BROKEN, sentence, "sudo ip link set dev lo up")


def check_mtu(chosen: ChosenPorts) -> Finding:
    """Checks that the largest payload of published MRC (4,096 bytes) fits a packet, and that all planes have the same
    MTU.
    """
    sizes = {one.name: one.mtu for one in chosen.interfaces if one is not None}
    if not sizes:
        sentence = "No interface of this host has the addresses of these ports, so that their MTU cannot be read."
        return Finding(_GROUP, "MTU", Verdict.UNKNOWN, sentence)
    smallest = min(sizes.values())
    overhead = _IP_BYTES[chosen.ports[0].version] + _UDP_BYTES + _HEADERS_BYTES
    payload = max(smallest - overhead, 0) // 4 * 4
    numbers = {"mtu_bytes_min": smallest, "mtu_bytes_max": max(sizes.values()), "payload_bytes_max": payload}
    if len(set(sizes.values())) > 1:
        low = [name for name in sizes if sizes[name] == smallest]
        listed = ", ".join(f"{name} {size:,}" for name, size in sizes.items())
        sentence = f"MTUs differ ({listed}): all packets are cut for the smallest, {payload:,} bytes of payload."
        commands = " && ".join(f"sudo ip link set dev {name} mtu {max(sizes.values())}" for name in low)
        return Finding(_GROUP, "MTU", Verdict.IMPROVABLE, sentence, commands, numbers)
    if payload < _PAYLOAD_BYTES:
        sentence = (
            f"{smallest:,} bytes: {payload:,} bytes of payload a packet. With jumbo frames, where the switches pass "
            "them, it is 4,096 and more, and each byte costs less than half of the processor time."
        )
        commands = " && ".join(f"sudo ip link set dev {name} mtu {_JUMBO_BYTES}" for name in sizes)
        return Finding(_GROUP, "MTU", Verdict.IMPROVABLE, sentence, commands, numbers)
    sentence = f"{smallest:,} bytes: {min(payload, PAYLOAD_MTU_MAX):,} bytes of payload a packet."
    return Finding(_GROUP, "MTU", Verdict.OK, sentence, numbers=numbers)


def check_offloads(interface: Interface, features: Mapping[str, Feature]) -> Finding:
    """Checks that the interface coalesces and segments bursts of datagrams, and computes UDP checksums."""
    name = f"offloads of {interface.name}"
    if not features:
        sentence = "The driver does not report its offloads; without GRO and GSO each packet costs more processor time."
        return Finding(_GROUP, name, Verdict.UNKNOWN, sentence)
    if interface.kind == "veth":
        return _check_veth(interface.name, name, features)
    version = "ipv4" if interface.address(4) else "ipv6"
    checksum = _on(features, "tx-checksum-ip-generic") or _on(features, f"tx-checksum-{version}")
    state = {
        "gro": _on(features, "rx-gro"),
        "gso": _on(features, "tx-generic-segmentation"),
        "tx": checksum,
    }
    changeable = {
        "gro": _changeable(features, "rx-gro"),
        "gso": _changeable(features, "tx-generic-segmentation"),
        "tx": _changeable(features, "tx-checksum-ip-generic") or _changeable(features, f"tx-checksum-{version}"),
    }
    words = {"gro": "receive coalescing (GRO)", "gso": "segmentation (GSO)", "tx": "UDP checksum offload"}
    in_hardware = _on(features, "tx-udp-segmentation")
    numbers = {"gro": state["gro"], "gso": state["gso"], "udp_checksum": checksum, "udp_segmentation": in_hardware}
    off = [key for key in state if not state[key]]
    if off:
        wanted = [key for key in off if changeable[key]]
        sentence = f"Without {' and '.join(words[key] for key in off)}: more processor time for every packet."
        command = f"sudo ethtool -K {interface.name} {' '.join(f'{key} on' for key in wanted)}" if wanted else None
        return Finding(_GROUP, name, Verdict.IMPROVABLE if wanted else Verdict.OK, sentence, command, numbers)
    where = "by the hardware" if in_hardware else "by the kernel, late"
    sentence = f"GRO and UDP checksums are on; bursts are split {where}."
    return Finding(_GROUP, name, Verdict.OK, sentence, numbers=numbers)


def _check_veth(interface: str, name: str, features: Mapping[str, Feature]) -> Finding:
    """Finding for a veth pair, which passes bursts unsegmented and without checksums unless segmentation is off at this
    end.
    """
    whole = _on(features, "tx-udp-segmentation")
    numbers = {"udp_segmentation": whole}
    if whole:
        sentence = "Bursts leave this end of the veth pair in one piece."
        return Finding(_GROUP, name, Verdict.OK, sentence, numbers=numbers)
    sentence = "Bursts are split before they cross the veth pair: more processor time for every packet."
    command = f"sudo ethtool -K {interface} tx-udp-segmentation on"
    return Finding(_GROUP, name, Verdict.IMPROVABLE, sentence, command, numbers)


def check_networks(chosen: ChosenPorts) -> Finding | None:
    """Checks that every plane is a separate network; None: one port only.

    In one network Linux answers for each address on every interface, so that all planes may meet on one cable.
    """
    places = [
        (interface.name, address.network)
        for interface in chosen.interfaces
        if interface is not None and (address := interface.address(chosen.ports[0].version)) is not None
    ]
    if len(places) < 2:
        return None
    for number, (name, network) in enumerate(places):
        for other, beside in places[:number]:
            if network.version == 4 and name != other and network.overlaps(beside):
                sentence = (
                    f"{other} and {name} are in one network, {network}: Linux answers for both addresses on either, "
                    "so both planes may meet on one cable. Better is a network for each plane."
                )
                command = "sudo sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2"
                return Finding(_GROUP, "networks", Verdict.IMPROVABLE, sentence, command)
    return Finding(_GROUP, "networks", Verdict.OK, "Every plane is a separate network.")


def check_reverse_path(host: Host, chosen: ChosenPorts) -> Finding | None:
    """Detects strict reverse path filters, which drop packets that arrive on another plane than the route back.

    None: one port only, or IPv6, which has no such filter in the kernel's routing.
    """
    names = [port.interface for port in chosen.ports if port.interface is not None]
    if len(names) < 2 or chosen.ports[0].version == 6:
        return None
    common = host.sysctl("net/ipv4/conf/all/rp_filter")
    own = {name: host.sysctl(f"net/ipv4/conf/{name}/rp_filter") for name in names}
    strict = [name for name in names if max(common or 0, own[name] or 0) == 1]
    if not strict and (common is None or None in own.values()):
        sentence = "The reverse path filters of these interfaces cannot be read; strict ones silently drop packets."
        return Finding(_GROUP, "reverse path", Verdict.UNKNOWN, sentence)
    if not strict:
        return Finding(_GROUP, "reverse path", Verdict.OK, "No strict reverse path filter on these interfaces.")
    sentence = (
        f"Strict reverse path filter on {', '.join(strict)}: where planes are routed, packets that come over another "
        "interface than the route back are silently dropped."
    )
    command = "sudo sysctl -w " + " ".join(f"net.ipv4.conf.{name}.rp_filter=2" for name in strict)
    return Finding(_GROUP, "reverse path", Verdict.IMPROVABLE, sentence, command)


def _only_loopback(chosen: ChosenPorts) -> bool:
    return all(one is not None and one.loopback for one in chosen.interfaces)


def _on(features: Mapping[str, Feature], name: str) -> bool:
    return name in features and features[name].on


def _changeable(features: Mapping[str, Feature], name: str) -> bool:
    return name in features and features[name].changeable
