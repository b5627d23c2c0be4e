"""The emulated fabric between plain sockets: a host's datagrams reach another one through its links."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from own_ports import UDP_PORT
from waiting import until

from _spec_model import load
from openmrc.emulate import ControlClient, EmulatedFabric
from openmrc.errors import ConfigError, DeviceError, PeerError, PeerUnreachableError
from openmrc.fabric import Fabric, FaultError, make_fabric

pytestmark = pytest.mark.live

BASE = "127.96.0.0"
EV = UDP_PORT + 2  # and the next: their source ports are this process's own, too
TRIMMABLE, TRIMMED, TRIMMED_LAST_HOP, CONTROL = 4, 12, 16, 46
ECT0, CE = 2, 3
UDP_SEGMENT = 103


def small(**changes: Any) -> Fabric:
    settings: dict[str, Any] = {"planes": 2, "hosts": 3, "hosts_per_t0": 2, "t1s": 2, "rate": "100Mbit"}
    return make_fabric(**(settings | {"address_base": BASE, "udp_port": UDP_PORT, "delay": "100us"} | changes))


class Host:
    """One port of a host: a receiving socket where a NIC has its own, and senders by source port."""

    def __init__(self, fabric: EmulatedFabric, host: int, plane: int = 0) -> None:
        self.port = fabric.ports(host)[plane]
        self.udp_port = fabric.fabric.udp_port
        self.receiver = self._socket(self.udp_port)
        self.receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.receiver.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        self._senders: dict[int, socket.socket] = {self.udp_port: self.receiver}

    def _socket(self, port: int) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((str(self.port.local), port))
        return made

    def send(
        self, to: Host, data: bytes, ev: int = EV, dscp: int = TRIMMABLE, ecn: int = ECT0, segment: int = 0
    ) -> None:
        sender = self._senders.get(ev) or self._senders.setdefault(ev, self._socket(ev))
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2 | ecn)
        if segment:
            sender.setsockopt(socket.SOL_UDP, UDP_SEGMENT, segment)
        sender.sendto(data, (str(to.port.advertised), to.udp_port))

    def receive(self, timeout_s: float = 5.0) -> tuple[bytes, int, tuple[str, int]] | None:
        """Data, traffic class octet and source of the next datagram; None if none arrives in time."""
        self.receiver.settimeout(timeout_s)
        try:
            data, control, _, source = self.receiver.recvmsg(65536, 64)
        except TimeoutError:
            return None
        return data, control[0][2][0], source

    def receive_all(self, quiet_s: float = 0.3) -> list[tuple[bytes, int, tuple[str, int]]]:
        got = []
        while (one := self.receive(quiet_s)) is not None:
            got.append(one)
        return got

    def close(self) -> None:
        for made in self._senders.values():
            made.close()


@pytest.fixture
def hosts() -> Iterator[Any]:
    """Creates `Host`s and closes them."""
    made: list[Host] = []

    def make(fabric: EmulatedFabric, host: int, plane: int = 0) -> Host:
        made.append(Host(fabric, host, plane))
        return made[-1]

    yield make
    for host in made:
        host.close()


def link(fabric: EmulatedFabric, name: str) -> Any:
    return next(one for one in fabric.statistics().links if one.name == name)


@pytest.mark.parametrize("target", [1, 2], ids=["same T0", "across a T1"])
@pytest.mark.parametrize("plane", [0, 1])
def test_a_datagram_arrives_with_the_senders_address_source_port_and_class(hosts: Any, target: int, plane: int) -> None:
    with EmulatedFabric(small()) as fabric:
        a, b = hosts(fabric, 0, plane), hosts(fabric, target, plane)
        a.send(b, b"hello")
        assert b.receive() == (b"hello", TRIMMABLE << 2 | ECT0, (str(a.port.advertised), EV))
        b.send(a, b"back", ev=EV + 1, dscp=CONTROL, ecn=0)
        assert a.receive() == (b"back", CONTROL << 2, (str(b.port.advertised), EV + 1))


def test_the_service_port_itself_can_be_a_source_port(hosts: Any) -> None:
    with EmulatedFabric(small()) as fabric:
        a, b = hosts(fabric, 0), hosts(fabric, 2)
        a.send(b, b"x", ev=UDP_PORT)
        received = b.receive()
        assert received is not None
        assert received[2] == (str(a.port.advertised), UDP_PORT)


def test_datagrams_of_every_size_arrive_unchanged_and_in_order(hosts: Any) -> None:
    sent = [bytes([n % 256]) * size for n, size in enumerate((0, 1, 63, 1000, 1472, 4136, 8232, 9216, 4136, 2))]
    with EmulatedFabric(small()) as fabric:
        a, b = hosts(fabric, 0), hosts(fabric, 2)
        for data in sent:
            a.send(b, data)
        assert [data for data, _, _ in b.receive_all()] == sent


def test_segmented_sends_are_single_packets_inside(hosts: Any) -> None:
    with EmulatedFabric(small()) as fabric:
        a, b = hosts(fabric, 0), hosts(fabric, 2)
        data = b"".join(bytes([n]) * 1000 for n in range(20)) + b"tail"
        a.send(b, data, segment=1000)
        got = [piece for piece, _, _ in b.receive_all()]
        assert [len(piece) for piece in got] == [1000] * 20 + [4]
        assert b"".join(got) == data
        assert link(fabric, "plane 0: host 0 -> t0 0").packets == 21


def test_the_source_port_decides_the_t1(hosts: Any) -> None:
    with EmulatedFabric(small()) as fabric:
        a, b = hosts(fabric, 0), hosts(fabric, 2)
        for ev in (EV, EV, EV, EV + 1):
            a.send(b, b"x", ev=ev)
        assert len(b.receive_all()) == 4
        assert link(fabric, "plane 0: t0 0 -> t1 0").packets == 3
        assert link(fabric, "plane 0: t0 0 -> t1 1").packets == 1


def test_each_plane_has_its_own_rate_queue_and_marks(hosts: Any) -> None:
    """Two bursts that exceed the queue: a short queue loses packets, a long one that marks marks them."""
    rates = {"nic": "1Gbit", "t0": "50Mbit"}
    own = [{"rate": rates, "queue_bytes": "20kB", "ecn": "off"}, {"rate": rates, "queue_bytes": "1MB"}]
    with EmulatedFabric(small(planes=own, ecn={"threshold_bytes": "5kB"})) as fabric:
        got = []
        for plane in (0, 1):
            a, b = hosts(fabric, 0, plane), hosts(fabric, 2, plane)
            for _ in range(60):
                a.send(b, bytes(1000), dscp=0)
            got.append([tos & 3 for _, tos, _ in b.receive_all()])
        assert len(got[0]) < 60
        assert CE not in got[0]
        assert len(got[1]) == 60
        assert CE in got[1]


def test_datagrams_of_unknown_source_are_counted_and_dropped(hosts: Any) -> None:
    with EmulatedFabric(small()) as fabric:
        a, b, other_plane = hosts(fabric, 0, 0), hosts(fabric, 2, 0), hosts(fabric, 0, 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            stranger.bind(("127.0.0.1", 0))
            stranger.sendto(b"?", (str(b.port.advertised), UDP_PORT))
        other_plane.send(b, b"wrong plane")
        a.send(b, b"x" * 9217)
        a.send(b, b"good")
        assert [data for data, _, _ in b.receive_all()] == [b"good"]
        statistics = fabric.statistics()
        assert (statistics.unknown_source, statistics.oversized) == (2, 1)


def test_the_native_fabric_answers_the_described_counters() -> None:
    records = load(Path(__file__).resolve().parents[2] / "spec").records
    with EmulatedFabric(small()) as fabric:
        raw = fabric._native.statistics()
        assert [*raw] == [one.name for one in records["FabricCounters"].fields] + ["links"]
        assert all([*link] == [one.name for one in records["LinkCounters"].fields] for link in raw["links"])
        ends = {link.kind: (link.host, link.t0, link.t1) for link in fabric.statistics().links if link.plane == 0}
        assert ends["nic_up"] == ends["nic_down"] == (2, 1, None)
        assert ends["t0_up"] == ends["t1_down"] == (None, 1, 1)
        fabric.inject("plane 0 down")
        until(lambda: fabric.statistics().active_faults == (1,))


def test_a_queue_that_overflows_drops_with_a_count_and_loses_nothing_silently(hosts: Any) -> None:
    with EmulatedFabric(small(queue_bytes=20_000, nic_queue_bytes=20_000, delay="5ms")) as fabric:
        a, b = hosts(fabric, 0), hosts(fabric, 2)
        for _ in range(3):
            a.send(b, b"x" * 60_000, segment=1000)
        arrived = len(b.receive_all())
        dropped = link(fabric, "plane 0: host 0 -> t0 0").drop_queue
        assert dropped > 0
        assert arrived + dropped == 180


def test_a_congested_switch_marks_ecn_capable_packets(hosts: Any) -> None:
    with EmulatedFabric(small(ecn={"threshold_bytes": 2000, "last_hop": True})) as fabric:
        a, other, b = hosts(fabric, 0), hosts(fabric, 1), hosts(fabric, 2)
        for _ in range(40):
            for sender in (a, other):
                sender.send(b, b"x" * 1000)
        a.send(b, b"y" * 1000, ecn=0)
        got = b.receive_all()
        octets = [octet for data, octet, _ in got if data[:1] == b"x"]
        assert TRIMMABLE << 2 | CE in octets
        assert octets[0] == TRIMMABLE << 2 | ECT0
        assert [octet for data, octet, _ in got if data[:1] == b"y"] == [TRIMMABLE << 2]


def test_a_congested_last_hop_trims_to_the_header_with_its_own_class(hosts: Any) -> None:
    trim = {"threshold_bytes": 3000, "last_hop_threshold_bytes": 3000, "size_bytes": 128}
    with EmulatedFabric(small(trim=trim)) as fabric:
        a, other, b = hosts(fabric, 0), hosts(fabric, 1), hosts(fabric, 2)
        for n in range(30):
            for sender in (a, other):
                sender.send(b, bytes([n]) * 1000, ev=EV + n % 2)
        got = b.receive_all()
        assert len(got) == 60
        trimmed = [(data, octet) for data, octet, _ in got if len(data) < 1000]
        assert trimmed
        assert {len(data) for data, _ in trimmed} == {100}
        assert {octet >> 2 for _, octet in trimmed} <= {TRIMMED, TRIMMED_LAST_HOP}
        assert all(set(data) == {data[0]} for data, _ in trimmed)


def test_traffic_that_must_not_be_trimmed_is_not(hosts: Any) -> None:
    trim = {"threshold_bytes": 3000, "last_hop_threshold_bytes": 3000}
    with EmulatedFabric(small(trim=trim)) as fabric:
        a, other, b = hosts(fabric, 0), hosts(fabric, 1), hosts(fabric, 2)
        for _ in range(30):
            for sender in (a, other):
                sender.send(b, b"x" * 1000, dscp=0)
        assert {len(data) for data, _, _ in b.receive_all()} == {1000}


def test_a_black_hole_is_silent_and_a_repair_ends_it(hosts: Any) -> None:
    events: list[dict[str, Any]] = []
    with EmulatedFabric(small()) as fabric:
        fabric.subscribe(events.append)
        a, b = hosts(fabric, 0), hosts(fabric, 2)
        a0, b0 = hosts(fabric, 0, 1), hosts(fabric, 2, 1)
        number = fabric.inject("plane 0 blackhole")
        until(lambda: bool(events))
        a.send(b, b"lost")
        a0.send(b0, b"other plane")
        assert b0.receive() is not None
        assert b.receive(0.2) is None
        assert fabric.inject(f"repair fault {number}") == 1
        a.send(b, b"again")
        assert b.receive() is not None
        assert not [event for event in events if event["event"] == "carrier"]
        until(lambda: events[-1]["event"] == "fault" and events[-1]["state"] == "repaired")
        assert sum(one.drop_blackhole for one in fabric.statistics().links) == 1


def test_a_link_that_goes_down_with_notice_takes_and_gives_back_the_carrier() -> None:
    events: list[dict[str, Any]] = []
    with EmulatedFabric(small()) as fabric:
        fabric.subscribe(events.append)
        fabric.inject("host 1 plane 1 down for 50ms")
        until(lambda: len(events) == 4)
        carriers = [(event["host"], event["port"], event["up"]) for event in events if event["event"] == "carrier"]
        assert carriers == [(1, 1, False), (1, 1, True)]
        assert fabric.carriers() == [[True, True]] * 3


def test_a_switch_down_notifies_exactly_its_hosts() -> None:
    with EmulatedFabric(small()) as fabric:
        fabric.inject("t0 0 plane 0 down")
        until(lambda: not fabric.carriers()[0][0])
        assert fabric.carriers() == [[False, True], [False, True], [True, True]]
        assert fabric.inject("repair all") == 1
        assert fabric.carriers() == [[True, True]] * 3


@pytest.mark.parametrize(
    ("fault", "arrived", "unchanged"),
    [
        ("plane 0 loss 30%", range(80, 200), True),
        ("plane 0 loss 30% burst 5", range(40, 200), True),
        ("plane 0 duplicate 30%", range(201, 300), True),
        ("plane 0 corrupt 30%", range(200, 201), False),
        ("plane 0 delay 20ms", range(200, 201), True),
        ("plane 0 rate 50%", range(200, 201), True),
        ("host 0 plane 0 down", range(1), True),
        ("t0 0 t1 0 plane 0 blackhole", range(100, 101), True),
    ],
)
def test_each_fault_has_its_effect_on_packets(hosts: Any, fault: str, arrived: range, unchanged: bool) -> None:
    with EmulatedFabric(small(seed=7)) as fabric:
        a, b = hosts(fabric, 0), hosts(fabric, 2)
        fabric.inject(fault)
        until(lambda: fabric.statistics().active_faults == (1,))
        for n in range(200):
            a.send(b, bytes(100), ev=EV + n % 2)
        got = [data for data, _, _ in b.receive_all()]
        assert len(got) in arrived
        wrong = [data for data in got if data != bytes(100)]
        assert bool(wrong) != unchanged
        assert all(sum(byte.bit_count() for byte in data) == 1 for data in wrong)  # one flipped bit each


def test_reordering_lets_later_packets_overtake(hosts: Any) -> None:
    with EmulatedFabric(small(seed=3)) as fabric:
        a, b = hosts(fabric, 0), hosts(fabric, 2)
        fabric.inject("plane 0 reorder 20% 2ms")
        until(lambda: fabric.statistics().active_faults == (1,))
        for n in range(200):
            a.send(b, bytes([n]) * 200)
        order = [data[0] for data, _, _ in b.receive_all()]
        assert sorted(order) == list(range(200))
        assert order != sorted(order)


def test_faults_of_the_fabric_file_strike_by_themselves() -> None:
    fabric = EmulatedFabric(small(faults=["plane 1 down at 20ms for 50ms"]))
    events: list[dict[str, Any]] = []
    fabric.subscribe(events.append)  # before the start: a listener misses what happened earlier
    with fabric:
        until(lambda: [event["state"] for event in events if event["event"] == "fault"] == ["begins", "ends"])
        begins, ends = (event["time_ns"] for event in events if event["event"] == "fault")
        assert ends - begins == 50_000_000


def test_a_scheduled_repair_ends_its_fault() -> None:
    with EmulatedFabric(small()) as fabric:
        fabric.inject("host 0 plane 0 down")
        assert fabric.inject("repair plane 0 at 50ms") == 0
        until(lambda: not fabric.carriers()[0][0])
        until(lambda: fabric.carriers()[0][0])


def test_faults_at_places_that_the_fabric_lacks_are_refused() -> None:
    with EmulatedFabric(small()) as fabric:
        with pytest.raises(FaultError, match="plane 0 to 1"):
            fabric.inject("plane 2 down")
        with pytest.raises(FaultError, match="did you mean"):
            fabric.inject("plane 1 dwon")
        assert fabric.inject("repair fault 99") == 0


def test_two_fabrics_cannot_share_addresses_and_the_error_says_so() -> None:
    with EmulatedFabric(small()), pytest.raises(DeviceError, match=rf"127\.96\.0\.2:{UDP_PORT}.*address_base"):
        EmulatedFabric(small())
    with EmulatedFabric(small()):
        pass  # all of it was released


def test_a_rate_cut_in_the_middle_of_a_stream_loses_nothing_that_fits(hosts: Any) -> None:
    with EmulatedFabric(small()) as fabric:
        a, b = hosts(fabric, 0), hosts(fabric, 2)
        for n in range(60):
            if n == 20:
                fabric.inject("host 0 plane 0 rate 10% for 30ms")
            a.send(b, bytes([n]) * 1000)
        assert sorted(data[0] for data, _, _ in b.receive_all()) == list(range(60))


def test_control_channel_describes_injects_counts_and_tells(hosts: Any) -> None:
    with EmulatedFabric(small(), control="127.0.0.1:0") as fabric:
        assert fabric.control_address is not None
        with ControlClient(fabric.control_address) as client, ControlClient(fabric.control_address) as watcher:
            description = client.describe()
            assert (description["planes"], description["hosts"]) == (2, 3)
            assert description["ports"][2][1] == str(fabric.ports(2)[1])
            client.inject("host 2 plane 0 down")
            until(lambda: not fabric.carriers()[2][0])
            watcher.subscribe(host=2)
            first = watcher.next_event(5)
            assert first is not None
            assert (first["event"], first["host"], first["port"], first["up"]) == ("carrier", 2, 0, False)
            client.inject("repair all")
            seen = [watcher.next_event(5), watcher.next_event(5)]
            assert {event["event"] for event in seen if event} == {"fault", "carrier"}
            a, b = hosts(fabric, 0, 1), hosts(fabric, 1, 1)
            a.send(b, b"x")
            assert b.receive() is not None
            assert client.statistics()["delivered"] == 1
            with pytest.raises(ConfigError, match="plane 0 to 1"):
                client.inject("plane 9 down")


def test_control_channel_over_a_unix_socket_ends_with_the_fabric(tmp_path: Any) -> None:
    where = f"unix:{tmp_path}/control"
    with EmulatedFabric(small(), control=where) as fabric:
        client = ControlClient(where)
        assert client.describe()["hosts"] == 3
        assert fabric.control_address == where
    with client, pytest.raises(PeerError):
        client.describe()
    assert not (tmp_path / "control").exists()
    with pytest.raises(PeerUnreachableError):
        ControlClient(where)


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"do": "fly"}', b'{"do": 3}', b'{"do": "inject"}', b"\xff", b"1" * 70000]
)
def test_nonsense_on_the_control_channel_gets_an_answer_not_a_crash(line: bytes) -> None:
    with EmulatedFabric(small(), control="127.0.0.1:0") as fabric:
        host, port = str(fabric.control_address).rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=5) as raw:
            raw.sendall(line + b"\n")
            assert b'"ok": false' in raw.recv(4096)
        with ControlClient(str(fabric.control_address)) as client:
            assert client.describe()["hosts"] == 3


@pytest.mark.parametrize("where", ["", "8.8.8.8:1", "localhost:1", "127.0.0.1", "127.0.0.1:99999", "unix:"])
def test_control_listens_on_loopback_only(where: str) -> None:
    with pytest.raises(ConfigError, match="unix:PATH"):
        EmulatedFabric(small(), control=where)


def test_a_program_may_end_without_stopping_the_fabric() -> None:
    program = f"""
import time
from openmrc.emulate import EmulatedFabric
from openmrc.fabric import make_fabric

class Slow:  # the interpreter takes its time to end, so that the fabric's threads find that it has
    def __del__(self, sleep=time.sleep):
        sleep(0.5)

slow = Slow()
EmulatedFabric(make_fabric(planes=1, hosts=2, rate="100Mbit", address_base="{BASE}", udp_port={UDP_PORT})).start()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_stop_in_the_middle_of_traffic_leaves_nothing_behind(hosts: Any) -> None:
    before = threading.active_count()
    fabric = EmulatedFabric(small(), control="127.0.0.1:0").start()
    a, b = hosts(fabric, 0), hosts(fabric, 2)
    for _ in range(50):
        a.send(b, bytes(1000))
    fabric.stop()
    fabric.stop()
    assert threading.active_count() == before
