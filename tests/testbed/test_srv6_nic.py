"""The NIC in EV format SRV6 over the kernel's switches: every EV takes the planned path, and a dead one is avoided."""

from __future__ import annotations

import socket
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import IPv6Address
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from waiting import until

from openmrc import Connection, Device, QpSettings, connect, listen
from openmrc.fabric.cabling import Node
from openmrc.srv6.paths import pack, unpack
from openmrc.testbed import TestBed, namespaces
from openmrc.verbs import EvFormatMode, EvState, Peer
from openmrc.verbs.event_stream import PortStateChanged

pytestmark = pytest.mark.root

MESSAGE_BYTES = 1 << 20
PROBES = 10
DEADLINE_S = 20.0
ETH_P_IPV6 = 0x86DD


@contextmanager
def device(bed: TestBed, host: int, ports: list[str] | None = None, **settings: Any) -> Iterator[Device]:
    """A NIC in the namespace of a host: in EV format SRV6, or with these ports."""
    layout = bed.layout
    node = Node("host", host)
    if ports is None:
        settings["paths"] = layout.nic_paths(node)
    with namespaces.inside(layout.namespace(node)):
        made = Device(ports or (), seed=host + 1, **settings)
    with made:
        yield made


class Pair:
    """Two connected hosts of the test bed; `write` sends a message of random bytes and checks its arrival."""

    def __init__(self, bed: TestBed, ends: tuple[int, int], devices: tuple[Device, Device], **settings: Any) -> None:
        self.bed = bed
        self.devices = devices
        self._random = np.random.default_rng(7)
        self._memory = np.zeros(MESSAGE_BYTES, dtype=np.uint8)
        self._stack = ExitStack()
        near, far = (namespaces_of(bed, end) for end in ends)
        chosen = QpSettings(**settings)
        address = f"{bed.layout.management_address(Node('host', ends[1])).ip}:0"
        with namespaces.inside(far):
            listener = self._stack.enter_context(listen(devices[1], address, region=self._memory, settings=chosen))
        with in_thread(far, lambda: listener.accept(timeout_s=DEADLINE_S)) as accepted, namespaces.inside(near):
            self.writer: Connection = connect(devices[0], listener.address, settings=chosen)
        self.reader: Connection = accepted[0]

    def write(self) -> None:
        message = self._random.integers(0, 256, MESSAGE_BYTES, dtype=np.uint8)
        self.writer.write(message).wait(timeout_s=DEADLINE_S)
        assert np.array_equal(message, self._memory)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()
        self.reader.close()
        self._stack.close()


def namespaces_of(bed: TestBed, host: int) -> str:
    return bed.layout.namespace(Node("host", host))


@contextmanager
def in_thread(namespace: str, function: Callable[[], Any]) -> Iterator[list[Any]]:
    """Runs a function in a namespace concurrently; the list holds its result afterwards."""
    from concurrent.futures import ThreadPoolExecutor

    def run() -> Any:
        with namespaces.inside(namespace):
            return function()

    answers: list[Any] = []
    with ThreadPoolExecutor(max_workers=1) as pool:
        future = pool.submit(run)
        yield answers
        answers.append(future.result(timeout=DEADLINE_S))


def sent(bed: TestBed) -> Counter[tuple[str, str]]:
    """Packets that each node sent to each of its neighbours."""
    from openmrc.testbed.counters import link_counters

    return Counter({(link.node, link.peer): link.packets for link in link_counters(bed)})


def set_forwarding(bed: TestBed, switch: Node, *, on: bool) -> None:
    """Makes a switch forward, or silently drop everything with all its links up."""
    with namespaces.inside(bed.layout.namespace(switch)):
        Path("/proc/sys/net/ipv6/conf/all/forwarding").write_text(str(int(on)))


@pytest.fixture(scope="module")
def pair(bed: TestBed) -> Iterator[Pair]:
    """Hosts 0 and 2, behind different T0s."""
    with device(bed, 0) as near, device(bed, 2) as far, Pair(bed, (0, 2), (near, far)) as made:
        yield made


def peer_of(device: Device) -> Peer:
    return Peer(tuple(port.address for port in device.ports))


def test_every_ev_takes_the_switches_that_the_plan_says(bed: TestBed):
    # First in this file, before `pair` exists: QPs, even after a write, send acknowledgements and probes on any path.
    with (
        device(bed, 0) as near,
        device(bed, 2) as far,
        far.known_peer(peer_of(near)),
        namespaces.inside(namespaces_of(bed, 0)),
    ):
        selectors = Counter(value >> 16 for value, _ in near.evs())
        assert selectors == dict.fromkeys(bed.layout.paths.selectors(), len(near.evs()) // 2)
        for value, port in near.evs():
            path = bed.layout.paths.path(0, 2, port, value >> 16)
            before = sent(bed)
            answers = near.controller.probe(peer_of(far), [value] * PROBES)
            assert [one.answered for one in answers] == [True] * PROBES
            after = sent(bed)
            after.subtract(before)
            planned = [*(switch.name for switch in path.switches), "host2"]
            ways = {(node, peer) for (node, peer), count in after.items() if count >= PROBES and "host0" not in peer}
            forward = {("host0", planned[0]), *pairwise(planned)}
            assert forward <= ways
            back = {(peer, node) for node, peer in forward}
            assert ways - forward <= back, "nothing but the answers goes any other way"


def test_a_write_crosses_the_switches_without_a_udp_checksum_and_over_all_paths_alike(bed: TestBed, pair: Pair):
    near = pair.devices[0]
    assert near.ev_format is EvFormatMode.SRV6
    before = sent(bed)
    pair.write()
    after = sent(bed)
    after.subtract(before)
    shares = [after[f"p{p}-t0-0", f"p{p}-t1-{t1}"] for p in range(2) for t1 in range(2)]
    assert min(shares) > 0.2 * sum(shares), shares
    sockets = [port.socket for port in near.statistics().ports]
    assert not any(one.segmentation_offload or one.no_path or one.dropped_datagrams for one in sockets)
    assert pair.devices[1].statistics().drops.bad_icrc == 0


def test_the_wire_has_what_is_left_of_the_path_the_ev_in_label_and_source_port_and_no_checksum(
    bed: TestBed, pair: Pair
):
    near, far = pair.devices
    value = next(value for value, port in near.evs() if port == 1 and value >> 16 == 1)
    path = bed.layout.paths.path(0, 2, 1, 1)
    t1 = path.switches[1]
    with namespaces.inside(bed.layout.namespace(t1)):
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IPV6))
    with tap:
        tap.bind(("down0", ETH_P_IPV6))
        tap.settimeout(DEADLINE_S)
        assert near.controller.probe(peer_of(far), [value])[0].answered
        packet = next(data for data in iter(lambda: tap.recv(9000), b"") if data[40:42] == (value & 0xFFFF).to_bytes(2))
    label, next_header = int.from_bytes(packet[:4]) & 0xFFFFF, packet[6]
    assert (label, next_header) == (value >> 16, socket.IPPROTO_UDP)
    assert IPv6Address(packet[8:24]) == bed.layout.paths.address(0, 1)
    # The kernel shifts the list in place, in memory shared with the tap: before or after the T1's own shift.
    left = [pack(bed.layout.paths.blocks, unpack(path.address)[shifts:]) for shifts in (1, 2, 3)]
    assert IPv6Address(packet[24:40]) in left
    assert packet[46:48] == b"\0\0", "no UDP checksum"


def test_hosts_behind_one_t0_need_no_t1(bed: TestBed):
    with device(bed, 0, udp_port=4792) as near, device(bed, 1, udp_port=4792) as far:
        with Pair(bed, (0, 1), (near, far)) as made:
            before = sent(bed)
            made.write()
            after = sent(bed)
            after.subtract(before)
        assert after["p0-t0-0", "host1"] > 50
        assert all(count < 20 for (_, peer), count in after.items() if "-t1-" in peer)


def test_packets_of_the_largest_payload_that_the_links_take_arrive(bed: TestBed):
    with device(bed, 0, udp_port=4793) as near, device(bed, 2, udp_port=4793) as far:
        with namespaces.inside(namespaces_of(bed, 0)):
            assert near.path_mtu_bytes(peer_of(far)) == 9000
        with Pair(bed, (0, 2), (near, far), payload_mtu=8192) as made:
            made.write()
            assert made.writer.agreed["payload_mtu"] == 8192
        assert sum(port.socket.too_long for port in near.statistics().ports) == 0


def test_a_t1_that_stops_forwarding_in_silence_costs_its_paths_and_nothing_else(bed: TestBed, pair: Pair):
    near = pair.devices[0]
    dead = Node("t1", 1, 0)
    on_dead = {value for value, port in near.evs() if port == 0 and value >> 16 == 1}

    def bad() -> set[int]:
        return {one.value for one in pair.writer.qp.ev_states() if one.state is EvState.ASSUMED_BAD}

    set_forwarding(bed, dead, on=False)
    try:
        while not on_dead <= bad():
            pair.write()
        for _ in range(3):
            pair.write()
    finally:
        set_forwarding(bed, dead, on=True)
    until(lambda: not on_dead & bad())
    pair.write()


def test_the_peer_hears_of_a_port_that_goes_down(pair: Pair):
    near, far = pair.devices
    with far.subscribe() as events:
        for up in (False, True):
            near.set_port_state(1, up)
            until(
                lambda up=up: any(
                    isinstance(one, PortStateChanged) and one.learned and (one.port, one.up) == (1, up)
                    for one in events.poll()
                )
            )
    pair.write()


def test_kernel_encapsulation_by_source_port_is_a_second_way_and_keeps_segmentation_offload(bed: TestBed):
    layout = bed.layout
    ports = {host: [str(layout.paths.address(host, plane)) for plane in range(2)] for host in (0, 2)}
    settings = {"udp_port": 4794, "evs_per_port": 4, "first_source_port": 52000, "burst_packets": 8}
    with (
        device(bed, 0, ports[0], **settings) as near,
        device(bed, 2, ports[2], **settings) as far,
        encapsulation(bed, near, 0, 2),
        encapsulation(bed, far, 2, 0),
        Pair(bed, (0, 2), (near, far), active_per_port=4, rate_bps=2 * bed.fabric.rate_bps) as made,
    ):
        before = sent(bed)
        for _ in range(16):  # a burst takes one path, and not all are eight packets long; many average out
            made.write()
        after = sent(bed)
        after.subtract(before)
        shares = [after[f"p{p}-t0-0", f"p{p}-t1-{t1}"] for p in range(2) for t1 in range(2)]
        assert min(shares) > 0.2 * sum(shares), shares
        assert all(port.socket.segmented_sends > 0 for port in near.statistics().ports)


@contextmanager
def encapsulation(bed: TestBed, sender: Device, host: int, peer: int) -> Iterator[None]:
    """Routes that wrap each EV's packets to one peer in its path, and that unwrap the peer's packets.

    Meanwhile the host does not own the addresses at the end of uSID lists.
    """
    layout, node = bed.layout, Node("host", host)
    names = [interface.name for interface in layout.interfaces(node)]
    receive = [(layout.paths.receive_address(host, plane), names[plane]) for plane in range(2)]
    selectors = list(layout.paths.selectors())
    setup, undo = [], []
    for plane, (address, name) in enumerate(receive):
        setup += [f"address del {address}/128 dev {name}"]
        setup += [f"route add {address}/128 encap seg6local action End.DT6 table 255 dev {name}"]
        undo += [f"route del {address}/128 dev {name}", f"address add {address}/128 dev {name} nodad"]
        for index, (value, _) in enumerate(one for one in sender.evs() if one[1] == plane):
            path = layout.paths.path(host, peer, plane, selectors[index % len(selectors)])
            table = 20_000 + value
            way = f"encap seg6 mode encap.red segs {path.address} dev {name} src {layout.paths.address(host, plane)}"
            setup += [
                f"route add {layout.paths.address(peer, plane)}/128 {way} table {table}",
                f"rule add sport {value} ipproto udp lookup {table}",
            ]
            undo += [f"rule del sport {value} ipproto udp lookup {table}", f"route flush table {table}"]
    namespace = layout.namespace(node)
    ip_lines(namespace, setup)
    try:
        yield
    finally:
        ip_lines(namespace, undo)


def ip_lines(namespace: str, lines: list[str]) -> None:
    command = ["ip", "-n", namespace, "-6", "-batch", "-"]
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
