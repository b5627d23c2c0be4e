"""The network by which ranks were connected fails, for longer than any timeout of TCP, and comes back."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from own_ports import UDP_PORT

from openmrc.runs.processes.veth_pairs import namespaces_allowed

pytestmark = [pytest.mark.live, pytest.mark.root, pytest.mark.slow]

AWAY_S = 12.0  # longer than TCP's former limit of 11
RANK = f"""
import sys
import numpy as np
import openmrc
from openmrc.collectives import CollectiveError, TcpStore, World

print("up", flush=True)
sys.stdin.readline()
rank = int(sys.argv[1])
store = TcpStore("10.9.0.1:29500", serve=rank == 0, timeout_s=20)
device = openmrc.Device([f"10.9.{{plane + 1}}.{{rank + 1}}" for plane in range(2)], udp_port={UDP_PORT})
world = World(device, rank, 2, store, address=f"10.9.0.{{rank + 1}}")
buffer = np.ones(1000, np.float32)
for command in sys.stdin:
    try:
        world.group.all_reduce(buffer).wait(30)
        print("done", world.missing, flush=True)
    except CollectiveError as error:
        print(error, flush=True)
"""


def ip(*words: str, of: subprocess.Popen[str] | None = None) -> None:
    inside = [] if of is None else ["nsenter", "--target", str(of.pid), "--net"]
    subprocess.run([*inside, "ip", *words], check=True, capture_output=True)


@pytest.fixture
def ranks() -> Iterator[list[subprocess.Popen[str]]]:
    """Two ranks in namespaces of their own, with a management network and two planes between them."""
    if not namespaces_allowed() or shutil.which("ip") is None or shutil.which("nsenter") is None:
        pytest.skip("network namespaces need root, ip and nsenter")
    processes = [
        subprocess.Popen(
            ["unshare", "--net", sys.executable, "-c", RANK, str(rank)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        for process in processes:
            assert answer(process) == "up"
            ip("link", "set", "lo", "up", of=process)
        for network in range(3):
            here, there = f"omrc{network}a", f"omrc{network}b"
            ip("link", "add", here, "type", "veth", "peer", "name", there)
            for process, name in zip(processes, (here, there), strict=True):
                ip("link", "set", name, "netns", str(process.pid), "name", f"net{network}")
                ip(
                    "addr",
                    "add",
                    f"10.9.{network}.{processes.index(process) + 1}/24",
                    "dev",
                    f"net{network}",
                    of=process,
                )
                ip("link", "set", f"net{network}", "up", of=process)
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_a_job_does_without_the_management_network(ranks: list[subprocess.Popen[str]]):
    def reduce() -> list[str]:
        for one in ranks:
            tell(one)
        return [answer(one) for one in ranks]

    both_done = ["done {}", "done {}"]
    for one in ranks:
        tell(one)
    assert reduce() == both_done
    ip("link", "set", "net0", "down", of=ranks[0])
    away_until = time.monotonic() + AWAY_S
    while time.monotonic() < away_until:
        time.sleep(1)
        assert reduce() == both_done
    ip("link", "set", "net0", "up", of=ranks[0])
    assert reduce() == both_done
    ranks[1].kill()
    tell(ranks[0])
    assert "rank 1 is gone: it ended without a goodbye" in answer(ranks[0])
