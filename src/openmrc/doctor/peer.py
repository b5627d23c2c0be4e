"""Probes of another host's device, plane by plane, through the firewalls and cables in between."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from openmrc.connection.round_trip import PACKET_SIZES
from openmrc.connection.settings import PAYLOAD_MTU_MAX, packet_bytes_for, payload_mtu_for
from openmrc.doctor.finding import Finding, Verdict
from openmrc.errors import ConfigError, OpenmrcError
from openmrc.verbs import Device, Peer, Port

__all__ = ["PlaneAnswer", "check_peer", "parse_peer", "probe_peer"]

_GROUP = "peer"
_EVS = 8
_WAIT_S = 0.5
_ATTEMPTS = 3  # of a size, as packets also get lost for other reasons
_SIZE_WAIT_S = 0.3
_UDP_PORT = 4791


@dataclass(frozen=True, slots=True)
class PlaneAnswer:
    """Answers to one probe per EV on one plane.

    Args:
        plane: Number of the port.
        local: Its address.
        remote: The peer's.
        probed: EVs tried, each with one packet.
        answered: EVs with an answer.
        marked: Answers to probes that the fabric had marked (ECN).
        round_trip_us: Median; None: no answer.
        path_mtu_bytes: Largest packet according to this host's kernel; None: it has no route.
        full_bytes: Size of the largest packets that a queue pair would send; None: as above.
        arriving_bytes: Largest size, up to that, with an answer of the same size; None: the peer does not answer padded
            probes.
        interface: Of the local address, if known.
        error: Refusal by the operating system.
    """

    plane: int
    local: str
    remote: str
    probed: int = _EVS
    answered: int = 0
    marked: int = 0
    round_trip_us: float | None = None
    path_mtu_bytes: int | None = None
    full_bytes: int | None = None
    arriving_bytes: int | None = None
    interface: str | None = None
    error: str = ""


def parse_peer(text: str, ports: Sequence[Port], field: str = "--peer") -> list[str]:
    """Addresses of a peer, one per plane, in the order of the ports; fewer than there are ports are allowed.

    Raises:
        ConfigError: not numeric addresses, another family than the ports', or more of them than ports.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    version = ports[0].version
    if not 1 <= len(words) <= len(ports):
        raise ConfigError(field, text, f"1 to {len(ports)} addresses, one per port of this host")
    for word in words:
        try:
            other = ip_address(word).version
        except ValueError:
            raise ConfigError(field, word, "numeric addresses, separated by commas") from None
        if other != version:
            raise ConfigError(field, word, f"IPv{version} addresses, as this host's ports have", hint="choose --ports")
    return words


def probe_peer(ports: Sequence[Port], addresses: Sequence[str], *, udp_port: int = _UDP_PORT) -> list[PlaneAnswer]:
    """Probes the peer's device at `addresses`, one per plane; requires no connection, and half a second per silent
    plane.

    Only a device with `answer_strangers` answers, such as that of `openmrc perf serve`.
    """
    pairs = zip(ports, addresses, strict=False)
    return [_probe(plane, port, address, udp_port) for plane, (port, address) in enumerate(pairs)]


def check_peer(answers: Sequence[PlaneAnswer]) -> Iterator[Finding]:
    """One finding per plane."""
    for one in answers:
        name = f"plane {one.plane}"
        numbers = {
            "evs_probed": one.probed,
            "evs_answered": one.answered,
            "marked": one.marked,
            "round_trip_us": None if one.round_trip_us is None else round(one.round_trip_us, 1),
            "path_mtu_bytes": one.path_mtu_bytes,
            "full_bytes": one.full_bytes,
            "arriving_bytes": one.arriving_bytes,
        }
        way = f"{one.local} to {one.remote}"
        if one.error:
            command = f"ip route get {one.remote} from {one.local}"
            yield Finding(_GROUP, name, Verdict.BROKEN, f"{way}: {one.error}.", command, numbers)
        elif one.answered == 0:
            sentence = (
                f"{way}: no answer on any of {one.probed} EVs. Is `openmrc perf serve` running there (other "
                "programs answer connected peers only), is it the same plane, does a firewall on the way stop UDP port "
                f"{_UDP_PORT}?"
            )
            command = f"openmrc perf serve --ports {','.join(answer.remote for answer in answers)}"
            yield Finding(_GROUP, name, Verdict.BROKEN, sentence, command, numbers)
        elif one.answered < one.probed:
            sentence = f"{way}: {one.answered} of {one.probed} EVs answered; the others' paths lose packets."
            yield Finding(_GROUP, name, Verdict.IMPROVABLE, sentence, numbers=numbers)
        elif one.full_bytes and one.arriving_bytes and one.arriving_bytes < one.full_bytes:
            sentence = (
                f"{way}: frames of {one.full_bytes:,} bytes do not arrive on plane {one.plane}, those of "
                f"{one.arriving_bytes:,} bytes do; lower the MTU at both ends, or raise that of the switches. openmrc "
                "sends smaller packets on all planes; TCP may stall."
            )
            command = f"sudo ip link set dev {one.interface or 'INTERFACE'} mtu {one.arriving_bytes}"
            yield Finding(_GROUP, name, Verdict.IMPROVABLE, sentence, command, numbers)
        else:
            arriving = f", packets of {one.arriving_bytes:,} bytes arrive" if one.arriving_bytes else ""
            sentence = (
                f"{way}: all {one.probed} EVs answered, in {one.round_trip_us:.0f} us; "
                f"path MTU {one.path_mtu_bytes or 0:,} bytes{arriving}."
            )
            yield Finding(_GROUP, name, Verdict.OK, sentence, numbers=numbers)


def _probe(plane: int, port: Port, address: str, udp_port: int) -> PlaneAnswer:
    peer = Peer((address,), udp_port)
    try:
        with Device([port], udp_port=udp_port, evs_per_port=_EVS) as device:
            mtu = device.path_mtu_bytes(peer)
            answers = [one for one in device.controller.probe(peer, timeout_s=_WAIT_S) if one.answered]
            full = packet_bytes_for(payload_mtu_for(mtu, port.version, None, PAYLOAD_MTU_MAX), port.version)
            arriving = _largest_arriving(device, peer, full) if answers else None
    except (OpenmrcError, OSError) as error:
        return PlaneAnswer(plane, port.seen_as, address, error=str(error))
    trips = [one.rtt_ns / 1000 for one in answers]
    return PlaneAnswer(
        plane,
        port.seen_as,
        address,
        answered=len(answers),
        marked=sum(one.marked for one in answers),
        round_trip_us=statistics.median(trips) if trips else None,
        path_mtu_bytes=mtu,
        full_bytes=full,
        arriving_bytes=arriving,
        interface=port.interface,
    )


def _largest_arriving(device: Device, peer: Peer, full: int) -> int | None:
    """Largest size, of `full` and common ones below, with an answer of the same size."""
    ev, controller = device.evs()[0][0], device.controller
    sizes = [full, *(size for size in PACKET_SIZES if size < full)]
    largest: int | None = None
    for _ in range(_ATTEMPTS):
        waiting: dict[int, int] = {}
        with device.known_peer(peer):
            for size in sizes:
                started = controller.start_probes(peer, [ev], timeout_s=_SIZE_WAIT_S, packet_bytes=size)
                waiting |= dict.fromkeys(started, size)
            deadline = time.monotonic() + 2 * _SIZE_WAIT_S
            while waiting and largest != full and time.monotonic() < deadline:
                for request, answer in controller.take_answers(waiting).items():
                    size = waiting.pop(request)
                    largest = max(largest or 0, size) if answer.answered else largest
                time.sleep(0.001)
        controller.forget_probes(waiting)
        if largest == full:
            break
    return largest
