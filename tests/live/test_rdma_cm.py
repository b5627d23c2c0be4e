"""Unmodified programs that use the connection manager, over openmrc's librdmacm: both ends on loopback."""

from __future__ import annotations

import re
import socket
import subprocess
from pathlib import Path

import pytest
from rdma_programs import LIMIT_S, compiled, listens, needs, next_tcp_port, run_both, run_case, run_pair, wrapped
from waiting import until

pytestmark = needs(
    "rping",
    "ucmatose",
    "rdma_client",
    "rdma_server",
    "rdma_xclient",
    "rdma_xserver",
    "udaddy",
    "ib_write_bw",
    "ib_send_bw",
    "ib_send_lat",
)


def rping(side: str, port: int, options: str = "", address: str = "127.0.0.1") -> list[str]:
    return ["rping", side, "-a", address, "-p", str(port), "-V", *options.split()]


@pytest.mark.parametrize(
    ("options", "address", "qp"),
    [
        pytest.param("-v -C 5", "127.0.0.1", "pair", id="contents"),
        pytest.param("-C 3 -S 32", "127.0.0.1", "pair", id="small"),
        pytest.param("-C 3 -S 65535", "127.0.0.1", "pair", id="large"),
        pytest.param("-C 3", "127.0.0.1", "rc", id="rc"),
        pytest.param("-C 3", "::1", "pair", id="ipv6"),
        pytest.param("-q -C 3", "127.0.0.1", "pair", id="own_qp"),
    ],
)
def test_rping_verifies_contents(options: str, address: str, qp: str):
    port = next_tcp_port()
    ended = run_both(rping("-s", port, options, address), rping("-c", port, options, address), port, qp=qp)
    assert ended.passed, ended.output
    if "-v" in options:
        assert len(re.findall("^ping data: rdma-ping-", ended.output, re.MULTILINE)) == 5, ended.output


@pytest.mark.parametrize("options", ["-C 10 -S 100", "-c 4 -C 20 -S 4096 -m"])
def test_ucmatose(options: str):
    port = next_tcp_port()
    server = ["ucmatose", "-p", str(port), *options.split()]
    ended = run_both(server, [*server, "-s", "127.0.0.1"], port)
    assert ended.passed, ended.output


def test_synchronous_identifiers():
    port = next_tcp_port()
    ended = run_both(["rdma_server", "-p", str(port)], ["rdma_client", "-s", "127.0.0.1", "-p", str(port)], port)
    assert ended.passed, ended.output


def test_inline_data_that_the_qp_did_not_ask_for():
    port = next_tcp_port()
    client = ["rdma_xclient", "-s", "127.0.0.1", "-p", str(port)]
    ended = run_both(["rdma_xserver", "-p", str(port)], client, port)
    assert ended.passed, ended.output


@pytest.mark.parametrize(
    ("words", "ports"),
    [
        pytest.param("ib_write_bw -n 200", "127.0.0.1", id="write"),
        pytest.param("ib_write_bw -n 200 -q 2", "127.0.0.1,127.0.0.2", id="write_two_planes"),
        pytest.param("ib_send_bw -n 200", "127.0.0.1", id="send"),
        pytest.param("ib_send_lat -n 50", "127.0.0.1", id="send_latency"),
    ],
)
def test_perftest_connects_by_the_manager(words: str, ports: str):
    ended = run_pair([*words.split(), "-R", "-F"], ports=ports)
    assert ended.passed, ended.output


def test_datagrams_are_refused():
    done = subprocess.run(wrapped(["udaddy"]), capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode != 0
    assert "Protocol not supported" in done.stdout + done.stderr


def test_commands_of_the_guide_work_as_printed(repository: Path):
    text = (repository / "docs" / "guides" / "rdma-programs.md").read_text()
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if "rping" in block]
    server, client = [line.split(" -- ")[1].removesuffix("&").split() for line in block.splitlines()]
    port = next_tcp_port()
    ended = run_both([*server, "-p", str(port)], [*client, "-p", str(port)], port)
    assert ended.passed, ended.output


def test_an_end_of_another_kind_learns_the_reason():
    port = next_tcp_port()
    command = wrapped(rping("-s", port, "-P"), qp="rc")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            until(lambda: listens(server.pid, port) or server.poll() is not None)
            client = wrapped(rping("-c", port, "-C 1"), qp="pair")
            done = subprocess.run(client, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        finally:
            server.kill()
    assert done.returncode != 0
    assert "start both ends with the same --qp" in done.stderr
    assert "RDMA_CM_EVENT_REJECTED, error 9" in done.stdout + done.stderr


def header(kind: int, length: int, version: int = 1) -> bytes:
    return b"MRCM" + bytes([version, kind]) + length.to_bytes(2, "big")


def answer_to(port: int, sent: bytes) -> bytes:
    """All that the server sends after these bytes, until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as peer:
        peer.sendall(sent)
        peer.shutdown(socket.SHUT_WR)
        received = b""
        try:
            while part := peer.recv(4096):
                received += part
        except ConnectionResetError:
            pass
    return received


def test_malformed_requests_and_silent_peers_do_not_disturb_others():
    port = next_tcp_port()
    command = wrapped(rping("-s", port, "-P"))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        silent = []
        try:
            until(lambda: listens(server.pid, port) or server.poll() is not None)
            silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(600)]
            assert answer_to(port, b"GET / HTTP/1.1\r\n\r\n") == b""
            assert answer_to(port, header(1, 0, version=2)) == header(4, 4) + bytes([0, 31, 0, 0])
            for wrong in (header(1, 65535), header(1, 36) + bytes(36), header(9, 0), header(2, 0), header(3, 0)):
                assert answer_to(port, wrong) == header(4, 4) + bytes([0, 5, 0, 0])
            assert answer_to(port, header(1, 36)) == b""  # incomplete
            client = wrapped(rping("-c", port, "-C 2"))
            done = subprocess.run(client, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            assert server.poll() is None
        finally:
            for one in silent:
                one.close()
            server.kill()


@pytest.fixture(scope="module")
def semantics(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    program = tmp_path_factory.mktemp("c") / "rdma_cm_semantics"
    return compiled(Path(__file__).with_name("rdma_cm_semantics.c"), program, "rdmacm")


@pytest.mark.parametrize(
    "case",
    [
        "accept",
        "reject",
        "closed",
        "unreachable",
        "migrate",
        "listeners",
        "destroyed",
        "ipv6",
        "polled",
        "abandoned",
        "died",
        "without_qp",
        "options",
    ],
)
def test_semantics(semantics: list[str], case: str):
    run_case(semantics, case, "127.0.0.1", "127.0.0.2")
