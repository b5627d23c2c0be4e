"""Faults of programs that use openmrc's librdmacm, of their threads and children, and of their peers."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest
from rdma_programs import compiled, listens, needs, next_tcp_port, run_case, wrapped
from waiting import until

pytestmark = needs("rping")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("c")
    return compiled(Path(__file__).with_name("rdma_cm_faults.c"), folder / "rdma_cm_faults", "rdmacm")


@pytest.mark.parametrize(
    "case",
    [
        "destroyed_with_reply",
        "without_descriptors",
        "channel_with_requests",
        "listen_again",
        "backlog",
        "channel_with_waiters",
        "channel_with_late_waiter",
        "cancelled",
        "forked_at_first",
        "forked_early",
        "forked_connected",
        "forked_while_busy",
    ],
)
def test_fault(program: list[str], case: str):
    run_case(program, case)


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_refused_peers_do_not_take_all_descriptors():
    """Peers that leave their connections open after the refusal."""
    port = next_tcp_port()
    command = wrapped(["rping", "-s", "-a", "127.0.0.1", "-p", str(port), "-P"])
    peers: list[socket.socket] = []
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            until(lambda: listens(server.pid, port) or server.poll() is not None)
            before = open_files(server.pid)
            for _ in range(400):
                peers.append(socket.create_connection(("127.0.0.1", port), timeout=30))
                peers[-1].sendall(b"MRCM\x09\x01\x00\x00")  # a request of another version
                assert peers[-1].recv(64).startswith(b"MRCM\x01\x04")
            assert open_files(server.pid) - before <= 130
            client = wrapped(["rping", "-c", "-a", "127.0.0.1", "-p", str(port), "-C", "2"])
            subprocess.run(client, check=True, stdout=subprocess.DEVNULL, timeout=60)
        finally:
            for peer in peers:
                peer.close()
            server.kill()
