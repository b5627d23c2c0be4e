"""The eBPF switch port between two namespaces: it marks, trims, drops and loses according to its settings."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from openmrc._native import wire
from openmrc.testbed import namespaces
from openmrc.testbed.dataplane import DataPlane, PortEffects, PortSettings, queue_drops
from openmrc.testbed.dataplane_queue import burst_bytes
from openmrc.testbed.netlink_batches import Netlink
from openmrc.testing import packets

pytestmark = pytest.mark.root

PORT = 4791
SENDER, RECEIVER = "fd01::1", "fd02::1"
BEHIND, DECAPSULATES = "fd09::1", "fd02::99"
NUMBERS = 500  # of ports
PAYLOAD = 2000
WIRE = PAYLOAD + 8 + 40 + 38
TRIMMABLE, CONTROL, TRIMMED, TRIMMED_LASTHOP = 4, 46, 12, 16
ECT0, CE = 2, 3
UDP_NO_CHECK6_TX, UDP_NO_CHECK6_RX = 101, 102
IPV6_FLOWINFO_SEND = 33
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
QUEUE = 100_000
SLOW = PortSettings(rate_bps=20_000_000, queue_bytes=QUEUE, control_queue_bytes=QUEUE)
FAST = PortSettings(rate_bps=2_000_000_000, queue_bytes=50_000_000, control_queue_bytes=50_000_000)


@dataclass
class Bench:
    """A sender, a switch with one port under test, a receiver."""

    plane: DataPlane
    number: int
    link: Netlink
    index: int
    sender: socket.socket
    receiver: socket.socket

    def configure(self, **settings) -> None:
        """Settings of the port from now on, in addition to those of a slow link."""
        base = settings.pop("base", SLOW)
        chosen = PortSettings(**{**{name: getattr(base, name) for name in base.__dataclass_fields__}, **settings})
        self.plane.configure(self.number, chosen)
        self.plane.change_rate(self.link, self.index, chosen)

    def send(self, datagrams: list[bytes], dscp: int = 0, ecn: int = 0, to: str = RECEIVER) -> None:
        self.sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, dscp << 2 | ecn)
        for datagram in datagrams:
            self.sender.sendto(datagram, (to, PORT))

    def received(self) -> list[tuple[bytes, int]]:
        """Datagrams with their traffic classes, until none has arrived for a while."""
        found = []
        with contextlib.suppress(TimeoutError):
            while True:
                data, control, _, _ = self.receiver.recvmsg(65536, 64)
                found.append((data, struct.unpack("=i", control[0][2])[0]))
        return found

    def counted(self):
        return self.plane.counters(self.number)


@pytest.fixture(scope="module")
def wired(needs_data_plane: None) -> Iterator[tuple[DataPlane, list[str]]]:
    names = [f"gbpf-{os.getpid()}-{end}" for end in "asb"]
    with contextlib.ExitStack() as stack:
        for name in names:
            namespaces.create(name)
            stack.callback(namespaces.remove, name)
            with namespaces.inside(name):  # reports of multicast groups, which then come before the tests
                Path("/proc/sys/net/ipv6/conf/default/mldv2_unsolicited_report_interval").write_text("1")
        plane = stack.enter_context(DataPlane.load(NUMBERS))
        _wire(*names)
        with Netlink(names[0]) as first:
            plane.attach(first, [("ea", _index(names[0], "ea"), 1, FAST)])
        time.sleep(0.1)
        yield plane, names


@pytest.fixture
def bench(wired, request) -> Iterator[Bench]:
    """A port number, and hence counters, for each test."""
    plane, names = wired
    number = 2 + request.session.items.index(request.node) % (NUMBERS - 1)
    with contextlib.ExitStack() as stack:
        link = stack.enter_context(Netlink(names[1]))
        index = _index(names[1], "sb")
        plane.attach(link, [("sb", index, number, SLOW)])
        stack.callback(subprocess.run, ["tc", "-n", names[1], "qdisc", "delete", "dev", "sb", "root"], check=True)
        sender, receiver = (stack.enter_context(_socket(name)) for name in (names[0], names[2]))
        sender.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 64 << 20)
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        receiver.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
        receiver.bind((RECEIVER, PORT))
        receiver.settimeout(0.25)
        yield Bench(plane, number, link, index, sender, receiver)


def _index(namespace: str, name: str) -> int:
    with namespaces.inside(namespace):
        return socket.if_nametoindex(name)


def _socket(name: str) -> socket.socket:
    with namespaces.inside(name):
        return socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)


def _wire(sender: str, switch: str, receiver: str) -> None:
    """Two cables with permanent neighbours and no other traffic."""
    macs = {name: f"02:00:00:00:00:0{number}" for number, name in enumerate(("ea", "sa", "sb", "eb"), start=1)}
    lines = []
    for one, here, other, there in ((sender, "ea", switch, "sa"), (switch, "sb", receiver, "eb")):
        ends = f"address {macs[here]} type veth peer name {there} netns {other} address {macs[there]}"
        lines.append(f"link add {here} netns {one} {ends}")
    addresses = (
        (sender, "ea", "fd01::1", "fd01::2", "sa"),
        (switch, "sa", "fd01::2", "fd01::1", "ea"),
        (switch, "sb", "fd02::2", "fd02::1", "eb"),
        (receiver, "eb", "fd02::1", "fd02::2", "sb"),
    )
    for name, here, address, peer, there in addresses:
        lines.append(f"-n {name} link set {here} mtu 9000 addrgenmode none up")
        lines.append(f"-n {name} -6 address add {address}/64 dev {here} nodad")
        lines.append(f"-n {name} -6 neigh replace {peer} lladdr {macs[there]} dev {here} nud permanent")
    lines += [f"-n {sender} -6 route add default via fd01::2", f"-n {receiver} -6 route add default via fd02::2"]
    for line in lines:
        subprocess.run(["ip", *line.split()], check=True, timeout=10)
    with namespaces.inside(switch):
        Path("/proc/sys/net/ipv6/conf/all/forwarding").write_text("1")


def _numbered(count: int) -> list[bytes]:
    return [number.to_bytes(4, "big") + bytes(PAYLOAD - 4) for number in range(count)]


def test_marks_rise_between_the_thresholds(bench):
    low, high = 20_000, 60_000
    bench.configure(ecn=True, ecn_min_bytes=low, ecn_max_bytes=high)
    bench.send(_numbered(45), ecn=ECT0)
    marked = {int.from_bytes(data[:4], "big") for data, tos in bench.received() if tos & 3 == CE}
    counted = bench.counted()
    assert counted.marked == len(marked) > 0
    assert min(marked) > low // WIRE  # packet n finds at most n packets before it
    assert set(range(high // WIRE + 8, 45)) <= marked  # the link sends a few while the burst arrives
    assert counted.queue_peak_bytes > high


def test_packets_of_transports_without_ecn_are_not_marked(bench):
    bench.configure(ecn=True, ecn_min_bytes=0, ecn_max_bytes=0)
    bench.send(_numbered(20))
    assert {tos for _, tos in bench.received()} == {0}
    assert bench.counted().marked == 0


def test_excess_packets_are_dropped_by_the_virtual_queue_alone(bench):
    bench.configure()
    for _ in range(4):  # more than twice the rate of the link, repeatedly
        bench.send(_numbered(100))
        time.sleep(0.02)
    got = bench.received()
    counted = bench.counted()
    assert counted.arrived == 400
    assert counted.dropped == counted.dropped_queue > 200
    assert counted.delivered == len(got)
    assert counted.wire_bytes == len(got) * WIRE
    assert QUEUE - 2 * WIRE < counted.queue_peak_bytes + WIRE <= QUEUE
    assert queue_drops(bench.link) == 0


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize(("last_hop", "dscp"), [(True, TRIMMED_LASTHOP), (False, TRIMMED)])
def test_trimmed_packets_are_what_the_engine_expects_and_overtake(bench, last_hop, dscp, checksum):
    bench.configure(trim=True, trim_threshold_bytes=QUEUE // 2, last_hop=last_hop)
    bench.sender.setsockopt(socket.IPPROTO_UDP, UDP_NO_CHECK6_TX, int(not checksum))
    bench.receiver.setsockopt(socket.IPPROTO_UDP, UDP_NO_CHECK6_RX, int(not checksum))
    bench.send([_write(psn) for psn in range(100)], dscp=TRIMMABLE, ecn=ECT0)
    got = bench.received()
    counted = bench.counted()
    assert len(got) == 100  # with wrong checksums the kernel would not have delivered them
    cut = [wire.parse(data, trimmed=True).bth.psn for data, tos in got if tos == dscp << 2 | ECT0]
    whole = [wire.parse(data).bth.psn for data, tos in got if tos == TRIMMABLE << 2 | ECT0]
    assert {len(data) for data, tos in got if tos >> 2 == dscp} == {128 - 40 - 8}
    assert counted.trimmed == counted.control == len(cut) == 100 - len(whole) > 40
    assert sorted(cut + whole) == list(range(100))
    first = next(index for index, (_, tos) in enumerate(got) if tos >> 2 == dscp)
    overtaken = [psn for psn in whole[first:] if psn < cut[0]]
    # It found a backlog of the threshold, less the real queue's first burst, and overtook it.
    assert len(overtaken) > (QUEUE // 2 - burst_bytes(SLOW.rate_bps)) // WIRE - 5
    assert counted.wire_bytes == len(whole) * WIRE + len(cut) * (128 + 38)
    assert queue_drops(bench.link) == 0


def test_data_that_must_not_be_trimmed_is_dropped_and_control_has_its_own_room(bench):
    bench.configure(trim=True, trim_threshold_bytes=QUEUE // 2)
    bench.send(_numbered(100))
    bench.send([b"sack"] * 20, dscp=CONTROL)
    got = Counter(len(data) for data, _ in bench.received())
    assert got[4] == 20
    assert bench.counted().trimmed == 0
    assert got[PAYLOAD] == 100 - bench.counted().dropped_queue < 60


def test_a_black_hole_is_silent_and_complete(bench):
    bench.configure(effects=PortEffects(blackhole=True))
    bench.send(_numbered(30))
    assert bench.received() == []
    counted = bench.counted()
    assert (counted.arrived, counted.dropped_blackhole, counted.delivered) == (30, 30, 0)
    bench.configure()
    bench.send(_numbered(5))
    assert len(bench.received()) == 5


@pytest.mark.parametrize(
    ("effects", "share"),
    [
        (PortEffects(loss_ppb=200_000_000), 0.2),
        (PortEffects(burst_loss_ppb=200_000_000, burst_packets=5), 0.2),
        (PortEffects(loss_ppb=10**9), 1.0),
    ],
)
def test_losses_have_the_share_that_was_asked_for(bench, effects, share):
    bench.configure(base=FAST, effects=effects)
    count = 4000
    bench.send([b"x"] * count)
    got = len(bench.received())
    counted = bench.counted()
    assert (counted.arrived, counted.dropped_loss) == (count, count - got)
    # Bursts of five give the share the variance of a fifth as many packets; five standard deviations.
    spread = 5 * (share * (1 - share) * count * 9) ** 0.5
    assert abs(counted.dropped_loss - share * count) <= spread


def test_losses_of_bursts_come_in_bursts(bench):
    bench.configure(base=FAST, effects=PortEffects(burst_loss_ppb=200_000_000, burst_packets=20))
    count = 4000
    bench.send([number.to_bytes(4, "big") for number in range(count)])
    got = {int.from_bytes(data, "big") for data, _ in bench.received()}
    lost = [number for number in range(count) if number not in got]
    bursts = sum(number - 1 in got or number == 0 for number in lost)
    assert 6 < len(lost) / bursts < 60


def test_losses_of_one_ev_spare_all_others(bench):
    bench.sender.bind(("::", 0))
    own = bench.sender.getsockname()[1]
    bench.configure(effects=PortEffects(ev_losses=((own, 10**9),)))
    bench.send(_numbered(5))
    assert bench.received() == []
    bench.configure(effects=PortEffects(ev_losses=((own ^ 1, 10**9),)))
    bench.send(_numbered(5))
    assert len(bench.received()) == 5


def test_in_packets_with_usids_the_ev_has_its_high_half_in_the_flow_label(bench):
    bench.sender.bind(("::", 0))
    bench.sender.setsockopt(socket.IPPROTO_IPV6, IPV6_FLOWINFO_SEND, 1)
    own = bench.sender.getsockname()[1]
    losses = ((5 << 16 | own, 10**9),)
    for block, survivors in ((0xFD02_0000, {4}), (0xFCBB_BB00, {4, 5})):
        bench.configure(usid_block=block, effects=PortEffects(ev_losses=losses))
        for label in (4, 5):
            bench.sender.sendto(bytes([label]), (RECEIVER, PORT, label, 0))
        assert {data[0] for data, _ in bench.received()} == survivors


def test_encapsulated_packets_are_cut_and_marked_inside_too(bench, wired):
    sender, switch, receiver = wired[1]
    for line in (
        f"-n {sender} -6 route replace {BEHIND} encap seg6 mode encap.red segs {DECAPSULATES} via fd01::2 dev ea",
        f"-n {switch} -6 route replace {DECAPSULATES}/128 via fd02::1 dev sb",
        f"-n {receiver} -6 address replace {BEHIND}/128 dev lo nodad",
        f"-n {receiver} -6 route replace {DECAPSULATES}/128 encap seg6local action End.DT6 table 255 dev eb",
    ):
        subprocess.run(["ip", *line.split()], check=True, timeout=10)
    bench.configure(trim=True, trim_threshold_bytes=QUEUE // 2, ecn=True, ecn_min_bytes=0, ecn_max_bytes=20_000)
    receiving = _socket(receiver)
    with receiving:
        receiving.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
        receiving.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
        receiving.bind((BEHIND, PORT))
        receiving.settimeout(0.25)
        bench.receiver.close()
        bench.receiver = receiving
        bench.send([_write(psn) for psn in range(100)], dscp=TRIMMABLE, ecn=ECT0, to=BEHIND)
        got = bench.received()
    counted = bench.counted()
    kinds = Counter((len(data), tos) for data, tos in got)
    assert len(got) == 100
    assert kinds[128 - 40 - 40 - 8, TRIMMED << 2 | ECT0] == counted.trimmed > 40
    assert kinds[PAYLOAD, TRIMMABLE << 2 | CE] == counted.marked > 10
    assert all(wire.parse(data, trimmed=True) for data, _ in got)


def test_corruption_is_for_the_icrc_to_find(bench):
    bench.configure(effects=PortEffects(corrupt_ppb=10**9))
    sent = _write(1)
    bench.send([sent] * 20)
    got = [data for data, _ in bench.received()]
    assert len(got) == 20 == bench.counted().corrupted  # beyond the checksum of UDP
    for data in got:
        differing = [a ^ b for a, b in zip(data, sent, strict=True) if a != b]
        assert [bits.bit_count() for bits in differing] == [1]


def test_corrupt_packets_without_an_icrc_are_dropped(bench):
    bench.configure(effects=PortEffects(corrupt_ppb=10**9))
    sent = bytearray(_write(1))
    sent[8] |= 4  # no_icrc
    bench.send([bytes(sent)] * 20)
    assert bench.received() == []
    assert bench.counted().corrupted == 20


def test_a_rate_cut_leaves_the_queue_and_counts_in_bytes(bench):
    bench.configure(effects=PortEffects(rate_ppm=20_000))
    bench.send(_numbered(100))
    bench.configure()  # the rest would otherwise take long
    got = bench.received()
    assert len(got) == bench.counted().delivered
    assert QUEUE // WIRE <= len(got) <= QUEUE // WIRE + 2


def _write(psn: int) -> bytes:
    """A write of an MRC sender, of the same length as the other datagrams."""
    packet = wire.Packet()
    packet.bth.opcode = wire.Opcode.WRITE_ONLY
    packet.bth.psn = psn
    packet.bth.ts = True
    flow = packets.IpFlow.of(SENDER, RECEIVER, PORT)
    return packets.sealed(packet, bytes(PAYLOAD - len(wire.encode_headers(packet)) - 4), flow)
