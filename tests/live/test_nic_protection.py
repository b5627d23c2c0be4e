"""Memory keys over real sockets: valid within their own protection domain, and for writes only if granted."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from own_ports import UDP_PORT

import openmrc
from openmrc.connection import Connection
from openmrc.errors import ConfigError
from openmrc.verbs import Access, Device, SendWr, WcStatus

pytestmark = pytest.mark.live


@pytest.fixture
def devices() -> Iterator[tuple[Device, Device]]:
    with Device(["127.0.0.81"], udp_port=UDP_PORT) as a, Device(["127.0.0.82"], udp_port=UDP_PORT) as b:
        yield a, b


def pair(a: Device, b: Device, region: object) -> tuple[Connection, Connection]:
    found: list[Connection] = []
    with openmrc.listen(b, "127.0.0.1:0", region=region) as at:
        thread = threading.Thread(target=lambda: found.append(at.accept(timeout_s=20)))
        thread.start()
        client = openmrc.connect(a, at.address, timeout_s=20)
        thread.join()
    return client, found[0]


def write_status(client: Connection, address: int, rkey: int) -> WcStatus:
    with client.register(bytearray(b"\xff" * 64)) as source:
        client.qp.post_send(SendWr(wr_id=99, region=source, remote_address=address, rkey=rkey))
        done = client.qp.send_cq.wait(20)
    return done[0].status


def test_one_connection_cannot_write_into_the_region_of_another(devices):
    a, b = devices
    victim = bytearray(4096)
    first, first_server = pair(a, b, victim)
    second, second_server = pair(a, b, bytearray(4096))
    assert first.remote is not None
    assert write_status(second, first.remote.address, first.remote.rkey) is WcStatus.REM_ACCESS_ERR
    first.write(bytearray(b"x" * 10)).wait(20)
    assert bytes(victim) == b"x" * 10 + bytes(4086)
    for one in (first, first_server, second, second_server):
        one.close()


def test_the_region_of_a_closed_connection_is_out_of_reach(devices):
    a, b = devices
    victim = bytearray(4096)
    first, first_server = pair(a, b, victim)
    assert first.remote is not None
    address, rkey = first.remote.address, first.remote.rkey
    first.close()
    first_server.close()
    second, second_server = pair(a, b, bytearray(4096))
    assert write_status(second, address, rkey) is WcStatus.REM_ACCESS_ERR
    assert not any(victim)
    second.close()
    second_server.close()


@pytest.mark.parametrize("by", ["connection", "domain"])
def test_a_source_cannot_be_written_into(devices, by):
    a, b = devices
    target = b.open_context().alloc_pd().register(bytearray(64), Access.REMOTE_WRITE)
    client, server = pair(a, b, target)
    source = bytearray(64)
    region = server.register(source) if by == "connection" else target._pd.register(source)
    assert write_status(client, region.address, region.rkey) is WcStatus.REM_ACCESS_ERR
    assert not any(source)
    for one in (client, server, region):
        one.close()


def test_a_region_for_local_reads_is_no_offer(devices):
    a, b = devices
    region = b.open_context().alloc_pd().register(bytearray(64))
    with pytest.raises(ConfigError, match="REMOTE_WRITE"):
        openmrc.listen(b, "127.0.0.1:0", region=region)
    with pytest.raises(ConfigError, match="REMOTE_WRITE"):
        openmrc.connect(a, "127.0.0.1:1", region=a.open_context().alloc_pd().register(bytearray(8)))
