"""Faults in a test bed of the kernel: packets between hosts are lost, or not, according to the fault."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator

import pytest

from openmrc.fabric import make_fabric, parse_fault
from openmrc.fabric.cabling import Node
from openmrc.testbed import namespaces
from openmrc.testbed.bed import TestBed
from openmrc.testbed.dataplane import DataPlane
from openmrc.testbed.faults import BedFaults, FaultPlayer

pytestmark = pytest.mark.root

PORT = 4791
FABRIC = make_fabric(
    name="gbpf", planes=2, hosts=4, hosts_per_t0=2, t1s=2, rate="100Mbit", delay="10us", ecn="on", trim="on"
)


@pytest.fixture(scope="module")
def bed(needs_data_plane: None) -> Iterator[TestBed]:
    with TestBed.up(FABRIC, f"gbpf-{os.getpid()}") as found:
        assert found.state.data_plane is not None, found.state.data_plane_missing
        yield found


@pytest.fixture
def bed_faults(bed) -> Iterator[BedFaults]:
    found = BedFaults(bed)
    yield found
    found.apply("repair all")


def _passed(bed: TestBed, source: int, destination: int, plane: int, selector: int, count: int = 50) -> int:
    """Number of `count` datagrams that arrive over one path, given by their destination address."""
    path = bed.layout.paths.path(source, destination, plane, selector)
    with contextlib.ExitStack() as stack:
        sender, receiver = (stack.enter_context(_socket(bed, host)) for host in (source, destination))
        receiver.bind(("::", PORT))
        for number in range(count):
            # Immediate errors of the kernel, such as a missing route, are no result of the fabric.
            with contextlib.suppress(OSError):
                sender.sendto(number.to_bytes(4, "big"), (str(path.address), PORT))
        arrived = 0
        with contextlib.suppress(TimeoutError):
            while arrived < count:
                receiver.recv(100)
                arrived += 1
        return arrived


def _socket(bed: TestBed, host: int) -> socket.socket:
    with namespaces.inside(bed.layout.namespace(Node("host", host))):
        found = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    found.setsockopt(socket.IPPROTO_UDP, 101, 1)  # no checksum, neither sent
    found.setsockopt(socket.IPPROTO_UDP, 102, 1)  # nor required: it would cover the address, which switches shift
    found.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
    found.settimeout(0.2)
    return found


def _configuration(bed: TestBed, node: Node) -> list[str]:
    """Addresses, neighbours and routes of a node, without the marks of a link that is down."""
    words = ("-6 route show table all", "-4 route show table all", "-6 neighbour", "-6 address")
    lines: list[str] = []
    for word in words:
        done = subprocess.run(["ip", "-n", bed.layout.namespace(node), *word.split()], capture_output=True, text=True)
        lines += (line.split(" pref ")[0].strip() for line in done.stdout.splitlines())
    return sorted(lines)


def test_a_black_hole_swallows_one_path_and_no_other(bed, bed_faults):
    bed_faults.apply("t1 1 plane 0 blackhole")
    ways = {(plane, selector): _passed(bed, 0, 3, plane, selector) for plane in (0, 1) for selector in (0, 1)}
    assert ways == {(0, 0): 50, (0, 1): 0, (1, 0): 50, (1, 1): 50}
    bed_faults.apply("repair plane 0")
    assert _passed(bed, 0, 3, 0, 1) == 50


@pytest.mark.parametrize(("direction", "there", "back"), [("rx", 0, 50), ("tx", 50, 0)])
def test_a_direction_spares_the_other(bed, bed_faults, direction, there, back):
    bed_faults.apply(f"host 3 plane 1 blackhole {direction}")
    assert (_passed(bed, 0, 3, 1, 0), _passed(bed, 3, 0, 1, 0)) == (there, back)


def test_a_lost_share_is_counted_where_it_was_lost(bed, bed_faults):
    port = next(each for each in bed.layout.all_interfaces() if each.node.name == "p0-t0-1" and each.name == "down1")
    with DataPlane.open(bed.state.data_plane) as plane:
        before = plane.counters(port.number)
        bed_faults.apply("plane 0 loss 30%")
        got = sum(_passed(bed, 0, 3, 0, number % 2, 500) for number in range(4))
        after = plane.counters(port.number)
    strangers = after.arrived - before.arrived - 2000  # the switch's own occasional reports of multicast groups
    assert 0 <= strangers < 10
    assert 0 <= after.dropped_loss - before.dropped_loss - (2000 - got) <= strangers
    assert abs(2000 - got - 600) < 5 * (2000 * 0.3 * 0.7) ** 0.5


def test_a_switch_that_reboots_forwards_nothing_and_keeps_every_route(bed, bed_faults):
    switch = Node("t0", 1, 1)
    before = _configuration(bed, switch)
    bed_faults.apply("t0 1 plane 1 reboot for 5s")
    assert _passed(bed, 0, 3, 1, 0) == _passed(bed, 2, 3, 1, 0) == 0
    assert _configuration(bed, switch) == before
    assert _passed(bed, 0, 3, 0, 0) == 50


def test_a_host_sees_its_link_go_down_and_all_is_as_before_afterwards(bed, bed_faults):
    switch, host = Node("t0", 1, 0), Node("host", 3)
    before = _configuration(bed, switch), _configuration(bed, host)
    number = bed_faults.apply("host 3 plane 0 down")
    assert _carrier(bed, host, "eth0") == "0"
    assert _passed(bed, 0, 3, 0, 0) == 0
    assert _passed(bed, 2, 3, 1, 0) == 50
    bed_faults.apply(f"repair fault {number}")
    assert _carrier(bed, host, "eth0") == "1"
    assert _passed(bed, 0, 3, 0, 0) == _passed(bed, 3, 0, 0, 1) == 50
    assert (_configuration(bed, switch), _configuration(bed, host)) == before


def test_links_of_one_switch_come_back_one_by_one(bed, bed_faults):
    switch = Node("t1", 0, 0)
    before = _configuration(bed, switch)
    first = bed_faults.apply("t0 0 t1 0 plane 0 down")
    bed_faults.apply("t0 1 t1 0 plane 0 down")
    bed_faults.apply(f"repair fault {first}")
    assert (_passed(bed, 0, 3, 0, 0), _passed(bed, 0, 3, 0, 1)) == (0, 50)
    bed_faults.apply("repair all")
    assert _passed(bed, 0, 3, 0, 0) == 50
    assert _configuration(bed, switch) == before


def test_a_rate_cut_reaches_the_queue_behind_the_port(bed, bed_faults):
    command = ["tc", "-n", bed.layout.namespace(Node("t0", 0, 0)), "class", "show", "dev", "up1"]
    before = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    bed_faults.apply("t0 0 t1 1 plane 0 rate 10%")
    during = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    bed_faults.apply("repair all")
    after = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert before == after
    assert before.count("ceil 100Mbit") == during.count("ceil 10Mbit") == 3


def test_a_schedule_is_played(bed):
    player = FaultPlayer(bed, [parse_fault("plane 0 blackhole for 50ms")])
    player.start()
    assert player.wait(20)
    (span,) = player.stop()
    assert span.start_ns < span.end_ns
    assert BedFaults(bed).active() == {}
    assert _passed(bed, 0, 3, 0, 0) == 50


def _carrier(bed: TestBed, node: Node, interface: str) -> str:
    command = ["ip", "netns", "exec", bed.layout.namespace(node), "cat", f"/sys/class/net/{interface}/carrier"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
