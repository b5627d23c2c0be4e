"""Unmodified RDMA programs over planes of plain switches: the payload of their packets, and a silent plane."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest
from rdma_programs import needs, next_tcp_port, run_both, run_pair

from openmrc.testbed.plain import PlainBed, PlainNetwork

PLANES = 2
SIZE_BYTES = 64 << 10
COUNT = 1600  # many more than are posted at once
SMALL_BYTES, LARGE_BYTES = 1024 + 86, 1428 + 86  # of frames with a path MTU of 1,024 and with the MTU's whole room

pytestmark = needs("ib_write_bw", "ib_send_bw", "ib_read_bw")


@pytest.fixture
def bed(needs_namespaces: None) -> Iterator[PlainBed]:
    network = PlainNetwork.of_rates((300_000_000,) * PLANES, fifo_bytes=128 << 10, mtu_bytes=1500)
    with PlainBed(network) as made:
        yield made


def write_frame_bytes(bed: PlainBed) -> list[float]:
    """Mean size of the frames that the server of an `ib_write_bw` receives on each plane."""
    ends = [(bed.prefix(host), ",".join(bed.addresses(host))) for host in range(2)]
    command = ["ib_write_bw", "-s", str(SIZE_BYTES), "-n", str(COUNT), "-d", "mrc0", "-F"]
    ended = run_pair(command, ends=ends)
    assert ended.passed, ended.output
    return [received(bed, plane) for plane in range(PLANES)]


def received(bed: PlainBed, plane: int) -> float:
    shown = ["ip", "-n", bed.hosts[0], "-s", "-j", "link", "show", f"eth{plane}"]
    [link] = json.loads(subprocess.run(shown, capture_output=True, check=True, text=True).stdout)
    counted = link["stats64"]["rx"]
    assert counted["bytes"] > SIZE_BYTES * COUNT // PLANES // 4
    return float(counted["bytes"] / counted["packets"])


def test_packets_of_writes_fill_the_mtu(bed: PlainBed) -> None:
    # The messages that were posted before the answers arrived have small ones.
    sizes = write_frame_bytes(bed)
    assert all((SMALL_BYTES + LARGE_BYTES) / 2 < size < LARGE_BYTES for size in sizes), sizes


def test_a_switch_with_less_room_keeps_the_payload_of_the_path_mtu(bed: PlainBed) -> None:
    for host in range(2):
        subprocess.run(["ip", "-n", bed.switch, "link", "set", f"p1h{host}", "mtu", "1400"], check=True)
    sizes = write_frame_bytes(bed)
    assert all(size < SMALL_BYTES for size in sizes), sizes


@pytest.mark.parametrize("program", ["ib_send_bw", "ib_read_bw"])
def test_operations_on_one_path_leave_a_silent_plane(bed: PlainBed, program: str) -> None:
    """RC begins on the first plane. The programs' TCP connection takes the other one."""
    bed.silence(0)
    ends = [(bed.prefix(host), ",".join(bed.addresses(host))) for host in range(2)]
    tcp_port = next_tcp_port()
    words = [program, "-n", "50", "-d", "mrc0", "-F", "-p", str(tcp_port)]
    ended = run_both(words, [*words, bed.addresses(0)[1]], tcp_port, ends=ends)
    assert ended.passed, ended.output
