"""Bad clients of the servers that speak JSON lines: `perf serve`, a TCP store, the control channel of a fabric."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from own_ports import UDP_PORT

from openmrc import Device
from openmrc.collectives import TcpStore, stores
from openmrc.emulate import ControlClient, EmulatedFabric
from openmrc.emulate.control import LINE_BYTES_MAX
from openmrc.errors import ConfigError, PeerError
from openmrc.fabric import make_fabric
from openmrc.runs.perf.client_server import PerfClient, PerfServer
from openmrc.runs.perf.messages import PerfOptions

pytestmark = pytest.mark.live

NOT_OBJECTS = [
    b"\n",
    b"null\n",
    b"[1]\n",
    b"\xff\xfe\n",
    b"GET / HTTP/1.1\n",
    b"[" * 60000 + b"\n",
    b'{"a":' * 12000 + b"\n",
]


def answers(port: int, *lines: bytes, timeout_s: float = 20) -> bytes:
    """All that a client gets that sends these lines, until the server hangs up or it has one answer for each."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as client:
        found = b""
        with contextlib.suppress(ConnectionError):
            for line in lines:
                client.sendall(line)
            while found.count(b"\n") < len(lines) and (data := client.recv(65536)):
                found += data
        return found


# --- perf serve


@pytest.fixture
def perf() -> Iterator[tuple[PerfServer, list[str]]]:
    said: list[str] = []
    with Device(["127.0.63.1"], udp_port=UDP_PORT) as device:
        server = PerfServer(device, "127.0.0.1", 0, said.append)
        thread = threading.Thread(target=server.serve)
        thread.start()
        yield server, said
        server.close()
        thread.join(20)


def plan(**members: object) -> bytes:
    return json.dumps({"options": {}, "region_bytes": 1 << 20} | members).encode() + b"\n"


HELLO = b'{"perf": 1}\n'
BAD_PLANS = [
    plan(region_bytes=10**30),
    plan(region_bytes=0),
    plan(region_bytes="1"),
    plan(options={"qps": 10**9}),
    plan(options={"qps": 1.5}),
    plan(options={"depth": 0}),
    plan(options={"duration_s": float("inf")}),
    plan(options={"duration_s": -1.0}),
    plan(options={"transport": "tcp"}),
    plan(options=[]),
    b"{}\n",
]


def test_bad_clients_of_perf_serve_do_not_affect_others(perf: tuple[PerfServer, list[str]]) -> None:
    server, said = perf
    for line in [*NOT_OBJECTS, b"{}\n", b'{"perf": 7}\n', b'{"perf": 1e400}\n', b"x" * 100_000]:
        assert b"error" in answers(server.port, line), line[:40]
    for line in BAD_PLANS:
        assert b"error" in answers(server.port, HELLO, line), line
    with contextlib.ExitStack() as silent:
        for _ in range(3):
            silent.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        options = PerfOptions(iterations=10)
        with PerfClient(
            "127.0.0.1", server.port, local_ports=["127.0.63.2"], options=options, size_max=4096, udp_port=UDP_PORT
        ) as client:
            assert client.latency(64).t_min_us > 0
    assert any("region_bytes" in one for one in said)
    assert any("--qps" in one or "qps" in one for one in said)


# --- the TCP store

BAD_REQUESTS = [
    *NOT_OBJECTS,
    b"{}\n",
    b'{"do": "drop"}\n',
    b'{"do": "set", "key": "k"}\n',
    b'{"do": "set", "key": 5, "value": "v"}\n',
    b'{"do": "set", "key": "", "value": "v"}\n',
    b'{"do": "set", "key": "k", "value": {"a": 1}}\n',
    json.dumps({"do": "set", "key": "k" * 2000, "value": "v"}).encode() + b"\n",
    b'{"do": "wait", "keys": ["k"], "timeout_s": Infinity}\n',
    b'{"do": "wait", "keys": ["k"], "timeout_s": 1e30}\n',
    b'{"do": "wait", "keys": ["k"], "timeout_s": -1}\n',
    b'{"do": "get", "keys": "k"}\n',
    json.dumps({"do": "get", "keys": ["k"] * 2000}).encode() + b"\n",
    b"x" * 5000,
]


@pytest.fixture
def store() -> Iterator[TcpStore]:
    made = TcpStore("127.0.0.1:0", serve=True, timeout_s=20)
    yield made
    made.close()


def test_bad_requests_to_a_store_are_refused_and_the_others_are_served(store: TcpStore) -> None:
    port = int(store.address.rpartition(":")[2])
    store.set("key", "value")
    for line in BAD_REQUESTS:
        assert b"error" in answers(port, line), line[:60]
    with socket.create_connection(("127.0.0.1", port)):
        other = TcpStore(store.address)
        assert other.multi_get(["key"]) == ["value"]
        other.close()


def test_a_store_holds_a_bounded_number_of_keys_bytes_and_clients(
    store: TcpStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "KEYS_MAX", 3)
    monkeypatch.setattr(stores, "HELD_CHARACTERS_MAX", 100)
    for key in ("a", "b"):
        store.set(key, "x" * 40)
    other = TcpStore(store.address)
    with pytest.raises(PeerError, match="the store is full: at most 3 keys and 100 characters"):
        other.set("c", "x" * 40)
    other.close()
    store.set("a", "")
    store.set("c", "")
    monkeypatch.setattr(stores, "CLIENTS_MAX", 1)
    with pytest.raises(PeerError, match="is lost"):
        TcpStore(store.address)
    monkeypatch.undo()
    with pytest.raises(ConfigError, match="at most 131072 characters"):
        store.set("d", "x" * (1 << 18))
    with pytest.raises(TimeoutError, match="no rank set 'never'"):
        store.wait(["a", "never"], timedelta(seconds=0.01))


def test_something_else_than_a_store_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as client:
                client.recv(65536)
                client.sendall(b"[" * 5000 + b"\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(PeerError, match="it is not an openmrc store"):
            TcpStore(f"127.0.0.1:{server.getsockname()[1]}", timeout_s=5)
        thread.join()


# --- the control channel


def test_bad_requests_to_a_fabric_are_answered_and_the_others_are_served() -> None:
    fabric = make_fabric(planes=1, hosts=2, rate="100Mbit", t1s=1)
    emulated = EmulatedFabric(fabric, control="127.0.0.1:0").start()
    try:
        port = int(str(emulated.control_address).rpartition(":")[2])
        for line in NOT_OBJECTS:
            assert b'"ok": false' in answers(port, line), line[:40]
        assert b'"ok": false' in answers(port, b"x" * (LINE_BYTES_MAX + 10))
        with ControlClient(str(emulated.control_address)) as client:
            assert client.describe()["hosts"] == 2
    finally:
        emulated.stop()


def test_something_else_than_a_fabric_is_named() -> None:
    for reply in (b"[" * 5000 + b"\n", b"hello\n"):
        with socket.create_server(("127.0.0.1", 0)) as server:

            def answer(server: socket.socket = server, reply: bytes = reply) -> None:
                with server.accept()[0] as client:
                    client.recv(65536)
                    client.sendall(reply)

            thread = threading.Thread(target=answer)
            thread.start()
            with (
                ControlClient(f"127.0.0.1:{server.getsockname()[1]}") as client,
                pytest.raises(PeerError, match="is not a fabric"),
            ):
                client.describe()
            thread.join()
