"""RDMA programs and the plugin for NCCL with path files: the kernel forwards, and TCP takes the management network."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from nccl_ranks import Ranks, ended, passed
from rdma_programs import needs, next_tcp_port, run_both

from openmrc.fabric.cabling import Node
from openmrc.srv6.path_file import render_nic_paths
from openmrc.testbed import TestBed
from openmrc.testbed.counters import link_counters
from openmrc.variables import ADDRESS, PATHS, PORTS

pytestmark = [pytest.mark.root, *needs("ib_write_bw", "ib_send_bw", "rping")]

HOSTS = (0, 2)  # behind different T0s


@pytest.fixture
def ends(bed: TestBed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], None]]:
    """Prefixes of commands in the namespaces of both hosts, with the path file of each."""
    for name in (PORTS, PATHS):
        monkeypatch.delenv(name, raising=False)
    found = []
    for host in HOSTS:
        node = Node("host", host)
        file = tmp_path / f"host{host}.json"
        file.write_text(render_nic_paths(bed.layout.nic_paths(node)), encoding="utf-8")
        found.append(([*bed.prefix(node), "env", f"{PATHS}={file}"], None))
    return found


def management(bed: TestBed, host: int) -> str:
    return str(bed.layout.management_address(Node("host", host)).ip)


def packets(bed: TestBed) -> Counter[tuple[str, str]]:
    """Packets that each node has sent to each neighbour."""
    return Counter({(link.node, link.peer): link.packets for link in link_counters(bed)})


def shares_of_paths(bed: TestBed, before: Counter[tuple[str, str]]) -> list[int]:
    """Packets that host 2, which is behind T0 1, has sent over each path since then."""
    sent = packets(bed)
    sent.subtract(before)
    return [sent[f"p{plane}-t0-1", f"p{plane}-t1-{t1}"] for plane in range(2) for t1 in range(2)]


@pytest.mark.parametrize("program", ["ib_write_bw", "ib_send_bw"])
def test_programs_take_the_srv6_paths(bed: TestBed, ends: list[tuple[list[str], None]], program: str):
    before = packets(bed)
    tcp_port = next_tcp_port()
    words = [program, "-d", "mrc0", "-F", "-n", "50", "-m", "1024", "-p", str(tcp_port)]
    ended = run_both(words, [*words, management(bed, HOSTS[0])], tcp_port, ends=ends)
    assert ended.passed, ended.output
    shares = shares_of_paths(bed, before)  # RC uses one path
    assert (min(shares) > 0.1 * sum(shares)) == (program == "ib_write_bw"), shares


def test_the_connection_manager_takes_the_management_network(bed: TestBed, ends: list[tuple[list[str], None]]):
    tcp_port = next_tcp_port()
    words = ["rping", "-a", management(bed, HOSTS[0]), "-p", str(tcp_port), "-C", "5"]
    ended = run_both([*words, "-s"], [*words, "-c"], tcp_port, ends=ends)
    assert ended.client == 0, ended.output


@pytest.mark.parametrize("case", ["sizes", "groups"])
def test_nccl_s_plugin_takes_the_srv6_paths(
    bed: TestBed, ends: list[tuple[list[str], None]], case: str, nccl_harness: Path, tmp_path: Path
):
    """The ranks check contents and order. Connections are set up over the management network."""
    ranks = Ranks(nccl_harness, tmp_path)
    before = packets(bed)
    started = []
    for rank, (prefix, _) in enumerate(ends):
        address = f"{ADDRESS}={management(bed, HOSTS[rank])}"
        started.append(ranks.start_with([*prefix, address], case, rank))
    results = ended(started)
    assert passed(results), results
    shares = shares_of_paths(bed, before)
    assert min(shares) > 0.1 * sum(shares), shares
