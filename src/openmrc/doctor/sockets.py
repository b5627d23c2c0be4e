"""Limits and capabilities of the device's UDP sockets."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterator, Sequence

from openmrc.doctor.finding import Finding, Verdict
from openmrc.doctor.host import Host
from openmrc.doctor.socket_probe import WANTED_BYTES, SocketFacts
from openmrc.units import format_bytes
from openmrc.verbs.device import Port

__all__ = ["check_buffers", "check_ecn", "check_memory", "check_offloads", "check_udp_port", "port_error"]

_GROUP = "sockets"
_PAGE_BYTES = 4096
_PORT = 4791


def check_buffers(facts: SocketFacts) -> Iterator[Finding]:
    """Checks that the sockets' buffers have the size that a device requests: 16 MiB."""
    for direction, granted, name in (
        ("receive", facts.receive_buffer_bytes, "rmem_max"),
        ("send", facts.send_buffer_bytes, "wmem_max"),
    ):
        numbers = {"granted_bytes": granted, "wanted_bytes": WANTED_BYTES, "forced": facts.buffers_forced}
        title = f"{direction} buffer"
        if granted >= WANTED_BYTES:
            why = ": this process may pass the system's limit" if facts.buffers_forced else ""
            yield Finding(_GROUP, title, Verdict.OK, f"{format_bytes(granted)} granted{why}.", numbers=numbers)
            continue
        effect = (
            "windows are smaller, and bursts that meet a busy process are lost"
            if direction == "receive"
            else "a burst waits for the one before it"
        )
        sentence = f"{format_bytes(granted)} of {format_bytes(WANTED_BYTES)} granted: {effect}."
        command = f"sudo sysctl -w net.core.{name}={WANTED_BYTES}"
        yield Finding(_GROUP, title, Verdict.IMPROVABLE, sentence, command, numbers)


def check_memory(host: Host, ports: int) -> Finding | None:
    """Checks that the receive buffers of all ports fit into the kernel's limit for all UDP sockets together.

    None: the kernel does not report it.
    """
    words = (host.text("proc/sys/net/ipv4/udp_mem") or "").split()
    if len(words) != 3:
        return None
    limit, wanted = int(words[2]) * _PAGE_BYTES, ports * WANTED_BYTES
    numbers = {"udp_memory_bytes": limit, "wanted_bytes": wanted}
    said = f"{format_bytes(limit)} for all UDP sockets together, {format_bytes(wanted)} requested"
    if limit >= wanted:
        return Finding(_GROUP, "UDP memory", Verdict.OK, f"{said}.", numbers=numbers)
    pages = 2 * wanted // _PAGE_BYTES
    command = f"sudo sysctl -w net.ipv4.udp_mem='{pages // 2} {pages * 3 // 4} {pages}'"
    sentence = f"{said}: packets are lost when several ports are full at once."
    return Finding(_GROUP, "UDP memory", Verdict.IMPROVABLE, sentence, command, numbers)


def check_ecn(facts: SocketFacts, version: int) -> Finding:
    """Checks that the ECN field of arriving packets is visible, which congestion control relies on."""
    seen = facts.ecn_ipv4 if version == 4 else facts.ecn_ipv6
    numbers = {"ecn_ipv4": facts.ecn_ipv4, "ecn_ipv6": facts.ecn_ipv6}
    if seen:
        return Finding(_GROUP, "ECN", Verdict.OK, f"Sockets set and see the ECN field (IPv{version}).", numbers=numbers)
    sentence = (
        f"Sockets do not see the ECN field of IPv{version} packets: NSCC uses round trips alone, and marked "
        "paths are not avoided. Use another kernel or sandbox."
    )
    return Finding(_GROUP, "ECN", Verdict.IMPROVABLE, sentence, numbers=numbers)


def check_offloads(facts: SocketFacts) -> Finding:
    """Checks that one call sends and receives several datagrams."""
    numbers = {"udp_segment": facts.segmentation, "udp_gro": facts.coalescing}
    missing = [
        name
        for name, there in (("UDP_SEGMENT (Linux 4.18)", facts.segmentation), ("UDP_GRO (Linux 5.0)", facts.coalescing))
        if not there
    ]
    if missing:
        sentence = f"Without {' and '.join(missing)}: a call for every packet, twice to three times the processor time."
        return Finding(_GROUP, "bursts", Verdict.IMPROVABLE, sentence, numbers=numbers)
    sentence = "One call sends several datagrams (UDP_SEGMENT) and one receives several (UDP_GRO)."
    return Finding(_GROUP, "bursts", Verdict.OK, sentence, numbers=numbers)


def port_error(port: Port, udp_port: int = _PORT) -> int:
    """Error number of binding a port's address to a UDP port; 0: success. The socket is closed again."""
    family = socket.AF_INET if port.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            if port.interface is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, port.interface.encode())
            sock.bind((port.address, udp_port))
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def check_udp_port(ports: Sequence[Port], error_of: Callable[[Port], int] = port_error) -> Finding:
    """Checks that UDP port 4791 can be bound on every port."""
    errors = {port.address: number for port in ports if (number := error_of(port))}
    if not errors:
        return Finding(_GROUP, f"UDP port {_PORT}", Verdict.OK, "Free on every port.", numbers={"udp_port": _PORT})
    address, number = next(iter(errors.items()))
    numbers = {"udp_port": _PORT, "errno": number}
    if number == errno.EADDRINUSE:
        sentence = (
            f"Another process receives on {address}: a second device on this host needs another port, "
            "Device(udp_port=4792), of which peers learn when they connect."
        )
        command = f"sudo ss --udp --listening --numeric --processes 'sport = :{_PORT}'"
        return Finding(_GROUP, f"UDP port {_PORT}", Verdict.IMPROVABLE, sentence, command, numbers)
    sentence = f"{address} cannot be bound: {_words(number)}."
    return Finding(_GROUP, f"UDP port {_PORT}", Verdict.BROKEN, sentence, numbers=numbers)


def _words(number: int) -> str:
    import os

    return os.strerror(number)
