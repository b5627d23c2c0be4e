"""Transfers between devices over real sockets: every size, transport, address family and kind of buffer."""

from __future__ import annotations

import asyncio
import mmap
import subprocess
import sys
import threading
from array import array
from collections.abc import Iterator

import numpy as np
import pytest
from own_ports import UDP_PORT, with_own_devices

import openmrc
from openmrc.connection import Connection, QpSettings
from openmrc.errors import ConfigError, InvalidArgumentError, WorkError
from openmrc.verbs import Access, Device, QpState, QueuePair, Transport

pytestmark = pytest.mark.live


def pair(a: Device, b: Device, region: object, settings: QpSettings | None = None) -> tuple[Connection, Connection]:
    """Connects `a` to `b`, which offers `region`."""
    found: list[Connection] = []
    offered = b.open_context().alloc_pd().register(region, Access.REMOTE_WRITE)
    with openmrc.listen(b, "127.0.0.1:0", region=offered, settings=settings) as at:
        thread = threading.Thread(target=lambda: found.append(at.accept(timeout_s=20)))
        thread.start()
        client = openmrc.connect(a, at.address, settings=settings, timeout_s=20)
        thread.join()
    return client, found[0]


@pytest.fixture
def devices() -> Iterator[tuple[Device, Device]]:
    with (
        Device(["127.0.0.11", "127.0.0.12"], udp_port=UDP_PORT) as a,
        Device(["127.0.0.21", "127.0.0.22"], udp_port=UDP_PORT) as b,
    ):
        yield a, b


def pattern(size_bytes: int, seed: int = 1) -> bytearray:
    return bytearray(np.random.default_rng(seed).integers(0, 256, size_bytes, dtype=np.uint8).tobytes())


@pytest.mark.parametrize("transport", ["mrc", "rc"])
@pytest.mark.parametrize("size_bytes", [1, 3, 4095, 4096, 4097, 65536, 1_000_003])
def test_every_size_arrives_unchanged_and_nothing_else_is_touched(devices, transport, size_bytes):
    target = bytearray(size_bytes + 64)
    client, server = pair(*devices, target, QpSettings(transport=transport))
    with client, server:
        data = pattern(size_bytes)
        client.write(data, 32).wait(20)
        assert target[32 : 32 + size_bytes] == data
        assert not any(target[:32])
        assert not any(target[32 + size_bytes :])
        assert client.transport is server.transport is Transport[transport.upper()]


def test_many_writes_and_immediates_keep_their_order(devices):
    target = bytearray(1 << 16)
    client, server = pair(*devices, target)
    with client, server:
        source = client.register(pattern(1 << 16))
        for number in range(200):
            client.write(source, local_offset=number * 256, remote_offset=number * 256, length_bytes=256, imm=number)
        received = [server.recv_imm(20) for _ in range(200)]
        client.flush(20)
        assert [one.immediate for one in received] == list(range(200))
        assert {one.bytes for one in received} == {256}
        assert target[: 200 * 256] == pattern(1 << 16)[: 200 * 256]


def test_an_immediate_is_delivered_although_the_qp_fails_when_its_receive_is_replaced(devices, monkeypatch):
    """As when the peer closes after its last write, and its goodbye is read between the two."""
    target = bytearray(64)
    client, server = pair(*devices, target)
    with client, server:
        client.write(bytearray(b"last words"), imm=42).wait(20)
        post_recv = QueuePair.post_recv

        def post_after_failure(qp: QueuePair) -> None:
            qp.modify(QpState.ERR)
            post_recv(qp)

        monkeypatch.setattr(QueuePair, "post_recv", post_after_failure)
        assert server.recv_imm(20) == (42, 10)
        with pytest.raises(WorkError, match="WR_FLUSH_ERR"):
            server.recv_imm(20)


def test_both_ports_carry_data(devices):
    """Their shares follow from the delays that the operating system causes: no bound holds on a busy machine."""
    target = bytearray(1 << 20)
    client, server = pair(*devices, target)
    with client, server:
        client.write(pattern(1 << 20)).wait(20)
        sent = [port.sent_packets for port in devices[0].statistics().ports]
        assert min(sent) > 0


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(bytearray, id="bytearray"),
        pytest.param(lambda data: np.frombuffer(bytearray(data), dtype=np.uint8), id="numpy"),
        pytest.param(lambda data: array("B", data), id="array"),
        pytest.param(lambda data: memoryview(bytearray(data))[8:-8], id="memoryview"),
    ],
)
def test_any_writable_buffer_is_sent_without_being_copied_or_changed(devices, make):
    buffer = make(pattern(8192))
    before = bytes(buffer)
    target = bytearray(8192)
    client, server = pair(*devices, target)
    with client, server:
        client.write(buffer).wait(20)
        assert target[: len(before)] == before
        assert bytes(buffer) == before


def test_mmap_can_be_the_target_and_is_protected_while_registered(devices):
    with mmap.mmap(-1, 1 << 16) as target:
        domain = devices[1].open_context().alloc_pd()
        with domain.register(target), pytest.raises(BufferError):
            target.close()


def test_a_buffer_cannot_be_resized_while_registered(devices):
    buffer = bytearray(4096)
    region = devices[0].open_context().alloc_pd().register(buffer)
    with pytest.raises(BufferError):
        buffer.append(1)
    region.close()
    buffer.append(1)


@pytest.mark.parametrize("bad", [b"read only", np.zeros((4, 4))[:, ::2], "text", 7, None])
def test_unsuitable_buffers_are_refused_in_words(devices, bad):
    with pytest.raises(InvalidArgumentError, match="writable"):
        devices[0].open_context().alloc_pd().register(bad)


@pytest.mark.parametrize(
    "settings", [{"segmentation_offload": False}, {"receive_offload": False}, {"burst_packets": 1}]
)
def test_data_arrives_without_the_kernels_offloads(settings):
    target = bytearray(500_000)
    with (
        Device(["127.0.0.11"], udp_port=UDP_PORT, **settings) as a,
        Device(["127.0.0.21"], udp_port=UDP_PORT, **settings) as b,
    ):
        client, server = pair(a, b, target)
        with client, server:
            client.write(pattern(500_000)).wait(20)
            assert target == pattern(500_000)
            statistics = a.statistics().ports[0].socket
            assert (statistics.segmented_sends == 0) == ("receive_offload" not in settings)


@pytest.mark.parametrize("ev_format", ["udp", "stev"])
def test_ipv6_with_both_ev_formats(ev_format):
    target = bytearray(300_000)
    with (
        Device(["::1"], udp_port=UDP_PORT, ev_format=ev_format) as a,
        Device(["::1"], udp_port=UDP_PORT + 1, ev_format=ev_format) as b,
    ):
        client, server = pair(a, b, target)
        with client, server:
            client.write(pattern(300_000)).wait(20)
            assert target == pattern(300_000)
            used = {entry.value >> 16 for entry in client.qp.ev_states()}
            assert (used == {0}) == (ev_format == "udp")


# proves X.7.1
@pytest.mark.parametrize("payload_mtu", [256, 1024, 1404, 8192])
def test_payload_mtu_is_what_both_agreed(devices, payload_mtu):
    target = bytearray(100_000)
    client, server = pair(*devices, target, QpSettings(payload_mtu=payload_mtu))
    with client, server:
        client.write(pattern(100_000)).wait(20)
        assert target == pattern(100_000)
        assert client.agreed["payload_mtu"] == server.agreed["payload_mtu"] == payload_mtu
        assert client.statistics().sent_packets >= 100_000 // payload_mtu


# proves X.4.10
@pytest.mark.parametrize("transport", ["mrc", "rc"])
@pytest.mark.parametrize("integrity", ["auto", "icrc"])
def test_packets_within_a_kernel_have_an_icrc_only_on_request(devices, transport, integrity):
    target = bytearray(100_000)
    client, server = pair(*devices, target, QpSettings(transport=transport, integrity=integrity))
    with client, server:
        client.write(pattern(100_000)).wait(20)
        assert target == pattern(100_000)
        assert client.agreed["icrc"] is server.agreed["icrc"] is (integrity == "icrc")
    for device in devices:
        drops = device.statistics().drops
        assert drops.missing_icrc == drops.bad_icrc == 0


def test_writes_from_an_event_loop_run_side_by_side(devices):
    target = bytearray(1 << 20)
    client, server = pair(*devices, target)

    async def run() -> list[int]:
        source = client.register(pattern(1 << 20))
        size = 1 << 16
        await asyncio.gather(
            *(client.write_async(source, n * size, local_offset=n * size, length_bytes=size, imm=n) for n in range(16))
        )
        return [(await server.recv_imm_async()).immediate for _ in range(16)]

    with client, server:
        assert asyncio.run(run()) == list(range(16))
        assert target == pattern(1 << 20)


def test_a_write_outside_the_offer_is_refused_before_it_leaves(devices):
    client, server = pair(*devices, bytearray(1000))
    with client, server:
        with pytest.raises(ConfigError, match="remote_offset"):
            client.write(bytearray(1001))
        with pytest.raises(ConfigError, match="offered no memory"):
            server.write(bytearray(1))


def test_a_write_with_no_receive_posted_fails_by_name(devices):
    client, server = pair(*devices, bytearray(1000), QpSettings(recv_wr_max=1))
    with client, server:
        client.write(bytearray(8), imm=1)
        client.write(bytearray(8), imm=2)
        with pytest.raises(WorkError) as caught:
            client.flush(20)
        assert caught.value.status in ("REM_OP_ERR", "WR_FLUSH_ERR")


def test_the_example_writes_an_array_into_another_process(repository, tmp_path):
    program = tmp_path / "write_array.py"
    program.write_text(with_own_devices((repository / "examples" / program.name).read_text()))
    done = subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    total = f"{np.arange(1024 * 1024, dtype=float).sum():.0f}"
    assert f"received 8388608 bytes by MRC, sum {total}" in done.stdout
