"""The network plugin for NCCL, driven by a program that loads and calls it as NCCL does."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from nccl_ranks import Ranks, ended, passed
from veth_planes import VethPlanes
from waiting import until

from openmrc.runs.processes.veth_pairs import VethPair, namespaces_allowed
from openmrc.testbed.plain import PlainBed, PlainNetwork

pytestmark = pytest.mark.live
HANDLE_BYTES = 128


@pytest.fixture
def ranks(nccl_harness: Path, tmp_path: Path) -> Ranks:
    return Ranks(nccl_harness, tmp_path)


@pytest.mark.parametrize("newest", [8, 9, 10, 11, 12])
def test_messages_of_all_sizes_with_every_version(ranks: Ranks, newest: int) -> None:
    results = ranks.run("sizes", newest=newest)
    assert passed(results), results


@pytest.mark.parametrize("case", ["groups", "connections", "too_long", "closing"])
@pytest.mark.parametrize("newest", [8, 11])
def test_two_ranks(ranks: Ranks, case: str, newest: int) -> None:
    results = ranks.run(case, newest=newest)
    assert passed(results), results


def test_two_planes(ranks: Ranks) -> None:
    results = ranks.run("groups", ports="127.0.0.1,127.0.0.2")
    assert passed(results), results


def test_merged_devices(ranks: Ranks) -> None:
    results = ranks.run("merged", ports="127.0.0.1;127.0.0.2")
    assert passed(results), results


def test_ranks_with_other_planes_are_refused(ranks: Ranks) -> None:
    started = [ranks.start("sizes", rank, ports, 12) for rank, ports in enumerate(["127.0.0.1", "127.0.0.1,127.0.0.2"])]
    results = ended(started)
    assert all(status == 1 for status, _, _ in results), results
    assert "both need the same number" in results[0][2] + results[1][2]


@pytest.mark.parametrize("case", ["alone", "strangers", "misuse", "forked"])
def test_one_rank(ranks: Ranks, case: str) -> None:
    results = ranks.run(case, count=1)
    assert passed(results), results


def test_a_killed_peer_fails_every_request(ranks: Ranks) -> None:
    survivor, killed = ranks.run("killed")
    assert killed[0] == -signal.SIGKILL
    assert passed([survivor]), survivor


def test_a_child_of_a_killed_peer_does_not_keep_the_connection(ranks: Ranks) -> None:
    survivor, killed = ranks.run("killed_forked")
    assert killed[0] == -signal.SIGKILL
    assert passed([survivor]), survivor
    assert "the peer has ended without a goodbye" in survivor[2]


@pytest.mark.parametrize("case", ["sizes", "groups", "alone"])
def test_ipv6(ranks: Ranks, case: str) -> None:
    results = ranks.run(case, ports="::1", count=1 if case == "alone" else 2)
    assert passed(results), results


def test_as_many_connections_as_the_properties_offer(ranks: Ranks) -> None:
    files = ["sh", "-c", 'ulimit -n 300; exec "$@"', "sh"]
    results = ended([ranks.start("most", 0, "127.0.0.1", 12, *files)])
    assert passed(results), results


def test_a_plugin_without_ports_is_not_used(ranks: Ranks) -> None:
    ((status, _, errors),) = ranks.run("alone", ports="", count=1)
    assert status == 1
    assert "OPENMRC_PORTS has to list interfaces or addresses" in errors


@pytest.mark.parametrize("case", ["gibibyte", "beyond"])
def test_messages_of_a_gibibyte(ranks: Ranks, case: str) -> None:
    results = ranks.run(case)
    assert passed(results), results


@pytest.mark.root
def test_two_hosts(ranks: Ranks) -> None:
    if not namespaces_allowed():
        pytest.skip("network namespaces need root")
    with VethPair(mtu=9000) as pair:
        started = [ranks.start("bandwidth", rank, pair.addresses[rank], 12, *pair.prefix(rank)) for rank in (0, 1)]
        results = ended(started)
    assert passed(results), results
    assert json.loads(results[0][1])["bytes"] > 0


def cut(started: list[list[subprocess.Popen[str]]], ranks: list[Ranks], planes: VethPlanes, dead: list[int]) -> None:
    """Silences planes when both ranks of all cases run."""
    running = [one.directory / f"running{rank}" for one in ranks for rank in (0, 1)]
    until(lambda: all(file.exists() for file in running) or any(p.poll() is not None for case in started for p in case))
    for plane in dead:
        planes.silence(plane)
    for one in ranks:
        (one.directory / "cut.new").write_bytes(bytes(HANDLE_BYTES))
        (one.directory / "cut.new").rename(one.directory / "cut")


@pytest.mark.root
@pytest.mark.parametrize(("count", "dead"), [(2, 0), (2, 1), (4, 0), (4, 3)])
@pytest.mark.parametrize("ipv6", [False, True])
def test_a_transfer_survives_the_death_of_a_plane(ranks: Ranks, count: int, dead: int, ipv6: bool) -> None:
    """Contents and order are checked by the ranks. The first plane also has the TCP connection."""
    if not namespaces_allowed():
        pytest.skip("network namespaces need root")
    with VethPlanes(count) as planes:
        started = [ranks.start("dead_plane", r, planes.ports(r, ipv6=ipv6), 12, *planes.prefix(r)) for r in (0, 1)]
        cut([started], [ranks], planes, [dead])
        results = ended(started)
    assert passed(results), results


@pytest.mark.slow
@pytest.mark.root
def test_every_operation_ends_when_the_host_falls_silent(nccl_harness: Path, tmp_path: Path) -> None:
    """During each step of the set-up, and afterwards."""
    if not namespaces_allowed():
        pytest.skip("network namespaces need root")
    cases = ["silenced", "connect_silent", "offer_silent", "ready_silent"]
    ranks = [Ranks(nccl_harness, tmp_path / case) for case in cases]
    with VethPlanes(2) as planes:
        started = []
        for case, one in zip(cases, ranks, strict=True):
            one.directory.mkdir()
            started.append([one.start(case, r, planes.ports(r), 12, *planes.prefix(r)) for r in (0, 1)])
        cut(started, ranks, planes, [0, 1])
        results = {case: ended(processes) for case, processes in zip(cases, started, strict=True)}
    assert all(passed(result) for result in results.values()), results
    assert "the peer has been silent for too long" in results["silenced"][0][2]


@pytest.mark.root
@pytest.mark.parametrize("mtu", [1500, 9000])
@pytest.mark.parametrize(("case", "protocol"), [("flags", "LL128"), ("flags_ll", "")])
def test_flags_do_not_arrive_before_their_data(ranks: Ranks, mtu: int, case: str, protocol: str) -> None:
    """Lost packets, and those of other planes, arrive in another order than they were sent, and GPUs read meanwhile."""
    if not namespaces_allowed():
        pytest.skip("network namespaces need root")
    network = PlainNetwork.of_rates((1_000_000_000,) * 4, fifo_bytes=256 << 10, mtu_bytes=mtu)
    with PlainBed(network, offloads=True) as bed:
        for plane in range(4):
            bed.lose(plane, 0.02)
        nccl = ("env", f"NCCL_PROTO={protocol}")
        ports = [",".join(bed.addresses(rank)) for rank in (0, 1)]
        started = [ranks.start(case, rank, ports[rank], 12, *bed.prefix(rank), *nccl) for rank in (0, 1)]
        results = ended(started)
    assert passed(results), results


@pytest.mark.root
@pytest.mark.parametrize("newest", [8, 11])
def test_properties_are_those_of_the_interfaces(ranks: Ranks, newest: int) -> None:
    if not namespaces_allowed():
        pytest.skip("network namespaces need root")
    with VethPlanes(2) as planes:
        files = ["sh", "-c", 'ulimit -n 1128; exec "$@"', "sh"]
        started = ranks.start("properties", 0, planes.ports(0), newest, *planes.prefix(0), *files)
        ((status, output, errors),) = ended([started])
        command = [*planes.prefix(0), "sh", "-c", "cat /sys/class/net/*/speed"]
        speeds = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    assert status == 0, errors
    found = json.loads(output)
    assert found.pop("guid") != 0
    assert found == {
        "name": "mrc0",
        "pci": None,
        "pointers": 1,  # host memory
        "global": 0,
        "speed": sum(int(speed) for speed in speeds if int(speed) > 0),
        "port": 1,
        "latency": 0,  # not stated
        "comms": 500,
        "receives": 8,
    }
