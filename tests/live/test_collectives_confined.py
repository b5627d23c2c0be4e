"""Ranks on one host share memory by default; confined ones and those in other namespaces use QPs."""

from __future__ import annotations

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from own_ports import UDP_PORT

from openmrc.runs.processes.veth_pairs import VethPair, namespaces_allowed

pytestmark = pytest.mark.live
needs_root = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
PROGRAM = Path(__file__).with_name("confined_rank.py")
LOOPBACK = ("127.0.58.1", "127.0.58.2")
Words = Sequence[str]


def run(
    confinements: Sequence[Words],
    *,
    prefixes: Sequence[Words] = ((), ()),
    ports: Words = LOOPBACK,
    addresses: Words = ("127.0.0.1", "127.0.0.1"),
) -> list[dict[str, Any]]:
    """Reports of two ranks with this command prefix and these confinements; each has summed the values of both."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        store = f"{addresses[0]}:{probe.getsockname()[1]}"
    ranks = [
        subprocess.Popen(
            [*prefix, sys.executable, str(PROGRAM), str(rank), store, port, str(UDP_PORT), address, *how],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, (prefix, port, address, how) in enumerate(zip(prefixes, ports, addresses, confinements, strict=True))
    ]
    try:
        said = [rank.communicate(timeout=60) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
    assert [rank.returncode for rank in ranks] == [0, 0], [errors for _, errors in said]
    found = [json.loads(out) for out, _ in said]
    assert all(one["same"] and one["sum"] == 3.0 for one in found)
    return found


def neighbours(found: Sequence[dict[str, Any]]) -> list[list[int]]:
    return [one["neighbours"] for one in found]


def test_ranks_of_one_host_share_memory_by_default():
    assert neighbours(run([[], []])) == [[1], [0]]


@needs_root
def test_ranks_of_any_user_share_memory_with_others_of_that_user():
    assert neighbours(run([["user"], ["user"]])) == [[1], [0]]


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize(
    "confinements",
    [
        pytest.param([[], ["user"]], id="another user"),
        pytest.param([["user"], ["user", "hidden"]], id="one whose files in /proc are refused"),
        pytest.param([["user", "hidden"], ["user", "hidden"]], id="both"),
    ],
)
def test_ranks_that_may_not_open_each_others_files_use_qps(confinements: Sequence[Words]):
    assert neighbours(run(confinements)) == [[], []]


@pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="this machine has other system call numbers"
)
@pytest.mark.parametrize("how", ["sandboxed", "no-proc"])
def test_a_rank_that_cannot_create_memory_or_know_its_host_uses_qps(how: str):
    assert neighbours(run([[], [how]])) == [[], []]


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize("options", [["--mount-proc"], []], ids=["own /proc", "the /proc of the host"])
def test_ranks_in_containers_with_their_own_processes_use_qps(options: Words):
    container = ["unshare", "--pid", "--fork", *options]
    assert neighbours(run([[], []], prefixes=[[], container])) == [[], []]
    assert neighbours(run([[], []], prefixes=[container, container])) == [[], []]


@pytest.mark.root
def test_network_namespaces_are_hosts():
    if not namespaces_allowed():
        pytest.skip("network namespaces need root")
    with VethPair(mtu=1500) as pair:
        prefixes = [pair.prefix(0), pair.prefix(1)]
        found = run([[], []], prefixes=prefixes, ports=pair.addresses, addresses=pair.addresses)
    assert neighbours(found) == [[], []]
    assert [one["sites"] for one in found] == [[], []]
