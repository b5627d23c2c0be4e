"""Two directly connected processes: over loopback, and as root over a veth pair between namespaces."""

from __future__ import annotations

import signal
import subprocess

import pytest

from openmrc.runs.bench.direct_pair import round_trips_us
from openmrc.runs.bench.stream_benchmark import bench_live
from openmrc.runs.processes.veth_pairs import VethBridge, VethPair, namespaces_allowed
from openmrc.runs.run_plan import RunPlan

pytestmark = pytest.mark.live

PLAN = RunPlan(planes=1, rate_bps=0, seconds=0.5)


@pytest.fixture
def namespaces() -> None:
    """Skips if this process may not create network namespaces."""
    if not namespaces_allowed():
        pytest.skip("network namespaces need root")


def test_every_slot_of_the_receiver_holds_what_was_written():
    result = bench_live(PLAN)
    assert result["content_ok"]
    assert result["bytes"] >= result["bytes_checked"] > 0
    assert result["goodput_gbps"] > 0


def test_round_trips_of_mrc_and_udp_are_all_there():
    trips = round_trips_us(PLAN, namespaces_mtu=None, iterations=200)
    assert len(trips["mrc"]) == len(trips["udp"]) == 200
    assert min(trips["mrc"]) > 0
    assert min(trips["udp"]) > 0


@pytest.mark.slow
@pytest.mark.root
@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("mtu", [1500, 9000])
def test_over_a_veth_pair_beside_tcp_and_udp(mtu: int):
    result = bench_live(PLAN, namespaces_mtu=mtu, compare_tcp=True, compare_udp=True)
    assert result["content_ok"]
    assert result["tcp_goodput_gbps"] > 0
    assert result["udp_goodput_gbps"] > 0
    assert result["udp_sent_bytes"] >= result["udp_bytes"] > 0
    assert result["namespaces_mtu"] == mtu


@pytest.mark.root
@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("place", [VethPair(1500), VethBridge(3, 9000)])
def test_namespaces_are_gone_afterwards_also_after_an_error_with_what_runs_in_them(place: VethPair | VethBridge):
    def listed() -> str:
        return subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout

    sleepers = []

    def fails() -> None:
        with place:
            assert place.names[1] in listed()
            sleepers.append(subprocess.Popen([*place.prefix(1), "sleep", "1000"]))
            assert subprocess.run([*place.prefix(1), "ip", "address"], check=True, capture_output=True).stdout
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert [one.wait(20) for one in sleepers] == [-signal.SIGKILL]
    assert not [name for name in place.names if name in listed()]
