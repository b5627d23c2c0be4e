"""Ideals against closed forms and sums by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openmrc.fabric import Fabric, make_fabric, parse_fault
from openmrc.sim.ideals import NEVER_PS, Ideals, Packets, ideals
from openmrc.sim.ideals_capacity import Capacity, capacities
from openmrc.sim.workloads import build

US = 1_000_000
MTU, HEADER, ACK = (
    4096,
    72,
    92,
)  # 44 of MRC with an ImmDt and 28 of UDP and IPv4 around data, 64 and 28 of an acknowledgement
PACKETS = Packets(MTU, transport_header_bytes=44)


def fabric_of(**changes: Any) -> Fabric:
    settings = {"planes": 1, "hosts": 32, "hosts_per_t0": 8, "t1s": 8, "rate": "100G", "delay": "1us"}
    return make_fabric(**(settings | changes))


def run(spec: Any, fabric: Fabric, *faults: str, packets: Packets = PACKETS) -> Ideals:
    graph = build(spec, fabric, 1)
    return ideals(graph, fabric, packets, [parse_fault(fault) for fault in faults])


def message(size: int, fabric: Fabric, destination: int = 31, packets: Packets = PACKETS) -> tuple[int, int]:
    """Ideal of one message from host 0: until received, until acknowledged."""
    flow = {"source": 0, "destination": destination, "bytes": size}
    one = run({"name": "flows", "flows": [flow]}, fabric, packets=packets)
    return int(one.received_ps[0]), int(one.completed_ps[0])


def about(time_ps: float) -> Any:
    """The same value, or less by a few picoseconds of rounding."""
    return pytest.approx(time_ps, abs=60)


def test_one_packet_is_stored_and_forwarded_by_every_switch() -> None:
    size_ps, ack_ps = (MTU + HEADER) * 80, ACK * 80
    received, completed = message(MTU, fabric_of())
    assert received == about(4 * (US + size_ps))
    assert completed == about(4 * (US + size_ps) + 4 * (US + ack_ps))
    assert completed == about(fabric_of().round_trip_ps(MTU))


def test_under_one_t0_the_way_is_shorter() -> None:
    received, _ = message(MTU, fabric_of(), destination=1)
    assert received == about(2 * (US + (MTU + HEADER) * 80))


def test_across_pods_the_long_links_count() -> None:
    fabric = make_fabric(
        planes=1,
        hosts=32,
        hosts_per_t0=8,
        t1s=8,
        rate="100G",
        delay="1us",
        sites=2,
        site_link={"delay": "1ms"},
    )
    assert message(MTU, fabric, destination=8)[0] == about(4 * (US + (MTU + HEADER) * 80))
    assert message(MTU, fabric)[0] == about(4 * US + 2 * 1000 * US + 6 * (MTU + HEADER) * 80)


def test_a_long_message_is_its_packets_one_after_another_and_the_last_full_one_on_the_way() -> None:
    received, _ = message(2_000_000, fabric_of())  # 488 full packets, and 1,152 bytes that may precede them
    assert received == pytest.approx((488 + 3) * (MTU + HEADER) * 80 + 4 * US, abs=600)


def test_planes_that_differ_carry_a_long_message_at_the_sum_of_their_rates() -> None:
    alike = message(10_000_000, fabric_of(planes=2))[0]
    same = message(10_000_000, fabric_of(planes=[{}, {"queue_bytes": "1MB"}]))[0]
    assert same == pytest.approx(alike, rel=1e-2)
    slower = message(10_000_000, fabric_of(planes=[{}, {"rate": "50G"}]))[0]
    assert slower == pytest.approx(alike * 2 / 1.5, rel=1e-2)


def test_a_plane_that_is_too_far_away_is_left_out() -> None:
    """The capacity of the near plane during the far one's delay never uses the far one."""
    near = message(1_000_000, fabric_of(planes=1))[0]
    assert message(1_000_000, fabric_of(planes=[{}, {"delay": "10ms"}]))[0] == pytest.approx(near, rel=1e-2)
    far = message(100_000_000, fabric_of(planes=[{}, {"delay": "1ms"}]))[0]
    assert far < message(100_000_000, fabric_of(planes=1))[0]
    one_way_ps = 4 * 1000 * US
    assert far == pytest.approx(one_way_ps + (message(100_000_000, fabric_of(planes=1))[0] - one_way_ps) / 2, rel=1e-2)


def test_a_packet_takes_the_plane_where_it_is_first() -> None:
    size_ps = (MTU + HEADER) * 80
    assert message(MTU, fabric_of(planes=[{"rate": "10G"}, {"delay": "9us"}]))[0] == about(4 * (US + 10 * size_ps))
    assert message(MTU, fabric_of(planes=[{"rate": "1G"}, {"delay": "9us"}]))[0] == about(4 * (9 * US + size_ps))


def test_shared_places_have_the_rates_of_their_planes() -> None:
    fabric = fabric_of(planes=[{}, {"rate": "50G"}, {"rate": "10G"}])
    found = capacities(fabric, [parse_fault("plane 0 rate 25% at 1ms"), parse_fault("plane 2 down at 2ms")])
    assert (found["host_out"].rate_bps[:, 0] / 1e9).tolist() == [160, 85, 75]
    assert (found["t0_up"].rate_bps[:, 0] / 1e9).tolist() == [8 * 160, 8 * 85, 8 * 75]


def test_lanes_cut_a_message_into_smaller_packets() -> None:
    """4,097 bytes are two packets: over one lane a full one and one of a byte, over two lanes 2,048 and 2,049 bytes."""
    two = fabric_of(planes=2)
    lanes = Packets(MTU, transport_header_bytes=44, lanes=2)
    assert message(MTU + 1, two)[0] == about(4 * (US + (MTU + HEADER) * 80))
    assert message(MTU + 1, two, packets=lanes)[0] == about(4 * (US + (2049 + HEADER) * 80))
    # No more lanes than full packets' worth, and a packet with its own header for each.
    many = Packets(MTU, transport_header_bytes=44, lanes=64)
    assert message(MTU + 1, two, packets=many) == message(MTU + 1, two, packets=lanes)
    graph = build({"name": "flows", "flows": [{"source": 0, "destination": 31, "bytes": 5 * MTU + 8}]}, two, 1)
    assert [int(ideals(graph, two, each).wire_bytes[0]) for each in (lanes, many)] == [5 * MTU + 8 + 6 * HEADER] * 2


def test_a_plane_carries_whole_packets() -> None:
    """Of five full packets one of four planes carries two, one after another."""
    four = fabric_of(planes=4)
    assert message(5 * MTU, four)[0] == about(4 * US + (2 + 3) * (MTU + HEADER) * 80)
    assert message(8 * MTU, four)[0] == about(4 * US + (2 + 3) * (MTU + HEADER) * 80)


def test_planes_share_a_message_but_not_a_packet() -> None:
    eight = fabric_of(planes=8)
    assert message(MTU, eight)[0] == about(4 * (US + (MTU + HEADER) * 80))
    wire = 8 * 1000 * (MTU + HEADER)
    expected = wire * 10 + 3 * (MTU + HEADER) * 80 + 4 * US
    assert message(8000 * MTU, eight)[0] == pytest.approx(expected, abs=9000)


def test_latency_of_nics_and_doorbell_are_in_it() -> None:
    plain, slow = (
        message(MTU, fabric_of()),
        message(MTU, fabric_of(), packets=Packets(MTU, transport_header_bytes=44, nic_latency_ps=7, doorbell_ps=100)),
    )
    assert slow[0] - plain[0] == 2 * 7 + 100
    assert slow[1] - plain[1] == 4 * 7 + 100


def test_few_slow_uplinks_limit_a_message() -> None:
    narrow = fabric_of(hosts=4, hosts_per_t0=2, t1s=2, rate={"nic": "100G", "t0": "10G"})
    wire, last = 100 * (MTU + HEADER), MTU + HEADER
    expected = wire * 400 + last * (80 + 800 + 80) + 4 * US
    assert message(100 * MTU, narrow, destination=3)[0] == pytest.approx(expected, abs=200)


def test_an_incast_is_bound_by_the_receivers_link() -> None:
    bounds = run({"name": "incast", "bytes": "1MB", "senders": 31}, fabric_of())
    wire, last = 31 * (1_000_000 + 245 * HEADER), 1_000_000 - 244 * MTU + HEADER
    assert bounds.bottleneck == "host_in"
    # The nearest sender is below the receiver's own T0, one stored and forwarded packet away.
    assert bounds.graph_received_ps == pytest.approx(wire * 80 + last * 80 + 2 * US, abs=10_000)


def ring_step_ps(size: int, last: int) -> float:
    packets = -(-size // MTU)
    return (size + packets * HEADER) * 80 + 3 * (last + HEADER) * 80 + 4 * US


def test_a_ring_all_reduce_is_2_n_minus_1_steps() -> None:
    """Across T0s only, so that every step is as long: 2 (n - 1) messages of S/n one after another."""
    hosts = [0, 8, 16, 24]
    bounds = run({"name": "all_reduce", "bytes": 4 * 100 * MTU, "hosts": hosts}, fabric_of())
    assert bounds.limits_received_ps["critical_path"] == pytest.approx(6 * ring_step_ps(100 * MTU, MTU), abs=2000)
    assert bounds.graph_received_ps == pytest.approx(6 * ring_step_ps(100 * MTU, MTU), abs=2000)


def test_a_pipelined_ring_is_bound_by_bytes() -> None:
    hosts = [0, 8, 16, 24]
    bounds = run({"name": "all_reduce", "bytes": 4 * 1000 * MTU, "chunks": 100, "hosts": hosts}, fabric_of())
    all_bytes = 6 * 1000 * (MTU + HEADER) * 80
    assert all_bytes < bounds.graph_received_ps < 1.05 * all_bytes + 6 * ring_step_ps(10 * MTU, MTU)


def test_all_to_all_is_bound_by_every_nic() -> None:
    bounds = run({"name": "all_to_all", "bytes": 100_000}, fabric_of())
    wire = 31 * (100_000 + 25 * HEADER)
    assert bounds.graph_received_ps == pytest.approx(wire * 80 + 2 * US, rel=0.005)


def test_halving_and_doubling_is_its_steps() -> None:
    hosts = [0, 8, 16, 24]
    bounds = run(
        {"name": "all_reduce", "bytes": 400 * MTU, "algorithm": "halving_doubling", "hosts": hosts}, fabric_of()
    )
    steps = 2 * (ring_step_ps(200 * MTU, MTU) + ring_step_ps(100 * MTU, MTU))
    assert bounds.limits_received_ps["critical_path"] == pytest.approx(steps, abs=2000)


def test_training_steps_add_up_over_a_barrier() -> None:
    spec = {"name": "training", "bytes": "1MB", "forward": "10us", "backward": "5us", "hosts": [0, 8], "buckets": 2}
    one, three = (run(spec | {"steps": steps}, fabric_of()).graph_received_ps for steps in (1, 3))
    barrier = 4 * (US + (64 + HEADER) * 80)
    assert three == pytest.approx(3 * one, abs=3 * 1000)
    assert one > 15 * US + 1_000_000 * 80 + barrier


def test_a_join_counts_messages_of_one_nic_one_after_another() -> None:
    """Rank 0 of a tree waits for two children: its link carries both, though each alone would arrive sooner."""
    spec = {"name": "all_reduce", "bytes": 100 * MTU, "algorithm": "tree", "hosts": [0, 8, 16]}
    bounds = run(spec, fabric_of())
    both = 2 * 100 * (MTU + HEADER) * 80
    assert bounds.start_ps.max() >= both
    assert bounds.limits_received_ps["critical_path"] > both + 100 * (MTU + HEADER) * 80


PERMUTATION = {"name": "permutation", "bytes": "2MB", "across_t0s": True}


def test_a_spine_at_a_quarter_leaves_7_25_of_8_uplinks() -> None:
    whole, slow = run(PERMUTATION, fabric_of()), run(PERMUTATION, fabric_of(), "t1 0 rate 25%")
    assert slow.bottleneck in ("t0_up", "t0_down")
    ratio = slow.limits_received_ps["t0_up"] / whole.limits_received_ps["t0_up"]
    assert 0.99 * 8 / 7.25 < ratio < 8 / 7.25
    assert slow.received_ps.tolist() == whole.received_ps.tolist()


def test_a_cable_cut_later_costs_only_what_comes_later() -> None:
    now, later, never = (
        run(PERMUTATION, fabric_of(), *fault).limits_received_ps["t0_up"]
        for fault in (("t0 0 t1 0 down",), ("t0 0 t1 0 down at 100us",), ())
    )
    assert never < later < now
    # 100 us at full rate, the rest at 7/8 of it.
    assert later - 100 * US == pytest.approx((never - 100 * US) * 8 / 7, rel=0.01)


def test_transfers_to_cut_off_hosts_never_end() -> None:
    bounds = run(PERMUTATION, fabric_of(), "host 3 down at 1us")
    assert bounds.graph_received_ps == NEVER_PS
    assert bounds.limits_received_ps["t0_up"] < NEVER_PS


@pytest.mark.parametrize(
    "fault",
    ["t0 0 t1 0 down for 1ms", "t1 0 loss 5%", "plane 0 rate 10% every 10us", "t1 0 delay 1ms", "t1 0 reboot for 1ms"],
)
def test_faults_that_end_or_only_lose_take_nothing(fault: str) -> None:
    assert run(PERMUTATION, fabric_of(), fault).limits_received_ps == run(PERMUTATION, fabric_of()).limits_received_ps


LINK = 10**11


@pytest.mark.parametrize(
    ("fault", "place", "which", "lost"),
    [
        ("host 3 plane 1 down", "host_out", 3, LINK),
        ("host 3 plane 1 tx down", "host_in", 3, 0),
        ("host 3 rx down", "host_in", 3, 2 * LINK),
        ("t0 1 plane 0 down", "host_out", 9, LINK),
        ("t0 1 plane 0 down", "t0_up", 1, 8 * LINK),
        ("t0 1 t1 4..5 rate 50%", "t0_down", 1, 2 * 2 * LINK // 2),
        ("t1 4 down", "t0_up", 3, 2 * LINK),
        ("plane 1 down", "t0_down", 2, 8 * LINK),
        ("all rate 75%", "host_in", 0, 2 * LINK // 4),
    ],
)
def test_every_place_of_a_fault_takes_from_its_links(fault: str, place: str, which: int, lost: int) -> None:
    fabric = fabric_of(planes=2)
    whole, left = capacities(fabric), capacities(fabric, [parse_fault(fault)])
    assert whole[place].rate_bps[0][which] - left[place].rate_bps[0][which] == lost


def test_faults_of_three_tiers_take_from_the_links_of_pods() -> None:
    fabric = make_fabric(
        planes=1, hosts=32, hosts_per_t0=8, t1s=4, rate="100G", delay="1us", tiers=3, t0s_per_pod=2, t1_uplinks=2
    )
    whole = capacities(fabric)["pod_up"].rate_bps[0]
    assert whole.tolist() == [8 * LINK, 8 * LINK]
    for fault, lost in (
        ("t1 5 down", [0, 2]),
        ("t2 3 down", [1, 1]),
        ("t1 1 t2 3 down", [1, 0]),
        ("t0 0 down", [0, 0]),
    ):
        left = capacities(fabric, [parse_fault(fault)])["pod_up"].rate_bps[0]
        assert (whole - left).tolist() == [links * LINK for links in lost], fault


def test_work_ends_by_the_capacity_of_its_time() -> None:
    capacity = Capacity(np.array([0.0, 100.0, 300.0]), np.array([[10.0], [0.0], [5.0]]) * 1e12)
    ends = capacity.finish_ps(np.zeros(5, int), np.array([0, 0, 50, 150, 400]), np.array([1000, 1001, 1000, 0, 10]))
    assert ends.tolist() == [100, 300.2, 400, 150, 402]
