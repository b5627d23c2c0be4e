"""Lifetimes inside a device: registered memory and unfinished work are kept, unused objects are released."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest
from own_ports import UDP_PORT

import openmrc
from openmrc.connection import Connection, Listener, QpSettings
from openmrc.errors import WorkError
from openmrc.verbs import Access, Device, Peer

pytestmark = pytest.mark.live
QUICK = QpSettings(timeout_exponent=10, linear_retries=2, exponential_retries=3)


@pytest.fixture
def devices() -> Iterator[tuple[Device, Device]]:
    with (
        Device(["127.0.0.73", "127.0.0.74"], udp_port=UDP_PORT) as a,
        Device(["127.0.0.75", "127.0.0.76"], udp_port=UDP_PORT) as b,
    ):
        yield a, b


def connected(a: Device, at: Listener) -> tuple[Connection, Connection]:
    found: list[Connection] = []
    thread = threading.Thread(target=lambda: found.append(at.accept(timeout_s=20)))
    thread.start()
    client = openmrc.connect(a, at.address, timeout_s=20, settings=QUICK)
    thread.join()
    return client, found[0]


def test_a_context_goes_with_its_last_reference(devices: tuple[Device, Device]) -> None:
    contexts = [weakref.ref(devices[0].open_context()) for _ in range(10)]
    domains = [weakref.ref(devices[0].open_context().alloc_pd()) for _ in range(10)]
    gc.collect()
    assert not any(one() for one in contexts + domains)


def test_registered_memory_stays_without_references_until_the_device_closes() -> None:
    buffer = bytearray(100)
    with Device(["127.0.0.73"], udp_port=UDP_PORT) as device:
        device.open_context().alloc_pd().register(buffer, Access.REMOTE_WRITE)
        gc.collect()
        with pytest.raises(BufferError):
            buffer.extend(b"a peer may still write into the old place")
    buffer.extend(b"free")


def test_connections_leave_nothing_behind(devices: tuple[Device, Device]) -> None:
    a, b = devices
    with openmrc.listen(b, "127.0.0.1:0", region=bytearray(100), settings=QUICK) as at:
        for _ in range(3):
            for link in connected(a, at):
                link.close()
    gc.collect()
    for device in devices:
        assert not device._regions
        assert not device._queues
        assert not device.controller._answers


def test_the_region_of_a_listener_goes_with_its_last_connection(devices: tuple[Device, Device]) -> None:
    a, b = devices
    with openmrc.listen(b, "127.0.0.1:0", region=bytearray(100), settings=QUICK) as at:
        (first, first_end), (second, second_end) = connected(a, at), connected(a, at)
        region = at.region
        first_end.close()
    assert region is not None
    assert not region.closed
    second.write(bytearray(b"alive")).wait(20)
    second_end.close()
    assert region.closed
    first.close()
    second.close()


def test_untaken_answers_are_not_kept(devices: tuple[Device, Device]) -> None:
    a, b = devices
    peer = Peer(tuple(port.seen_as for port in b.ports), UDP_PORT)
    evs = [value for value, _ in a.evs()][:8]
    own = Peer(tuple(port.seen_as for port in a.ports), UDP_PORT)
    with b.known_peer(own), a.known_peer(peer):
        waiting = a.controller.start_probes(peer, evs, timeout_s=0.2)
        a.controller.forget_probes(waiting)
        assert all(answer.answered for answer in a.controller.probe(peer, evs, timeout_s=10))
        assert a.controller.take_answers(waiting) == {}
    assert not a.controller._answers


def test_a_write_without_any_port_names_the_ports(devices: tuple[Device, Device]) -> None:
    a, b = devices
    with openmrc.listen(b, "127.0.0.1:0", region=bytearray(100), settings=QUICK) as at:
        client, end = connected(a, at)
        for port in range(2):
            a.set_port_state(port, False)
        words = r"nothing leaves this side: port 0 \(127.0.0.73\): no carrier; port 1 \(127.0.0.74\): no carrier"
        with pytest.raises(WorkError, match=words) as failed:
            client.write(bytearray(10)).wait(20)
        assert failed.value.errno is None
        client.close()
        end.close()


def test_a_peer_that_is_silent_is_not_taken_for_an_outage_of_this_side(devices: tuple[Device, Device]) -> None:
    a, b = devices
    with openmrc.listen(b, "127.0.0.1:0", region=bytearray(100), settings=QUICK) as at:
        client, end = connected(a, at)
        a.set_port_state(1, False)
        for port in range(2):
            b.set_port_state(port, False)
        with pytest.raises(WorkError) as failed:
            client.write(bytearray(10)).wait(20)
        assert "nothing leaves" not in str(failed.value)
        client.close()
        end.close()
