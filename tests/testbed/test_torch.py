"""Process groups of torch in EV format SRV6: `OPENMRC_PATHS` names the host's path file, and the kernel forwards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from openmrc.fabric.cabling import Node
from openmrc.srv6.path_file import render_nic_paths
from openmrc.testbed import TestBed
from openmrc.testbed.counters import link_counters

pytestmark = pytest.mark.root

HOSTS = (0, 2)  # behind different T0s
COUNT = 500_009
RANK = f"""
import torch, torch.distributed as dist
dist.init_process_group("mrc")
rank = dist.get_rank()
own = torch.arange({COUNT}, dtype=torch.float64) * (rank + 1)
dist.all_reduce(own)
assert torch.equal(own, torch.arange({COUNT}, dtype=torch.float64) * 3)
dist.destroy_process_group()
"""


def start(bed: TestBed, rank: int, folder: Path) -> subprocess.Popen[str]:
    """A rank in its host's namespace, connected through the management network."""
    layout, node = bed.layout, Node("host", HOSTS[rank])
    paths = folder / f"rank{rank}.json"
    paths.write_text(render_nic_paths(layout.nic_paths(node)), encoding="utf-8")
    first, own = (str(layout.management_address(Node("host", host)).ip) for host in (HOSTS[0], node.index))
    environment = os.environ | {
        "OPENMRC_PATHS": str(paths),
        "OPENMRC_ADDRESS": own,
        "MASTER_ADDR": first,
        "MASTER_PORT": "29500",
        "RANK": str(rank),
        "WORLD_SIZE": str(len(HOSTS)),
    }
    command = [*bed.prefix(node), sys.executable, "-c", RANK]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_an_all_reduce_takes_the_srv6_paths_over_every_plane(bed: TestBed, tmp_path: Path):
    pytest.importorskip("torch")
    before = {(link.node, link.peer): link.packets for link in link_counters(bed)}
    ranks = [start(bed, rank, tmp_path) for rank in range(len(HOSTS))]
    try:
        said = [rank.communicate(timeout=90)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert "2 ports, from OPENMRC_PATHS" in said[0]
    sent = Counter({(link.node, link.peer): link.packets for link in link_counters(bed)})
    sent.subtract(before)
    shares = [sent[f"p{plane}-t0-0", f"p{plane}-t1-{t1}"] for plane in range(2) for t1 in range(2)]
    assert min(shares) > 0.1 * sum(shares), shares
