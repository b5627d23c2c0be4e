"""Requirements of the EV formats STEV and SRV6: flow labels as chosen, datagrams without UDP checksum."""

from __future__ import annotations

from collections.abc import Iterator

from openmrc.doctor.finding import Finding, Verdict
from openmrc.doctor.host import Host
from openmrc.doctor.socket_probe import SocketFacts
from openmrc.verbs.interfaces import ChosenPorts

__all__ = ["check_labels", "check_routing_headers", "check_srv6"]

_GROUP = "IPv6 and SRv6"


def check_srv6(host: Host, facts: SocketFacts, chosen: ChosenPorts) -> Iterator[Finding]:
    """All of these checks, or the lack of IPv6."""
    if facts.labels is None:
        sentence = "No IPv6 on loopback: EV formats STEV and SRV6 need it, UDP does not."
        command = "sudo sysctl -w net.ipv6.conf.all.disable_ipv6=0"
        yield Finding(_GROUP, "IPv6", Verdict.OPTIONAL, sentence, command, {"ipv6": False})
        return
    yield check_labels(host, facts)
    yield _checksum(facts)
    yield check_routing_headers(host, chosen)


def check_labels(host: Host, facts: SocketFacts) -> Finding:
    """Checks that flow labels, part of the EV, are sent as chosen."""
    setting = host.sysctl("net/ipv6/auto_flowlabels")
    numbers = {"auto_flowlabels": setting, "labels_kept": facts.labels, "zero_label_kept": facts.zero_label}
    command = "sudo sysctl -w net.ipv6.auto_flowlabels=1" if setting == 3 else None
    if not facts.labels:
        sentence = "Flow labels do not arrive as they were chosen: EV formats STEV and SRV6 lose their paths."
        return Finding(_GROUP, "flow labels", Verdict.IMPROVABLE, sentence, command, numbers)
    if not facts.zero_label:
        cause = "net.ipv6.auto_flowlabels = 3 puts" if setting == 3 else "The kernel puts"
        sentence = (
            f"{cause} a hash in place of flow label 0: in EV format SRV6 packets of selector 0 arrive with "
            "EVs that no device uses, and the states of their paths are never updated."
        )
        return Finding(_GROUP, "flow labels", Verdict.IMPROVABLE, sentence, command, numbers)
    return Finding(_GROUP, "flow labels", Verdict.OK, "Sent as chosen, 0 included.", numbers=numbers)


def _checksum(facts: SocketFacts) -> Finding:
    numbers = {"zero_checksum": facts.zero_checksum}
    if facts.zero_checksum:
        sentence = "Datagrams without UDP checksum are sent and received, as EV format SRV6 requires."
        return Finding(_GROUP, "checksum", Verdict.OK, sentence, numbers=numbers)
    sentence = "Datagrams without UDP checksum do not arrive (UDP_NO_CHECK6): no EV format SRV6 on this host."
    return Finding(_GROUP, "checksum", Verdict.OPTIONAL, sentence, numbers=numbers)


def check_routing_headers(host: Host, chosen: ChosenPorts) -> Finding:
    """Checks that packets with a segment routing header are accepted, as long encapsulated uSID lists have one."""
    names = ["all", *(port.interface for port in chosen.ports if port.interface is not None)]
    settings = {name: host.sysctl(f"net/ipv6/conf/{name}/seg6_enabled") for name in names}
    closed = [name for name, setting in settings.items() if setting is not None and setting != 1]
    if not closed and None in settings.values():
        sentence = (
            "Whether packets with a segment routing header are taken cannot be read; the kernel may be built without "
            "SRv6. EV format SRV6 sends none."
        )
        return Finding(_GROUP, "routing headers", Verdict.UNKNOWN, sentence, numbers={"seg6_enabled": None})
    numbers = {"seg6_enabled": not closed}
    if not closed:
        sentence = "Segment routing headers are taken on every port."
        return Finding(_GROUP, "routing headers", Verdict.OK, sentence, numbers=numbers)
    sentence = (
        "Packets with a segment routing header are dropped. EV format SRV6 sends none; needed only where the "
        "kernel wraps packets in more than one address of uSIDs."
    )
    command = "sudo sysctl -w " + " ".join(f"net.ipv6.conf.{name}.seg6_enabled=1" for name in closed)
    return Finding(_GROUP, "routing headers", Verdict.OPTIONAL, sentence, command, numbers)
