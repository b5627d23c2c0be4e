"""Failures and attacks: dead peers, wrong keys, strangers' datagrams, full queues. None hangs or is silently lost."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from own_ports import UDP_PORT
from waiting import until

import openmrc
from openmrc.connection import Connection, QpSettings
from openmrc.errors import BusyError, DeviceError, HandshakeError, InvalidStateError, PeerUnreachableError, WorkError
from openmrc.verbs import (
    Access,
    CompletionQueue,
    Device,
    EvState,
    FabricCarrier,
    MemoryRegion,
    Peer,
    QpErrorCause,
    QpState,
    SendWr,
    ToInit,
    ToRtr,
    ToRts,
    WcStatus,
)
from openmrc.verbs.event_stream import CqOverrun, EvStateChanged, PeerLost, PortStateChanged, QpStateChanged

pytestmark = pytest.mark.live
QUICK = QpSettings(timeout_exponent=10, linear_retries=2, exponential_retries=3)


def pair(a: Device, b: Device, region: object, settings: QpSettings | None = None) -> tuple[Connection, Connection]:
    found: list[Connection] = []
    if not isinstance(region, MemoryRegion):
        region = b.open_context().alloc_pd().register(region, Access.REMOTE_WRITE)
    with openmrc.listen(b, "127.0.0.1:0", region=region, settings=settings) as at:
        thread = threading.Thread(target=lambda: found.append(at.accept(timeout_s=20)))
        thread.start()
        client = openmrc.connect(a, at.address, settings=settings, timeout_s=20)
        thread.join()
    return client, found[0]


@pytest.fixture
def devices() -> Iterator[tuple[Device, Device]]:
    with (
        Device(["127.0.0.31", "127.0.0.32"], udp_port=UDP_PORT) as a,
        Device(["127.0.0.41", "127.0.0.42"], udp_port=UDP_PORT) as b,
    ):
        yield a, b


def test_two_devices_on_one_port_is_a_clear_error():
    with (
        Device(["127.0.0.51"], udp_port=UDP_PORT),
        pytest.raises(DeviceError, match=r"another device already receives on 127\.0\.0\.51"),
    ):
        Device(["127.0.0.51"], udp_port=UDP_PORT)


def test_a_closed_device_gives_its_port_back():
    for _ in range(3):
        Device(["127.0.0.51"], udp_port=UDP_PORT).close()


def test_an_unreachable_peer_names_the_addresses_tried(devices):
    with pytest.raises(PeerUnreachableError, match=r"127\.0\.0\.1:1 .*127\.0\.0\.1: Connection refused"):
        openmrc.connect(devices[0], "127.0.0.1:1", timeout_s=2)


def test_something_else_that_listens_is_not_taken_for_a_peer(devices):
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as stranger:
                stranger.sendall(b"HTTP/1.1 400 Bad Request\r\n")

        threading.Thread(target=answer).start()
        with pytest.raises(HandshakeError, match="not an openmrc peer"):
            openmrc.connect(devices[0], f"127.0.0.1:{server.getsockname()[1]}", timeout_s=5)


def test_a_silent_listener_does_not_hang_connect(devices):
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(HandshakeError, match="in time"):
        openmrc.connect(devices[0], f"127.0.0.1:{server.getsockname()[1]}", timeout_s=0.3)


def test_a_listener_survives_strangers(devices):
    a, b = devices
    target = bytearray(10)
    with openmrc.listen(b, "127.0.0.1:0", region=target) as at:
        found: list[Connection] = []
        thread = threading.Thread(target=lambda: found.append(at.accept(timeout_s=20)))
        thread.start()
        for line in (b"\n", b"{}\n", b"[1]\n", b'{"openmrc": 1, "kind": "hello"}\n', b"\xff" * 100 + b"\n"):
            with socket.create_connection(("127.0.0.1", at.port)) as stranger:
                stranger.sendall(line)
                stranger.recv(1000)
        client = openmrc.connect(a, at.address)
        thread.join()
        client.write(bytearray(b"0123456789")).wait(20)
        assert target == b"0123456789"
        assert len(at.rejected) == 5
        client.close()
        found[0].close()


def test_a_wrong_partition_key_is_named_at_both_ends(devices):
    with (
        Device(["127.0.0.51", "127.0.0.52"], udp_port=UDP_PORT, partition_key=7) as other,
        openmrc.listen(devices[1], "127.0.0.1:0") as at,
    ):

        def accept() -> None:
            with pytest.raises(TimeoutError):
                at.accept(timeout_s=1)

        thread = threading.Thread(target=accept)
        thread.start()
        with pytest.raises(HandshakeError, match="partition key differs") as refused:
            openmrc.connect(other, at.address)
        thread.join()
        assert "partition key differs" in at.rejected[0]
        # A party without the key must not learn it from the refusal.
        assert hex(devices[1].partition_key) not in str(refused.value)


def test_a_peer_that_closes_ends_everything_that_waits(devices):
    client, server = pair(*devices, bytearray(100))
    with devices[1].subscribe() as events:
        waiting: list[BaseException] = []

        def receive() -> None:
            try:
                server.recv_imm(20)
            except WorkError as error:
                waiting.append(error)

        thread = threading.Thread(target=receive)
        thread.start()
        client.close()
        thread.join(20)
        assert isinstance(waiting[0], WorkError)
        assert waiting[0].status == "WR_FLUSH_ERR"
        assert server.qp.state is QpState.ERR
        until(lambda: any(isinstance(one, PeerLost) for one in events.poll()) or server.peer_lost)
    server.close()


PEER = f"""
import sys, openmrc
device = openmrc.Device(["127.0.0.61", "127.0.0.62"], udp_port={UDP_PORT})
at = openmrc.listen(device, "127.0.0.1:0", region=bytearray(1 << 24))
print(at.address, flush=True)
connection = at.accept(timeout_s=30)
sys.stdin.read()
"""


def test_a_peer_that_is_killed_fails_pending_writes(devices):
    with subprocess.Popen(
        [sys.executable, "-c", PEER], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as peer:
        assert peer.stdout is not None
        client = openmrc.connect(devices[0], peer.stdout.readline().strip())
        source = client.register(bytearray(1 << 24))
        client.write(source).wait(20)
        os.kill(peer.pid, signal.SIGSTOP)
        handles = [client.write(source) for _ in range(4)]
        os.kill(peer.pid, signal.SIGKILL)
        for handle in handles:
            with pytest.raises(WorkError):
                handle.wait(20)
        assert client.peer_lost
        client.close()
        source.close()


def test_old_packets_of_a_restarted_peer_are_counted_and_ignored(devices):
    a, b = devices
    target = bytearray(1000)
    client, server = pair(a, b, target)
    client.write(bytearray(b"x" * 1000)).wait(20)
    old_qp = server.qp.qp_num
    server.close()
    # The old peer's packets continue to arrive for a QP that no longer exists.
    until(lambda: client.qp.state is QpState.ERR)
    fresh, fresh_server = pair(a, b, target)
    before = b.statistics().drops.unknown_qp
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind(("127.0.0.31", 0))
        for _ in range(100):
            sender.sendto(bytes([0xCA, 0, 0xFF, 0xFF, 0, *old_qp.to_bytes(3)]) + bytes(60), ("127.0.0.41", UDP_PORT))
    fresh.write(bytearray(b"y" * 1000)).wait(20)
    assert target == b"y" * 1000
    drops = b.statistics().drops
    until(lambda: b.statistics().drops.unknown_qp + b.statistics().drops.bad_icrc > before), drops
    for one in (client, fresh, fresh_server):
        one.close()


def test_datagrams_of_strangers_are_counted_drops(devices):
    a, b = devices
    target = bytearray(1 << 20)
    client, server = pair(a, b, target)
    generator = random.Random(7)
    stop = threading.Event()

    def flood() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            while not stop.is_set():
                size = generator.choice([0, 1, 11, 12, 40, 1000, 9000, 60000])
                stranger.sendto(generator.randbytes(size), ("127.0.0.41", UDP_PORT))

    thread = threading.Thread(target=flood)
    thread.start()
    source = client.register(bytearray(random.Random(3).randbytes(1 << 20)))
    for _ in range(20):
        client.write(source).wait(20)
    stop.set()
    thread.join()
    drops = b.statistics().drops
    socket_drops = b.statistics().ports[0].socket
    assert bytes(target) == random.Random(3).randbytes(1 << 20)
    assert drops.bad_icrc + sum(drops.parse_errors.values()) + drops.unknown_qp + socket_drops.truncated > 0
    assert server.qp.state is QpState.RTS
    client.close()
    server.close()


@pytest.mark.parametrize("what", ["key", "bounds", "deregistered", "permission"])
def test_a_write_that_is_not_allowed_is_refused_and_fails_the_qp(devices, what):
    a, b = devices
    target = bytearray(4096)
    domain = b.open_context().alloc_pd()
    region = domain.register(target, Access.REMOTE_WRITE)
    client, server = pair(a, b, region)
    address, rkey = region.address, region.rkey
    if what == "key":
        rkey ^= 0x5A5A
    elif what == "bounds":
        address += 4000
    elif what == "permission":
        region.close()
        region = domain.register(target)
        rkey = region.rkey
    else:
        region.close()
    source = client.register(bytearray(b"\xff" * 200))
    client.qp.post_send(SendWr(wr_id=99, region=source, remote_address=address, rkey=rkey))
    done = client.qp.send_cq.wait(20)
    assert [one.status for one in done] == [WcStatus.REM_ACCESS_ERR]
    assert client.qp.state is QpState.ERR
    assert client.qp.error_cause is QpErrorCause.REMOTE_ACCESS
    until(lambda: server.qp.error_cause is QpErrorCause.ACCESS_VIOLATION)
    assert not any(target[:4000])
    for one in (client, server, region, source):
        one.close()


def test_all_paths_dead_runs_out_of_retries_and_says_so(devices):
    a, b = devices
    client, server = pair(a, b, bytearray(100), QUICK)
    handle = client.write(bytearray(100))
    handle.wait(20)
    b.close()  # silence, while the TCP connection stays
    handles = [client.write(bytearray(100)) for _ in range(3)]
    with pytest.raises(WorkError) as caught:
        handles[0].wait(30)
    assert caught.value.status == "RETRY_EXC_ERR"
    with pytest.raises(WorkError) as flushed:
        handles[2].wait(30)
    assert flushed.value.status == "WR_FLUSH_ERR"
    client.close()
    server.close()


def test_a_region_with_posted_sends_is_busy(devices):
    client, server = pair(*devices, bytearray(1 << 20))
    source = client.register(bytearray(1 << 20))
    devices[1].close()
    client.write(source)
    with pytest.raises(BusyError):
        source.close()
    client.close()
    source.close()
    server.close()


def test_a_full_completion_queue_fails_the_qp_and_is_an_event(devices):
    a, b = devices
    target = b.open_context().alloc_pd().register(bytearray(100), Access.REMOTE_WRITE)
    domain = a.open_context().alloc_pd()
    small, other = CompletionQueue(a, 2), CompletionQueue(b, 16)
    qp, peer_qp = domain.create_qp(small), target._pd.create_qp(other)
    for one, end, remote, number in ((qp, b, peer_qp, 1), (peer_qp, a, qp, 2)):
        one.modify(ToInit())
        addresses = tuple(port.seen_as for port in end.ports)
        peer_ports = Peer(addresses, udp_port=UDP_PORT)
        one.modify(ToRtr(peer=peer_ports, destination_qp=remote.qp_num, rq_psn=number % 2))
        one.modify(ToRts(sq_psn=(number + 1) % 2))
    source = domain.register(bytearray(10))
    with a.subscribe() as events:
        for number in range(8):
            try:
                qp.post_send(SendWr(wr_id=number, region=source, remote_address=target.address, rkey=target.rkey))
            except InvalidStateError:
                break  # the overrun has already happened
        seen: list[object] = []
        until(lambda: seen.extend(events.poll()) or any(isinstance(one, CqOverrun) for one in seen))
        until(lambda: qp.state is QpState.ERR)
    qp.close()
    peer_qp.close()
    source.close()


def test_a_port_without_carrier_is_left_and_used_again(devices):
    a, b = devices
    client, server = pair(a, b, bytearray(1 << 20))
    source = client.register(bytearray(1 << 20))
    with b.subscribe() as events:
        a.set_port_state(0, up=False)
        assert a.ports_up() == [False, True]
        seen: list[object] = []
        until(
            lambda: (
                seen.extend(events.poll())
                or any(isinstance(one, PortStateChanged) and one.learned and not one.up for one in seen)
            )
        )
        before = a.statistics().ports[0].sent_packets
        client.write(source).wait(20)
        assert a.statistics().ports[0].sent_packets == before
        a.set_port_state(0, up=True)
        client.write(source).wait(20)
        assert a.statistics().ports[0].sent_packets > before
    client.close()
    server.close()


def test_a_fabrics_carrier_feed_sets_ports(devices):
    with socket.create_server(("127.0.0.1", 0)) as feed:
        monitor = FabricCarrier(devices[0], f"127.0.0.1:{feed.getsockname()[1]}", host=3)
        sender, _ = feed.accept()
        with monitor, sender:
            for record in (
                {"event": "carrier", "host": 2, "port": 0, "up": False},
                {"event": "other"},
                {"event": "carrier", "host": 3, "port": 1, "up": False},
            ):
                sender.sendall(json.dumps(record).encode() + b"\n")
            sender.sendall(b"no json\n")
            until(lambda: devices[0].ports_up() == [True, False])
            sender.sendall(b'{"event": "carrier", "host": 3, "port": 1, "up": true}\n')
            until(lambda: devices[0].ports_up() == [True, True])


def test_a_denied_path_carries_nothing_until_enabled(devices):
    client, server = pair(*devices, bytearray(1 << 20))
    profile = client.qp.ev_profile
    assert profile is not None
    victim = client.qp.active_evs()[0]
    with devices[0].subscribe() as events:
        profile.deny(victim)
        assert {one.value: one.state for one in client.qp.ev_states()}[victim] is EvState.DENIED
        seen: list[object] = []
        until(lambda: seen.extend(events.poll()) or any(isinstance(one, EvStateChanged) for one in seen))
        profile.enable(victim)
        assert {one.value: one.state for one in profile.query()}[victim] is not EvState.DENIED
    client.close()
    server.close()


def test_probes_find_which_paths_work(devices):
    a, b = devices
    a_peer = Peer(tuple(port.seen_as for port in b.ports), udp_port=UDP_PORT)
    b.add_peer(Peer(tuple(port.seen_as for port in a.ports), udp_port=UDP_PORT))
    answers = a.controller.probe(a_peer, timeout_s=2)
    assert len(answers) == len(a.evs())
    assert all(one.answered and one.rtt_ns > 0 for one in answers)
    b.close()
    assert not any(one.answered for one in a.controller.probe(a_peer, [a.evs()[0][0]], timeout_s=0.05))


def test_states_are_events_and_json_lines(devices):
    with devices[0].subscribe() as events:
        client, server = pair(*devices, bytearray(8))
        client.close()
        server.close()
        seen: list[QpStateChanged] = []
        until(lambda: seen.extend(one for one in events.poll() if isinstance(one, QpStateChanged)) or len(seen) >= 4)
        assert [one.state for one in seen] == [QpState.INIT, QpState.RTR, QpState.RTS, QpState.ERR]
        assert json.loads(seen[-1].to_json())["cause"] == "FLUSHED"


def test_calls_on_a_closed_device_answer_instead_of_hanging():
    device = Device(["127.0.0.51"], udp_port=UDP_PORT)
    cq = device.open_context().create_cq(16)
    device.close()
    device.close()
    assert cq.wait(5) == []
    assert cq.poll(busy=True) == []
    assert device.progress() == 0
    assert device.statistics().ports[0].socket.send_calls == 0
