"""Counts, paths and capacities of plans against graphs that are built cable by cable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

import networkx as nx
import pytest

from openmrc.fabric import Fabric, make_fabric
from openmrc.fabric.cabling import Cable, Node, cables, switches
from openmrc.fabric.materials import Failures, Materials
from openmrc.plan import Plan, plan_of

G = 10**9


def fabric(transceiver: str | None = None, **values: object) -> Fabric:
    made = make_fabric(**{"delay": "1us", "rate": "100G", **values})
    bps = None if transceiver is None else int(transceiver) * G
    return replace(made, materials=Materials(transceiver_bps=bps, failures=Failures({"link": 36.525})))


FABRICS = {
    "two tiers": fabric(planes=2, hosts=8, hosts_per_t0=2, t1s=2),
    "uneven": fabric("200", planes=2, hosts=11, hosts_per_t0=4, t1s=4),
    "one T0": fabric(planes=3, hosts=3, hosts_per_t0=4, t1s=2),
    "oversubscribed": fabric("400", planes=4, hosts=12, hosts_per_t0=4, t1s=3),
    "spare uplinks": fabric(planes=2, hosts=6, hosts_per_t0=2, t1s=3),
    "fast uplinks": fabric("400", planes=2, hosts=12, hosts_per_t0=4, t1s=2, rate={"nic": "100G", "t0": "200G"}),
    "several NICs": fabric("200", planes=2, hosts=4, nics_per_host=3, hosts_per_t0=2, t1s=5),
    "three tiers": fabric("200", planes=2, hosts=16, hosts_per_t0=2, t1s=2, tiers=3, t0s_per_pod=2),
    "narrow T2": fabric(planes=1, hosts=18, hosts_per_t0=2, t1s=2, tiers=3, t0s_per_pod=3, t1_uplinks=2),
    "wide T2": fabric("200", planes=1, hosts=12, hosts_per_t0=3, t1s=3, tiers=3, t0s_per_pod=2, t1_uplinks=3),
    "slow T2": fabric(
        planes=2,
        hosts=12,
        hosts_per_t0=3,
        t1s=3,
        tiers=3,
        t0s_per_pod=2,
        t1_uplinks=1,
        rate={"nic": "100G", "t0": "100G", "t1": "70G"},
    ),
    "odd pods": fabric(planes=1, hosts=11, hosts_per_t0=2, t1s=2, tiers=3, t0s_per_pod=2, t1_uplinks=1),
}
Vertex = Node | tuple[str, int]
TOP, NICS, FAR = ("top", 0), ("nics", 0), ("far", 0)


def nic_of(shape: Fabric, cable: Cable) -> int:
    return cable.lower.node.index * shape.nics_per_host + cable.lower.port // shape.planes


def joined(shape: Fabric, planes: int) -> nx.Graph:
    """The NICs and the switches of the first planes, joined by their cables."""
    found = nx.Graph()
    for cable in cables(shape):
        if cable.plane < planes:
            found.add_edge(lower_end(shape, cable), cable.upper.node)
    return found


def lower_end(shape: Fabric, cable: Cable) -> Vertex:
    return ("nic", nic_of(shape, cable)) if cable.tier == "nic" else cable.lower.node


def climb(shape: Fabric, gone: Callable[[Cable], bool] = lambda _: False) -> nx.DiGraph:
    """Every cable as an edge upwards, as packets never turn up again; the highest tier leads to TOP."""
    found = nx.DiGraph()
    found.add_nodes_from([TOP, NICS])
    for cable in cables(shape):
        if not gone(cable):
            capacity = getattr(shape.rates, cable.tier) // G
            found.add_edge(lower_end(shape, cable), cable.upper.node, capacity=capacity)
    highest = "t1" if shape.tiers == 2 else "t2"
    for node in switches(shape):
        if node.kind == highest and node in found:
            found.add_edge(node, TOP)  # no capacity: unlimited
    return found


def there_and_back(shape: Fabric) -> nx.DiGraph:
    """Every switch twice, for packets on their way up and on their way down."""
    found = nx.DiGraph()
    for cable in cables(shape):
        capacity, lower, upper = getattr(shape.rates, cable.tier) // G, lower_end(shape, cable), cable.upper.node
        found.add_edge(("up", lower), ("up", upper), capacity=capacity)
        found.add_edge(("down", upper), ("down", lower), capacity=capacity)
        found.add_edge(("up", upper), ("down", upper))
    return found


def flow(found: nx.DiGraph, nics: Iterable[int]) -> int:
    """Gb/s from these NICs to above the highest tier."""
    for nic in nics:
        if ("nic", nic) in found:
            found.add_edge(NICS, ("nic", nic))
    return int(nx.maximum_flow_value(found, NICS, TOP))


@pytest.fixture(params=FABRICS)
def shape(request: pytest.FixtureRequest) -> Fabric:
    return FABRICS[request.param]


@pytest.fixture
def plan(shape: Fabric) -> Plan:
    return plan_of(shape)


def test_switches_cables_and_ports_are_those_of_the_cabling(shape: Fabric, plan: Plan) -> None:
    every = list(cables(shape))
    assert {tier.tier: tier.cables for tier in plan.bill.link_tiers} == Counter(cable.tier for cable in every)
    kinds = Counter(node.kind for node in switches(shape))
    assert {tier.tier: tier.switches for tier in plan.bill.switch_tiers} == kinds
    ends = Counter(end.node.kind for cable in every for end in (cable.lower, cable.upper))
    assert {tier.tier: tier.ports_used for tier in plan.bill.switch_tiers} == {kind: ends[kind] for kind in kinds}


def test_transceivers_hold_the_links_of_one_side_of_one_node(shape: Fabric, plan: Plan) -> None:
    lower, upper = Counter(), Counter()
    for cable in cables(shape):
        # The links of a NIC are its own; those of a switch are of all that lead the same way.
        end = ("nic", nic_of(shape, cable)) if cable.tier == "nic" else cable.lower.node
        lower[cable.tier, end] += 1
        upper[cable.tier, cable.upper.node] += 1
    for tier in plan.bill.link_tiers:
        each = tier.links_per_transceiver
        assert each == (shape.materials.transceiver_bps or tier.rate_bps) // tier.rate_bps
        for ends, number in ((lower, tier.transceivers_lower), (upper, tier.transceivers_upper)):
            assert number == sum(-(-links // each) for (kind, _), links in ends.items() if kind == tier.tier)


def test_paths_are_the_shortest_ones_of_the_climb(shape: Fabric, plan: Plan) -> None:
    one = joined(shape, 1)
    per_pod = (shape.t0s_per_pod or shape.t0s) * shape.hosts_per_t0

    def paths(far: int) -> tuple[int, int]:
        found = list(nx.all_shortest_paths(one, ("nic", 0), ("nic", far)))
        return len(found), len(found[0]) - 2

    assert paths(1) == (plan.reach.paths_same_t0_per_plane, 1)
    assert paths(shape.hosts - 1) == (plan.reach.paths_farthest_per_plane, plan.reach.longest_path_switches)
    in_pod = min(per_pod, shape.hosts) - 1
    if in_pod >= shape.hosts_per_t0:
        assert paths(in_pod) == (plan.reach.paths_same_pod_per_plane, 3)
    else:
        assert plan.reach.paths_same_pod is None
    whole = joined(shape, shape.planes)
    in_all = len(list(nx.all_shortest_paths(whole, ("nic", 0), ("nic", shape.hosts - 1))))
    assert plan.reach.paths_farthest == in_all


def test_one_hop(shape: Fabric, plan: Plan) -> None:
    one = joined(shape, 1)
    reached = {far for t0 in one[("nic", 0)] for far in one[t0] if isinstance(far, tuple) and far[0] == "nic"}
    assert plan.reach.one_hop_nics == len(reached)


def test_the_bisection_is_the_maximum_flow_between_the_halves(shape: Fabric, plan: Plan) -> None:
    found = there_and_back(shape)
    for nic in range(shape.hosts):
        near = nic < shape.hosts // 2
        found.add_edge(*((NICS, ("up", ("nic", nic))) if near else (("down", ("nic", nic)), FAR)))
    assert plan.reach.bisection_bps == nx.maximum_flow_value(found, NICS, FAR) * G


def broken(shape: Fabric, failure: str, each: dict[str, int]) -> tuple[Callable[[Cable], bool], list[int]]:
    """The cables that a failure takes, and the NICs affected according to the plan."""
    per_t0, per_pod = shape.hosts_per_t0, (shape.t0s_per_pod or shape.t0s) * shape.hosts_per_t0
    t0, t1, t2 = (Node(kind, 0, 0) for kind in ("t0", "t1", "t2"))

    def first(number: int) -> list[int]:
        return list(range(min(number, shape.hosts)))

    def down(node: Node, ports: int) -> Callable[[Cable], bool]:
        return lambda cable: cable.upper.node == node and cable.upper.port < ports

    def up(node: Node, ports: int, base: int) -> Callable[[Cable], bool]:
        return lambda cable: cable.lower.node == node and cable.lower.port < base + ports

    def ends(node: Node) -> Callable[[Cable], bool]:
        return lambda cable: node in (cable.lower.node, cable.upper.node)

    t1_down = shape.t0s_per_pod or shape.t0s
    nic_ports = min(each["nic"], shape.planes)
    return {
        "NIC-T0 link": (down(t0, 1), first(1)),
        "T0-T1 link": (up(t0, 1, per_t0), first(per_t0)),
        "T1-T2 link": (up(t1, 1, t1_down), first(per_pod)),
        "T0": (ends(t0), first(per_t0)),
        "T1": (ends(t1), first(per_pod)),
        "T2": (ends(t2), first(shape.hosts)),
        "plane": (lambda cable: cable.plane == 0, first(shape.hosts)),
        "NIC": (lambda cable: cable.tier == "nic" and nic_of(shape, cable) == 0, first(1)),
        "transceiver of a NIC": (
            lambda cable: cable.tier == "nic" and nic_of(shape, cable) == 0 and cable.plane < nic_ports,
            first(1),
        ),
        "transceiver of a T0, down": (down(t0, each["nic"]), first(min(each["nic"], per_t0))),
        "transceiver of a T0, up": (up(t0, each["t0"], per_t0), first(per_t0)),
        "transceiver of a T1, down": (down(t1, each["t0"]), first(min(each["t0"], t1_down) * per_t0)),
        "transceiver of a T1, up": (up(t1, each.get("t1", 1), t1_down), first(per_pod)),
        "transceiver of a T2": (down(t2, each.get("t1", 1)), first(min(each.get("t1", 1), shape.pods) * per_pod)),
    }[failure]


def test_capacity_lost_is_a_difference_of_maximum_flows(shape: Fabric, plan: Plan) -> None:
    each = {tier.tier: tier.links_per_transceiver for tier in plan.bill.link_tiers}
    whole = flow(climb(shape), range(shape.hosts))
    for impact in plan.impacts:
        gone, hit = broken(shape, impact.failure, each)
        assert impact.nics_affected == len(hit), impact.failure
        after = flow(climb(shape, gone), range(shape.hosts))
        assert impact.fabric_share_lost == pytest.approx((whole - after) / whole), impact.failure
        # For an affected NIC: capacity of its group alone, in the plane concerned and over all planes.
        before, left = flow(climb(shape), hit), flow(climb(shape, gone), hit)
        assert impact.nic_share_lost == pytest.approx((before - left) / before), impact.failure
        in_plane = [
            flow(climb(shape, lambda cable, gone=wrong: cable.plane != 0 or gone(cable)), hit)
            for wrong in (lambda _: False, gone)
        ]
        assert impact.plane_share_lost == pytest.approx(1 - in_plane[1] / in_plane[0]), impact.failure


def test_failures_of_every_tier_are_told(plan: Plan) -> None:
    names = [impact.failure for impact in plan.impacts]
    expected = {"NIC-T0 link", "T0-T1 link", "T0", "T1", "plane", "NIC", "transceiver of a T0, up"}
    if plan.tiers == 3:
        expected |= {"T1-T2 link", "T2", "transceiver of a T2"}
    assert expected <= set(names)
    assert len(names) == len(set(names))


def test_expected_failures_are_pieces_by_their_rate(plan: Plan) -> None:
    for impact in plan.impacts:  # 36.525 per year are a tenth per day
        if impact.failure.endswith("link"):
            assert impact.failures_per_day == pytest.approx(impact.pieces / 10)
        else:
            assert impact.failures_per_day is None
    assert plan.failures_per_day == pytest.approx(plan.bill.cables / 10)
