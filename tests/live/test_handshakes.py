"""Bad clients of a listener, over real sockets: each is refused by name, without effects on others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from own_ports import UDP_PORT

import openmrc
from openmrc import Device, QpSettings
from openmrc.connection import Connection, Listener
from openmrc.connection.acceptor import PENDING_MAX, Door
from openmrc.connection.channel import listening_socket
from openmrc.connection.handshake_messages import LINE_BYTES_MAX, VERSION
from openmrc.errors import DeviceError, HandshakeError, InvalidStateError

pytestmark = pytest.mark.live

HELLO: dict[str, Any] = {
    "openmrc": VERSION,
    "kind": "hello",
    "transports": ["mrc", "rc"],
    "ports": ["127.0.0.91", "127.0.0.92"],
    "ports_up": 3,
    "udp_port": UDP_PORT,
    "partition_key": 0xFFFF,
    "ev_format": "UDP",
    "mpr_units": 32,
    "max_wimm_dest": 1024,
    "capabilities": [],
    "receive_buffer_bytes": 1 << 20,
    "region": None,
    "member": None,
    "payload_mtu": None,
    "rate_bps": 1_000_000_000,
    "lanes": 1,
}

# First line of the client, and a word of the reason.
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"\n", "not an openmrc peer"),
    "not JSON": (b"GET / HTTP/1.1\r\n", "not an openmrc peer"),
    "not UTF-8": (b"\xff\xfe" * 50 + b"\n", "not an openmrc peer"),
    "a list": (b"[1]\n", "not an openmrc peer"),
    "nested lists": (b"[" * 8000 + b"\n", "not an openmrc peer"),
    "nested objects": (b'{"a":' * 2500 + b"\n", "not an openmrc peer"),
    "nested in an unknown member": (
        json.dumps(HELLO).encode()[:-1] + b', "x": ' + b"[" * 3000 + b"]" * 3000 + b"}\n",
        "not an openmrc peer",
    ),
    "no members": (b"{}\n", "handshake version None"),
    "no version": (json.dumps({**HELLO, "openmrc": None}).encode() + b"\n", "handshake version None"),
    "version left out": (
        json.dumps({name: value for name, value in HELLO.items() if name != "openmrc"}).encode() + b"\n",
        "handshake version None",
    ),
    "kind left out": (
        json.dumps({name: value for name, value in HELLO.items() if name != "kind"}).encode() + b"\n",
        "sent None",
    ),
    "another version": (json.dumps(HELLO | {"openmrc": 1}).encode() + b"\n", "handshake version 1"),
    "another kind": (json.dumps(HELLO | {"kind": "accept"}).encode() + b"\n", "sent 'accept'"),
    "a huge line": (b"x" * (LINE_BYTES_MAX + 5000), "more than"),
    "a kind that is long": (json.dumps({"openmrc": 2, "kind": "x" * 500}).encode() + b"\n", "not an openmrc peer"),
}
# Members to replace in a good hello.
BAD_MEMBERS: dict[str, dict[str, Any]] = {
    "rate_bps infinite": {"rate_bps": float("inf")},
    "rate_bps not a number": {"rate_bps": float("nan")},
    "rate_bps zero": {"rate_bps": 0},
    "rate_bps negative": {"rate_bps": -1},
    "rate_bps huge": {"rate_bps": 10**30},
    "rate_bps text": {"rate_bps": "1000000"},
    "rate_bps true": {"rate_bps": True},
    "payload_mtu zero": {"payload_mtu": 0},
    "payload_mtu odd": {"payload_mtu": 1001},
    "payload_mtu huge": {"payload_mtu": 10**30},
    "mpr_units zero": {"mpr_units": 0},
    "mpr_units huge": {"mpr_units": 256},
    "max_wimm_dest zero": {"max_wimm_dest": 0},
    "receive_buffer_bytes negative": {"receive_buffer_bytes": -5},
    "receive_buffer_bytes huge": {"receive_buffer_bytes": 10**30},
    "lanes zero": {"lanes": 0},
    "lanes huge": {"lanes": 10**9},
    "udp_port zero": {"udp_port": 0},
    "udp_port huge": {"udp_port": 65536},
    "ports none": {"ports": []},
    "ports too many": {"ports": ["127.0.0.91"] * 17},
    "ports no address": {"ports": ["127.0.0.91", "example.net"]},
    "ports long text": {"ports": ["127.0.0.91", "1" * 5000]},
    "ports multicast": {"ports": ["224.0.0.1", "127.0.0.92"]},
    "ports broadcast": {"ports": ["255.255.255.255", "127.0.0.92"]},
    "ports unspecified": {"ports": ["0.0.0.0", "127.0.0.92"]},
    "ports a number": {"ports": 5},
    "ports_up negative": {"ports_up": -1},
    "ports_up huge": {"ports_up": 10**30},
    "transports unknown": {"transports": ["tcp"]},
    "transports text": {"transports": "mrc"},
    "region without key": {"region": {"address": 1, "length_bytes": 5}},
    "region address huge": {"region": {"address": 1 << 64, "rkey": 1, "length_bytes": 5}},
    "region empty": {"region": {"address": 1, "rkey": 1, "length_bytes": 0}},
    "member text": {"member": "rank 3"},
    "capabilities many": {"capabilities": ["x"] * 1000},
}
# Well-formed, but without common settings.
DISAGREEING: dict[str, tuple[dict[str, Any], str]] = {
    "partition_key": ({"partition_key": 7}, "the partition key differs"),
    "fewer ports": ({"ports": ["127.0.0.91"]}, "the number of ports differs"),
    "EV format": ({"ev_format": "SRV6"}, "the EV format differs"),
    "IP version": ({"ports": ["::1", "::2"]}, "the IP version differs"),
    "no port up": ({"ports_up": 0}, "all ports there are down"),
    "ports up that do not exist": ({"ports_up": 12}, "all ports there are down"),
    "more QPs": ({"lanes": 8}, "the number of QPs differs"),
}


@pytest.fixture
def devices() -> Iterator[tuple[Device, Device]]:
    with (
        Device(["127.0.0.81", "127.0.0.82"], udp_port=UDP_PORT) as a,
        Device(["127.0.0.83", "127.0.0.84"], udp_port=UDP_PORT) as b,
    ):
        yield a, b


def test_the_receive_window_holds_a_long_path_unless_a_fabric_marks(devices: tuple[Device, Device]) -> None:
    assert QpSettings().receive_window_units(devices[0]) == 255
    assert QpSettings(signal="marks").receive_window_units(devices[0]) == 32
    assert QpSettings(signal="marks", mpr_units=64).receive_window_units(devices[0]) == 64
    assert QpSettings(mpr_units=7).receive_window_units(devices[0]) == 7


@contextlib.contextmanager
def accepting(listener: Listener) -> Iterator[list[Connection | BaseException]]:
    """Runs `accept` in a thread, joined at the end; its result is closed then."""
    found: list[Connection | BaseException] = []

    def accept() -> None:
        try:
            found.append(listener.accept(timeout_s=30))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield found
    finally:
        thread.join(30)
        for one in found:
            if isinstance(one, Connection):
                one.close()


def answer_to(listener: Listener, line: bytes) -> dict[str, Any]:
    """Answer to a client that sends one line; empty: the connection was closed without an answer."""
    with socket.create_connection(("127.0.0.1", listener.port), timeout=20) as stranger:
        stranger.sendall(line)
        found = b""
        with contextlib.suppress(ConnectionError):
            while not found.endswith(b"\n") and (data := stranger.recv(65536)):
                found += data
        return dict(json.loads(found)) if found else {}


def still_serves(device: Device, listener: Listener, target: bytearray) -> None:
    """A good client connects and writes."""
    with accepting(listener) as found, openmrc.connect(device, listener.address) as client:
        client.write(bytearray(b"good")).wait(20)
    assert bytes(target[:4]) == b"good"
    assert isinstance(found[0], Connection)


def test_every_bad_first_line_is_refused_by_name_and_the_next_client_is_served(devices: tuple[Device, Device]) -> None:
    target = bytearray(4)
    lines = {
        **BAD,
        **{name: (json.dumps(HELLO | m).encode() + b"\n", name.split()[0]) for name, m in BAD_MEMBERS.items()},
        **{name: (json.dumps(HELLO | m).encode() + b"\n", why) for name, (m, why) in DISAGREEING.items()},
        **{
            f"without {name}": (
                json.dumps({key: value for key, value in HELLO.items() if key != name}).encode() + b"\n",
                name,
            )
            for name in ("transports", "ports", "udp_port", "rate_bps", "receive_buffer_bytes", "max_wimm_dest")
        },
    }
    with openmrc.listen(devices[1], "127.0.0.1:0", region=target) as listener:
        with accepting(listener) as found:
            for name, (line, why) in lines.items():
                before = listener.rejected_count
                answer = answer_to(listener, line)
                assert listener.rejected_count == before + 1, name
                assert why in listener.rejected[-1], name
                assert not answer or why in answer["error"], name
            client = openmrc.connect(devices[0], listener.address)
        assert isinstance(found[0], Connection)
        client.close()
        still_serves(devices[0], listener, target)


def test_silent_and_slow_clients_delay_no_other(devices: tuple[Device, Device]) -> None:
    """More of them than concurrent handshakes: the oldest ones lose their slots."""
    target = bytearray(4)
    with openmrc.listen(devices[1], "127.0.0.1:0", region=target) as listener, contextlib.ExitStack() as strangers:
        for number in range(PENDING_MAX + 10):
            one = strangers.enter_context(socket.create_connection(("127.0.0.1", listener.port), timeout=20))
            if number % 2:
                one.sendall(b'{"openmrc": 2,')
        still_serves(devices[0], listener, target)
        assert listener.rejected_count >= 11
        assert "another client needed its slot" in listener.rejected[0]


def test_a_client_that_leaves_in_the_middle_costs_nothing(devices: tuple[Device, Device]) -> None:
    target = bytearray(4)
    with openmrc.listen(devices[1], "127.0.0.1:0", region=target) as listener:
        with accepting(listener) as found:
            offer = answer_to(listener, json.dumps(HELLO).encode() + b"\n")
            assert offer["kind"] == "offer"
            with openmrc.connect(devices[0], listener.address) as client:
                assert client.transport.name == "MRC"
        assert isinstance(found[0], Connection)
        assert any("closed the connection while connecting" in why for why in listener.rejected)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"base_rtt_ns": 0}, "base_rtt_ns"),
        ({"base_rtt_ns": 10**30}, "base_rtt_ns"),
        ({"rate_bps": 10**13}, "that was not offered"),
        ({"payload_mtu": 8192}, "that was not offered"),
        ({"qps": []}, "qps"),
        ({"qps": [{"qp_num": 1 << 24, "psn": 1}]}, "qps.0.qp_num"),
        ({"qps": [{"qp_num": 5, "psn": 1}] * 2}, "that was not offered"),
    ],
)
def test_a_bad_accept_is_refused(devices: tuple[Device, Device], change: dict[str, Any], why: str) -> None:
    accept = {"openmrc": VERSION, "kind": "accept", "payload_mtu": 1024, "base_rtt_ns": 10**6, "rate_bps": 10**9}
    line = json.dumps(accept | {"qps": [{"qp_num": 5, "psn": 1}]} | change).encode() + b"\n"
    settings = QpSettings(payload_mtu=4096)  # less than loopback supports, so that an accept can exceed the offer
    with openmrc.listen(devices[1], "127.0.0.1:0", settings=settings) as listener, accepting(listener):
        with socket.create_connection(("127.0.0.1", listener.port), timeout=20) as stranger:
            stranger.sendall(json.dumps(HELLO).encode() + b"\n" + line)
            with stranger.makefile("rb") as lines:
                assert json.loads(lines.readline())["kind"] == "offer"
                assert why in json.loads(lines.readline())["error"]
        assert why in listener.rejected[-1]
        with openmrc.connect(devices[0], listener.address):
            pass


@pytest.mark.parametrize(
    "offer",
    [b"[" * 10000 + b"\n", b'{"openmrc": 2, "kind": "offer", "rate_bps": Infinity}\n', b'{"error": 5}\n', b"\n"],
    ids=["nested", "infinite", "error of another type", "empty"],
)
def test_a_bad_listener_is_a_handshake_error(devices: tuple[Device, Device], offer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            with server.accept()[0] as client:
                client.recv(65536)
                client.sendall(offer)
                with contextlib.suppress(OSError):
                    client.recv(65536)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(HandshakeError, match=r"127\.0\.0\.1"):
            openmrc.connect(devices[0], f"127.0.0.1:{server.getsockname()[1]}", timeout_s=20)
        thread.join()


def test_a_process_without_descriptors_names_them(
    devices: tuple[Device, Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    with openmrc.listen(devices[1], "127.0.0.1:0") as listener, contextlib.ExitStack() as stack:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        client = stack.enter_context(socket.socket())
        with pytest.raises(TimeoutError):
            listener.accept(timeout_s=0.01)  # its event loop exists from now on
        client.connect(("127.0.0.1", listener.port))
        used = max(int(one.name) for one in Path("/proc/self/fd").iterdir())
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        with pytest.raises(DeviceError, match=r"Too many open files.*3 allowed.*ulimit -n"):
            listener.accept(timeout_s=20)
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 64, limits[1]))
        with accepting(listener), openmrc.connect(devices[0], listener.address):
            pass


def test_ports_that_are_all_down_are_named_by_the_side_that_has_them(devices: tuple[Device, Device]) -> None:
    a, b = devices
    for port in range(2):
        a.set_port_state(port, up=False)
    with (
        openmrc.listen(b, "127.0.0.1:0") as listener,
        pytest.raises(DeviceError, match=r"127\.0\.0\.81, "),
    ):
        openmrc.connect(a, listener.address)


async def test_a_client_whose_handshake_has_not_begun_is_refused_at_the_end() -> None:
    with contextlib.closing(listening_socket("127.0.0.1:0")) as ours:
        door = Door(ours, lambda _channel, _hello: asyncio.sleep(0), lambda: None)
        with socket.create_connection(ours.getsockname(), timeout=20) as client:
            door.open()
            door._take()  # the loop would begin the handshake in its next round
            await door.end()
            with client.makefile() as lines:
                assert "does not accept connections any more" in json.loads(lines.readline())["error"]
                assert not lines.readline()


def test_accept_ends_when_the_listener_is_closed(devices: tuple[Device, Device]) -> None:
    listener = openmrc.listen(devices[1], "127.0.0.1:0")
    with accepting(listener) as found:
        listener.close()
    assert isinstance(found[0], InvalidStateError)


async def test_blocking_calls_work_inside_a_running_loop(devices: tuple[Device, Device]) -> None:
    with openmrc.listen(devices[1], "127.0.0.1:0") as listener:
        with accepting(listener) as found, openmrc.connect(devices[0], listener.address) as client:
            assert client.transport.name == "MRC"
        assert isinstance(found[0], Connection)
