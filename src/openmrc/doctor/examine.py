"""All checks of a host, in order of presentation."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence

from openmrc.doctor import bed, machine, ports, sockets, srv6
from openmrc.doctor.finding import Finding, Report
from openmrc.doctor.firewall import check_firewall, read_rules
from openmrc.doctor.host import Host
from openmrc.doctor.namespace_probe import probe_namespace
from openmrc.doctor.packages import check_packages
from openmrc.doctor.peer import check_peer, parse_peer, probe_peer
from openmrc.doctor.peer_load import check_load, load_peer
from openmrc.doctor.rdma_programs import check_libraries
from openmrc.doctor.self_test import check_self_test, run_self_test
from openmrc.doctor.socket_probe import probe_sockets
from openmrc.linux.ethtool import features
from openmrc.verbs.interfaces import ChosenPorts, Interface, choose_ports, list_interfaces

__all__ = ["examine"]


def examine(wanted: str | None = None, peer: str | None = None) -> Report:
    """Examines the suitability of this host for a device. Changes nothing; takes one to three seconds, with a peer
    three to six more.

    Args:
        wanted: Ports of the device, as for `choose_ports`; None: all suitable interfaces.
        peer: Addresses of another host's device, one per plane, separated by commas; None: no probes of other hosts.

    Raises:
        ConfigError: the ports or the peer are invalid.
        DeviceError: the kernel does not list its interfaces.
    """
    known = list_interfaces()
    chosen = choose_ports(wanted, field="--ports", interfaces=known)
    others = None if peer is None else parse_peer(peer, chosen.ports)
    findings = [
        *_ports(chosen, known),
        *_sockets(chosen),
        *_machine(len(chosen.ports)),
        check_self_test(run_self_test()),
        *([] if others is None else _peer(chosen, others)),
        *_bed(),
        *check_libraries(),
        *check_packages(),
    ]
    return Report(chosen, known, findings)


def _ports(chosen: ChosenPorts, known: Sequence[Interface]) -> Iterator[Finding]:
    yield ports.check_choice(chosen)
    yield ports.check_mtu(chosen)
    for interface in chosen.interfaces:
        if interface is not None and not interface.loopback:
            yield ports.check_offloads(interface, features(interface.name))
    further = (ports.check_networks(chosen), ports.check_reverse_path(Host(), chosen), ports.check_loopback(known))
    for finding in further:
        if finding is not None:
            yield finding


def _sockets(chosen: ChosenPorts) -> Iterator[Finding]:
    facts = probe_sockets()
    yield from sockets.check_buffers(facts)
    memory = sockets.check_memory(Host(), len(chosen.ports))
    if memory is not None:
        yield memory
    yield sockets.check_offloads(facts)
    yield sockets.check_ecn(facts, chosen.ports[0].version)
    yield sockets.check_udp_port(chosen.ports)
    yield check_firewall(read_rules())
    yield from srv6.check_srv6(Host(), facts, chosen)


def _machine(port_count: int) -> Iterator[Finding]:
    yield machine.check_processors(Host())
    yield machine.check_clock(Host())
    yield machine.check_files(port_count, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _peer(chosen: ChosenPorts, addresses: Sequence[str]) -> Iterator[Finding]:
    answers = probe_peer(chosen.ports, addresses)
    yield from check_peer(answers)
    if any(one.answered for one in answers):
        yield from check_load(load_peer(chosen.ports, addresses), addresses)


def _bed() -> Iterator[Finding]:
    facts = probe_namespace()
    yield bed.check_namespaces(Host(), facts)
    kernel = bed.check_kernel(facts)
    if kernel is not None:
        yield kernel
    yield from bed.check_data_plane(Host())
