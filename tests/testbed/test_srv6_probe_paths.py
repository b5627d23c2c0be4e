"""Probes of a NIC's links return through the Linux kernel's switches, over the planned links."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from openmrc.fabric import make_fabric
from openmrc.fabric.cabling import Node
from openmrc.srv6 import probe_paths
from openmrc.testbed import TestBed
from openmrc.testbed.counters import link_counters

pytestmark = pytest.mark.root

NIC, PLANE, PACKETS = 1, 1, 20

# Sends from its own address and counts arrivals at the last address of the list.
PROGRAM = """
import json, socket, sys
source, receive, destination, packets = json.loads(sys.argv[1])
arrived = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
arrived.setsockopt(socket.IPPROTO_UDP, 102, 1)  # UDP_NO_CHECK6_RX
arrived.bind((receive, 4791))
arrived.settimeout(1)
out = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
out.setsockopt(socket.IPPROTO_UDP, 101, 1)  # UDP_NO_CHECK6_TX
out.bind((source, 0))
count = 0
try:
    for number in range(packets):
        out.sendto(b"probe", (destination, 4791))
        _, sender = arrived.recvfrom(64)
        count += sender[0] == source
except TimeoutError:
    pass
print(count)
"""


@pytest.fixture(scope="module")
def bed(needs_namespaces: None) -> Iterator[TestBed]:
    fabric = make_fabric(name="probes", planes=2, hosts=4, hosts_per_t0=2, t1s=2, rate="100Mbit", trim="off")
    with TestBed.up(fabric, f"c-probes-{os.getpid()}", data_plane=False) as made:
        yield made


def packets_of(bed: TestBed) -> dict[tuple[str, str, int], int]:
    return {(one.node, one.peer, one.plane): one.packets for one in link_counters(bed)}


@pytest.mark.parametrize("number", range(3))
def test_a_probe_comes_back_over_its_links_and_no_others(bed, number):
    plan = bed.layout.paths
    probe = probe_paths(plan, NIC, PLANE)[number]
    task = [str(plan.address(NIC, PLANE)), str(plan.receive_address(NIC, PLANE)), str(probe.address), PACKETS]
    before = packets_of(bed)
    command = [*bed.prefix(Node("host", NIC)), sys.executable, "-c", PROGRAM, json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert int(done.stdout) == PACKETS
    used = {link for link, packets in packets_of(bed).items() if packets - before[link] >= PACKETS}
    there = {(lower.name, upper.name, PLANE) for lower, upper in probe.links}
    assert used == there | {(upper, lower, plane) for lower, upper, plane in there}
