"""Ordinary networks of the kernel: created, broken and repaired while they run, without remains."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from openmrc.errors import ConfigError
from openmrc.linux.ethtool import features
from openmrc.testbed import TestBedError, namespaces
from openmrc.testbed.plain import PlainBed, PlainNetwork, PlainPlane, SiteLinks

FAST, SLOW = range(2)
SILENCE_S = 2.0
DELAY_US = 20_000
DATAGRAMS = 5
PORT = 4790
MPTCP = 262


def echo_socket(bed: PlainBed, host: int, plane: int) -> socket.socket:
    """A UDP socket on the host, in the plane."""
    with namespaces.inside(bed.hosts[host]):
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((bed.addresses(host)[plane], PORT))
    made.settimeout(10)
    return made


def passed(bed: PlainBed, plane: int, count: int = 40) -> int:
    """Number of datagrams that arrive from host 0 at host 1; silence ends the wait."""
    arrived = 0
    with echo_socket(bed, 0, plane) as source, echo_socket(bed, 1, plane) as sink:
        for _ in range(count):
            source.sendto(b"x", (bed.addresses(1)[plane], PORT))
        sink.settimeout(SILENCE_S)
        with contextlib.suppress(TimeoutError):
            while arrived < count:
                sink.recv(16)
                arrived += 1
    return arrived


@pytest.fixture(scope="module")
def bed(needs_namespaces: None) -> Iterator[PlainBed]:
    """Two hosts, a fast and a slow plane, neither with a delay."""
    network = PlainNetwork((PlainPlane(400_000_000), PlainPlane(20_000_000, 64 * 1024, 9000)))
    with PlainBed(network) as made:
        yield made


def test_every_plane_connects_the_hosts(bed: PlainBed) -> None:
    assert [passed(bed, plane, 10) for plane in (FAST, SLOW)] == [10, 10]


def test_interfaces_have_the_planes_mtu_and_no_segmentation_offload(bed: PlainBed) -> None:
    for host in bed.hosts:
        text = subprocess.run(("ip", "-n", host, "-o", "link"), capture_output=True, text=True, check=True).stdout
        assert "eth0@" in text and "mtu 1500" in text and "mtu 9000" in text  # noqa: PT018
        with namespaces.inside(host):
            for name in ("eth0", "eth1"):
                offloads = features(name)
                names = ("tx-tcp-segmentation", "tx-generic-segmentation", "rx-gro")
                assert not any(offloads[offload].on for offload in names)


def test_the_fifo_towards_a_host_drops_what_does_not_fit(bed: PlainBed) -> None:
    before = bed.queue_drops()
    with echo_socket(bed, 0, SLOW) as source:
        for _ in range(200):
            source.sendto(bytes(8000), (bed.addresses(1)[SLOW], PORT + 1))
    after = bed.queue_drops()
    assert after[SLOW, 1] > before[SLOW, 1]
    assert after[FAST, 1] == before[FAST, 1]


def test_a_silent_plane_drops_everything_until_it_is_repaired(bed: PlainBed) -> None:
    bed.silence(FAST)
    assert passed(bed, FAST) == 0
    bed.repair(FAST)
    assert passed(bed, FAST) == 40


def test_loss_takes_about_its_share(bed: PlainBed) -> None:
    bed.lose(FAST, 0.5)
    found = passed(bed, FAST, 100)
    bed.repair(FAST)
    assert 10 < found < 90  # outside once in 10^16 runs


def test_a_changed_rate_is_the_ports_rate(bed: PlainBed) -> None:
    bed.set_rate(SLOW, 5_000_000)
    command = ("tc", "-n", bed.switch, "class", "show", "dev", f"p{SLOW}h1")
    assert "rate 5Mbit" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    bed.set_rate(SLOW, 20_000_000)


def test_faults_of_planes_that_are_not_there_are_refused(bed: PlainBed) -> None:
    with pytest.raises(ConfigError, match="plane"):
        bed.silence(2)
    with pytest.raises(ConfigError, match="share"):
        bed.lose(FAST, 1.5)
    with pytest.raises(ConfigError, match="delay"):
        bed.set_delay(FAST, 100)


def test_a_delay_holds_back_every_datagram(needs_namespaces: None) -> None:
    if shutil.which("c++") is None or not os.path.exists("/dev/net/tun"):  # noqa: PTH110
        pytest.skip("the delay line needs a C++ compiler and /dev/net/tun")
    network = PlainNetwork((PlainPlane(100_000_000, delay_us=DELAY_US), PlainPlane(100_000_000)))
    with PlainBed(network) as made, echo_socket(made, 0, 0) as source, echo_socket(made, 1, 0) as sink:
        sink.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
        began = time.time_ns()
        source.sendto(b"x", (made.addresses(1)[0], PORT))
        _, control, _, _ = sink.recvmsg(16, 64)
        seconds, nanoseconds = (int.from_bytes(control[0][2][at : at + 8], sys.byteorder) for at in (0, 8))
        assert seconds * 10**9 + nanoseconds - began >= DELAY_US * 1000  # a bound from below cannot be missed


def test_mptcp_uses_every_plane(bed: PlainBed) -> None:
    bed.enable_mptcp([1])
    try:
        with namespaces.inside(bed.hosts[1]):
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP)
        with namespaces.inside(bed.hosts[0]):
            source = socket.socket(socket.AF_INET, socket.SOCK_STREAM, MPTCP)
    except OSError as error:
        pytest.skip(f"this kernel has no MPTCP: {error}")
    before = taken(bed, SLOW)
    with listener, source:
        listener.bind(("", 0))  # other planes join through it, at their own addresses
        listener.listen(1)
        source.settimeout(30)
        source.connect((bed.addresses(1)[FAST], listener.getsockname()[1]))
        sink, _ = listener.accept()
        with sink:
            for _ in range(2000):
                source.sendall(bytes(65536))
                left = 65536
                while left:
                    left -= len(sink.recv(left))
                if taken(bed, SLOW) > before + 20_000:
                    break
            else:
                pytest.fail("the second plane carries nothing")


def taken(bed: PlainBed, plane: int) -> int:
    """Bytes received by host 1 from a plane."""
    command = (*bed.prefix(1), "cat", "/proc/net/dev")
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    line = next(line for line in text.splitlines() if line.strip().startswith(f"eth{plane}:"))
    return int(line.partition(":")[2].split()[0])


def one_way_us(bed: PlainBed, source: int, sink: int) -> float:
    """Shortest time of some datagrams from host to host, by the kernel's time of arrival."""
    found = []
    with echo_socket(bed, source, 0) as sender, echo_socket(bed, sink, 0) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
        for _ in range(DATAGRAMS):
            began = time.time_ns()
            sender.sendto(b"x", (bed.addresses(sink)[0], PORT))
            _, ancillary, _, _ = receiver.recvmsg(16, 128)
            seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
            found.append((seconds * 10**9 + nanoseconds - began) / 1e3)
    return min(found)


def crossed(bed: PlainBed) -> int:
    """Frames carried by the links between the sites in either direction."""
    command = ("ip", "netns", "exec", bed.switch, "cat", "/proc/net/dev")
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sum(int(line.split()[10]) for line in text.splitlines() if line.strip().startswith("link0s"))


@pytest.fixture(scope="module")
def two_sites(needs_namespaces: None) -> Iterator[PlainBed]:
    """Two hosts on each of two sites, in one plane."""
    if shutil.which("c++") is None or not os.path.exists("/dev/net/tun"):  # noqa: PTH110
        pytest.skip("the delay line needs a C++ compiler and /dev/net/tun")
    link = PlainPlane(50_000_000, delay_us=DELAY_US)
    with PlainBed(PlainNetwork((PlainPlane(100_000_000),), 4, SiteLinks(2, (link,)))) as made:
        yield made


def test_a_link_with_a_delay_joins_two_sites(two_sites: PlainBed) -> None:
    far = [one_way_us(two_sites, *pair) for one in (0, 1) for other in (2, 3) for pair in ((one, other), (other, one))]
    assert min(far) >= DELAY_US
    before = crossed(two_sites)
    assert before >= DATAGRAMS * len(far)
    near = ((0, 1), (1, 0), (2, 3), (3, 2))
    for pair in near:
        one_way_us(two_sites, *pair)
    assert crossed(two_sites) < before + DATAGRAMS * len(near)  # the kernel's own frames, such as IGMP's, may cross


def test_a_broadcast_reaches_the_other_site_once(two_sites: PlainBed) -> None:
    with echo_socket(two_sites, 0, 0) as source:
        with namespaces.inside(two_sites.hosts[2]):
            sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with sink:
            sink.bind(("", PORT))
            sink.settimeout(SILENCE_S)
            source.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            source.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
            source.sendto(b"x", ("255.255.255.255", PORT))
            assert sink.recv(16) == b"x"
            with pytest.raises(TimeoutError):
                sink.recv(16)


def test_nothing_is_left(needs_namespaces: None) -> None:
    with PlainBed(PlainNetwork((PlainPlane(100_000_000),))) as made:
        names = made.namespaces
        assert all(namespaces.exists(name) for name in names)
    assert not any(namespaces.exists(name) for name in names)


def test_a_name_that_is_taken_is_refused_and_its_bed_survives(needs_namespaces: None) -> None:
    network = PlainNetwork((PlainPlane(100_000_000),))
    with PlainBed(network) as made:
        with pytest.raises(TestBedError, match="exists"), PlainBed(network, made.name):
            pass
        assert passed(made, 0, 3) == 3


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("rate_bps", {"rate_bps": 0}),
        ("fifo_bytes", {"fifo_bytes": 100}),
        ("mtu_bytes", {"mtu_bytes": 100}),
        ("delay_us", {"delay_us": -1}),
    ],
)
def test_a_plane_that_cannot_be_is_refused(field: str, changes: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=field):
        PlainPlane(**({"rate_bps": 100_000_000} | changes))


@pytest.mark.parametrize(
    ("field", "plane", "sites"),
    [
        ("sites.hosts", PlainPlane(100_000_000), SiteLinks(2, (PlainPlane(100_000_000),))),
        ("sites.links", PlainPlane(100_000_000), SiteLinks(1, ())),
        ("delay_us", PlainPlane(100_000_000, delay_us=5), SiteLinks(1, (PlainPlane(100_000_000),))),
        ("sites.links.mtu_bytes", PlainPlane(100_000_000, mtu_bytes=9000), SiteLinks(1, (PlainPlane(100_000_000),))),
    ],
)
def test_sites_that_cannot_be_are_refused(field: str, plane: PlainPlane, sites: SiteLinks) -> None:
    with pytest.raises(ConfigError, match=field):
        PlainNetwork((plane,), 2, sites)
