"""Ranks of a job find each other: bad clients and absent ranks are named, with few messages."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from own_ports import UDP_PORT

from openmrc import Device
from openmrc.collectives import FileStore, TcpStore, World
from openmrc.connection.handshake_messages import VERSION
from openmrc.errors import DeviceError, HandshakeError, PeerError

pytestmark = pytest.mark.live

SIZE = 3


@pytest.fixture
def devices() -> Iterator[list[Device]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Device([f"127.0.62.{rank + 1}"], udp_port=UDP_PORT)) for rank in range(SIZE)]


class Joining(threading.Thread):
    """One rank that joins in a thread; `world` or `error` afterwards."""

    def __init__(self, device: Device, rank: int, store: Any, *, size: int = SIZE, **settings: Any) -> None:
        super().__init__()
        self._arguments = (device, rank, size, store)
        self._settings = {"timeout_s": 30, "shared_memory": False} | settings
        self.world: World | None = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.world = World(*self._arguments, **self._settings)
        except BaseException as error:
            self.error = error

    def joined(self) -> World:
        self.join(60)
        assert self.error is None
        assert self.world is not None
        return self.world


def hello(card: dict[str, Any], rank: int, **member: Any) -> dict[str, Any]:
    """Hello of a rank whose ports are rank 0's."""
    own = {"job": "world", "rank": rank, "token": card["token"], "mailbox_address": 0, "mailbox_rkey": 0}
    return {
        "openmrc": VERSION,
        "kind": "hello",
        "transports": ["mrc"],
        "ports": ["127.0.62.1"],
        "ports_up": 1,
        "udp_port": UDP_PORT,
        "partition_key": 0xFFFF,
        "ev_format": "UDP",
        "mpr_units": 32,
        "max_wimm_dest": 1024,
        "capabilities": [],
        "receive_buffer_bytes": 1 << 20,
        "region": None,
        "payload_mtu": None,
        "rate_bps": 10**9,
        "lanes": 2,
        "member": own | member,
    }


def refusal(card: dict[str, Any], line: dict[str, Any]) -> str:
    host, _, port = card["address"].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as stranger, stranger.makefile("rb") as lines:
        stranger.sendall(json.dumps(line).encode() + b"\n")
        return str(json.loads(lines.readline())["error"])


def test_foreign_clients_of_a_join_are_refused_and_the_job_begins_all_the_same(
    devices: list[Device], tmp_path: Path
) -> None:
    store = FileStore(tmp_path, 30)
    last = Joining(devices[1], 1, store, size=2)
    card = json.loads(store.get("openmrc/world/card/1"))
    store.set("openmrc/world/card/0", json.dumps(card))  # makes rank 1 wait for a rank 0 that connects
    good = hello(card, 0)
    assert "did not present this rank's token" in refusal(card, good | {"member": None})
    assert "did not present this rank's token" in refusal(card, hello(card, 0, token="guessed"))
    assert "did not present this rank's token" in refusal(card, hello(card, 0, job="another"))
    assert "rank 1 does not connect to rank 1" in refusal(card, hello(card, 1))
    assert "rank 7 does not connect to rank 1" in refusal(card, hello(card, 7))
    assert "member.rank" in refusal(card, hello(card, -1))
    assert "lanes" in refusal(card, good | {"lanes": 10**9})
    assert "not an openmrc peer" in refusal(card, good | {"nested": json.loads("[" * 900 + "]" * 900)})
    host, _, port = card["address"].rpartition(":")
    with socket.create_connection((host, int(port))):  # says nothing
        worlds = [one.joined() for one in (Joining(devices[0], 0, store, size=2), last)]
    works = [world.group.barrier() for world in worlds]
    for work in works:
        work.wait(30)
    for world in worlds:
        world.close()


def test_a_rank_that_joins_twice_is_refused(devices: list[Device], tmp_path: Path) -> None:
    """The second one has the token, but the first one keeps its slot; when that leaves, it is named."""
    store = FileStore(tmp_path, 30)
    last = Joining(devices[2], 2, store)
    card = json.loads(store.get("openmrc/world/card/2"))
    for rank in (0, 1):
        store.set(f"openmrc/world/card/{rank}", json.dumps(card))
    host, _, port = card["address"].rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as one, one.makefile("rb") as lines:
        one.sendall(json.dumps(hello(card, 1)).encode() + b"\n")
        assert json.loads(lines.readline())["kind"] == "offer"
        assert "rank 1 has connected already" in refusal(card, hello(card, 1))
    last.join(60)
    assert isinstance(last.error, PeerError)
    assert "rank 1 at" in str(last.error)
    assert "closed the connection while connecting" in str(last.error)


def test_a_rank_that_cannot_agree_is_named_by_all_long_before_the_timeout(
    devices: list[Device], tmp_path: Path
) -> None:
    store = FileStore(tmp_path, 600)
    with Device(["127.0.62.9"], udp_port=UDP_PORT, partition_key=7) as other:
        ranks = [
            Joining(device, rank, store, timeout_s=600) for rank, device in enumerate((devices[0], other, devices[2]))
        ]
        for rank in ranks:
            rank.join(60)
            assert isinstance(rank.error, PeerError)
            assert "partition key differs" in str(rank.error)
            assert "rank 1" in str(rank.error) or rank is ranks[1]


def test_ranks_with_different_numbers_of_ports_all_fail_at_once_with_the_same_words(
    devices: list[Device], tmp_path: Path
) -> None:
    store = FileStore(tmp_path, 600)
    with Device(["127.0.62.9", "127.0.63.9"], udp_port=UDP_PORT) as other:
        three = (devices[0], other, devices[2])
        ranks = [Joining(device, rank, store, timeout_s=600) for rank, device in enumerate(three)]
        for rank in ranks:
            rank.join(60)
            assert isinstance(rank.error, HandshakeError)
            assert str(rank.error).startswith(
                "ranks have different numbers of ports: rank 1 has 2 (127.0.62.9, 127.0.63.9); "
                "ranks 0, 2 have 1 (127.0.62.1 at rank 0). "
            )
            assert "OPENMRC_PORTS" in str(rank.error)


def test_a_rank_that_cannot_begin_is_named_with_its_reason(devices: list[Device], tmp_path: Path) -> None:
    store = FileStore(tmp_path, 600)
    ranks = [Joining(devices[rank], rank, store, timeout_s=600) for rank in (0, 2)]
    with pytest.raises(DeviceError, match=r"cannot listen on 192\.0\.2\.77"):
        World(devices[1], 1, SIZE, store, timeout_s=600, address="192.0.2.77")
    for rank in ranks:
        rank.join(60)
        assert isinstance(rank.error, PeerError)
        assert "rank 1 of 'world' gave up while connecting: [Errno 99] cannot listen on 192.0.2.77" in str(rank.error)


def test_ranks_that_come_to_the_store_and_never_connect_are_named(devices: list[Device], tmp_path: Path) -> None:
    store = FileStore(tmp_path, 30)
    card = {"address": "127.0.0.1:1", "token": "t", "ports": ["127.0.62.1"], "host": None}
    for rank in (0, 1):
        store.set(f"openmrc/world/card/{rank}", json.dumps(card))
    with pytest.raises(TimeoutError, match="ranks 0, 1 of 'world' did not connect within"):
        World(devices[2], 2, SIZE, store, timeout_s=0.3)


def test_a_rank_that_nobody_serves_or_that_is_silent_is_named(devices: list[Device], tmp_path: Path) -> None:
    card = {"address": "127.0.0.1:1", "token": "t", "ports": ["127.0.62.1"], "host": None}
    store = FileStore(tmp_path / "nobody", 30)
    store.set("openmrc/world/card/1", json.dumps(card))
    with pytest.raises(PeerError, match=r"rank 1 of 'world' cannot be reached: .*127\.0\.0\.1:1 .*refused"):
        World(devices[0], 0, 2, store, timeout_s=20)
    store = FileStore(tmp_path / "silent", 30)
    with socket.create_server(("127.0.0.1", 0)) as server:
        store.set("openmrc/world/card/1", json.dumps(card | {"address": f"127.0.0.1:{server.getsockname()[1]}"}))
        with pytest.raises((HandshakeError, TimeoutError), match="rank 1"):
            World(devices[0], 0, 2, store, timeout_s=0.3)


@pytest.mark.parametrize("text", ["[" * 20000, "{}", '{"address": Infinity}', "null", "\x00"])
def test_a_malformed_card_is_named_by_its_rank(devices: list[Device], tmp_path: Path, text: str) -> None:
    store = FileStore(tmp_path, 30)
    store.set("openmrc/world/card/1", text)
    with pytest.raises(PeerError, match="rank 1 of 'world' published text that is malformed"):
        World(devices[0], 0, 2, store, timeout_s=20)


class Counting:
    """A store that counts requests."""

    def __init__(self, store: TcpStore) -> None:
        self._store = store
        self.requests: list[str] = []

    def set(self, key: str, value: str) -> None:
        self.requests.append("set")
        self._store.set(key, value)

    def get(self, key: str) -> str:
        self.requests.append("get")
        return self._store.get(key)

    def multi_get(self, keys: list[str]) -> list[str]:
        self.requests.append("multi_get")
        return self._store.multi_get(keys)

    def wait(self, keys: list[str], timeout: timedelta) -> None:
        self.requests.append("wait")
        self._store.wait(keys, timeout)

    def check(self, keys: list[str]) -> bool:
        self.requests.append("check")
        return self._store.check(keys)


def test_a_join_takes_three_requests_and_one_connection_for_each_pair(devices: list[Device]) -> None:
    server = TcpStore("127.0.0.1:0", serve=True)
    stores = [Counting(TcpStore(server.address)) for _ in range(SIZE)]
    ranks = [Joining(devices[rank], rank, stores[rank]) for rank in range(SIZE)]
    worlds = [rank.joined() for rank in ranks]
    for store in stores:
        waits = store.requests.count("wait")
        assert store.requests.count("set") == store.requests.count("multi_get") == 1
        assert store.requests.count("get") == 0
        assert store.requests.count("check") < waits  # one for each second of the wait
    for world in worlds:
        found = world.statistics()
        assert (found["connections"], found["descriptors"]) == (SIZE - 1, SIZE - 1)
        assert 0 < found["reserved_bytes"] < SIZE * (2 << 20)
    for world in worlds:
        world.close()
    for store in stores:
        store._store.close()
    server.close()


def test_sharing_memory_takes_two_more_rounds(devices: list[Device]) -> None:
    server = TcpStore("127.0.0.1:0", serve=True)
    stores = [Counting(TcpStore(server.address)) for _ in range(SIZE)]
    ranks = [Joining(devices[rank], rank, stores[rank], shared_memory=True) for rank in range(SIZE)]
    worlds = [rank.joined() for rank in ranks]
    for store in stores:
        assert store.requests.count("set") == store.requests.count("multi_get") == 3
    for world in worlds:
        assert len(world.neighbours) == SIZE - 1
        world.close()
    for store in stores:
        store._store.close()
    server.close()
