"""A NIC's path file, generated profiles and probes against the plan's paths, over many shapes of fabrics."""

from __future__ import annotations

import random
from ipaddress import IPv6Address, IPv6Network
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openmrc.errors import ConfigError
from openmrc.fabric.address_blocks import AddressBlocks
from openmrc.fabric.cabling import Node, cables, switches
from openmrc.fabric.model import Shape
from openmrc.srv6.nic_paths import nic_paths
from openmrc.srv6.path_file import parse_nic_paths, render_nic_paths
from openmrc.srv6.paths import PathPlan, shifted
from openmrc.srv6.probes import probe_paths
from openmrc.srv6.profiles import EV_FORMAT, ev_rows
from openmrc.srv6.rules import COPIES_MAX, NicPaths
from openmrc.verbs.ev_format import generate_evs

BLOCKS = (
    AddressBlocks(),
    AddressBlocks(IPv6Network("2001:db8::/32"), IPv6Network("fdab:cdef::/32")),
)


@st.composite
def plans(draw):
    """Small fabrics of two and three tiers with odd counts everywhere."""
    nics_per_host = draw(st.integers(1, 3))
    hosts_per_t0 = nics_per_host * draw(st.integers(1, 3))
    tall = draw(st.booleans())
    shape = Shape(
        planes=draw(st.integers(1, 3)),
        hosts=nics_per_host * draw(st.integers(1, 9)),
        hosts_per_t0=hosts_per_t0,
        t1s=draw(st.integers(1, 5)),
        t0s_per_pod=draw(st.integers(1, 5)) if tall else 0,
        t1_uplinks=draw(st.integers(1, 3)) if tall else 0,
        nics_per_host=nics_per_host,
    )
    return PathPlan.of(shape, draw(st.sampled_from(BLOCKS)))


def assert_rules_make(plan: PathPlan, paths: NicPaths, source: int, destination: int) -> None:
    for port in paths.ports:
        for selector in port.selectors:
            path = plan.path(source, destination, port.plane, selector)
            assert paths.destination(plan.address(destination, port.plane), selector) == path.address


# proves C.2.1
@given(plans())
def test_every_pair_and_selector_gets_the_address_of_its_path(plan):
    for source in range(plan.shape.hosts):
        paths = nic_paths(plan, source)
        assert all(len(rule.copies) <= COPIES_MAX for rule in paths.rules)
        lengths = [rule.prefix.prefixlen for rule in paths.rules]
        assert lengths == sorted(lengths, reverse=True)
        for destination in range(plan.shape.hosts):
            assert_rules_make(plan, paths, source, destination)


BIG = (
    Shape(planes=8, hosts=131_072, hosts_per_t0=256, t1s=256),
    Shape(planes=4, hosts=65_536, hosts_per_t0=32, t1s=32, t0s_per_pod=32, t1_uplinks=32),
    Shape(planes=2, hosts=49_000, hosts_per_t0=35, t1s=40, t0s_per_pod=28, t1_uplinks=31),
)


@pytest.mark.parametrize("shape", BIG, ids=str)
def test_random_pairs_of_a_large_fabric(shape):
    plan, rng = PathPlan.of(shape, AddressBlocks()), random.Random(7)
    selectors = list(plan.selectors())
    for _ in range(20):
        source = rng.randrange(shape.hosts)
        paths = nic_paths(plan, source)
        far = rng.randrange(shape.hosts)
        near = source // shape.hosts_per_t0 * shape.hosts_per_t0 + rng.randrange(shape.hosts_per_t0)
        for destination in (far, near):
            plane, selector = rng.randrange(shape.planes), rng.choice(selectors)
            path = plan.path(source, destination, plane, selector)
            assert paths.destination(plan.address(destination, plane), selector) == path.address


def test_a_path_file_does_not_grow_with_the_fabric():
    for shape, rules in zip(BIG, (8 * 2, 4 * 3, None), strict=True):
        made = len(nic_paths(PathPlan.of(shape, AddressBlocks()), 1000).rules)
        assert rules is None or made == rules


@given(plans(), st.data())
def test_an_address_reads_back_as_its_path_and_shifts_along_it(plan, data):
    source, destination = (data.draw(st.integers(0, plan.shape.hosts - 1)) for _ in range(2))
    plane = data.draw(st.integers(0, plan.shape.planes - 1))
    selector = data.draw(st.sampled_from(list(plan.selectors())))
    path = plan.path(source, destination, plane, selector)
    read = plan.read(path.address, source)
    assert (read.plane, read.switches, read.nic) == (plane, path.switches, destination)
    assert read.down == destination % plan.shape.hosts_per_t0
    if read.selector is not None:
        assert plan.path(source, destination, plane, read.selector).address == path.address
    assert (read.selector is None) == (len(path.switches) == 1)
    left = shifted(path.address)
    assert [plan.read(address).switches for address in left] == [
        path.switches[passed:] for passed in range(1, len(path.switches) + 1)
    ]
    assert left[-1] == plan.receive_address(destination, plane)


@given(plans(), st.data())
def test_a_read_way_goes_along_cables(plan, data):
    """Any list of uSIDs that `read` accepts is a chain of cables, for any shape; others are refused by name."""
    nodes = list(switches(plan.shape))
    joined = {frozenset((cable.lower.node, cable.upper.node)) for cable in cables(plan.shape)}
    chosen = data.draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=5))
    plane, down = chosen[-1].plane, data.draw(st.integers(0, plan.shape.hosts_per_t0 - 1))
    usids = [plan.usids.of(node) for node in chosen] + [plan.usids.nic(plane, down)]
    value = sum(usid << 16 * (5 - place) for place, usid in enumerate(usids))
    address = IPv6Address(int(plan.blocks.usid.network_address) | value)
    chain = all(frozenset(pair) in joined for pair in pairwise(chosen))
    last = chosen[-1]
    there = last.kind == "t0" and last.index * plan.shape.hosts_per_t0 + down < plan.shape.hosts
    if chain and there:
        assert plan.read(address).switches == tuple(chosen)
    else:
        with pytest.raises(ConfigError, match="path address"):
            plan.read(address)


# proves C.2.3
@given(plans(), st.data())
def test_generated_profiles_expand_to_the_addresses_of_the_plan(plan, data):
    source, destination = (data.draw(st.integers(0, plan.shape.hosts - 1)) for _ in range(2))
    plane = data.draw(st.integers(0, plan.shape.planes - 1))
    rows = ev_rows(plan, source, destination, plane)
    expected = {plan.path(source, destination, plane, selector).address for selector in plan.selectors()}
    made = []
    for row in rows:
        generated = [IPv6Address(one[:16]) for one in generate_evs(EV_FORMAT, row.fields)]
        assert generated == [row.address(selector) for selector in row.selectors]
        assert generated == [plan.path(source, destination, plane, one).address for one in row.selectors]
        made += generated
    assert len(set(made)) == len(made)
    assert set(made) == expected
    assert len(rows) == 1 or plan.shape.tiers == 3


@given(plans(), st.data())
def test_the_ways_of_generated_addresses_are_their_selectors(plan, data):
    source, destination = (data.draw(st.integers(0, plan.shape.hosts - 1)) for _ in range(2))
    plane = data.draw(st.integers(0, plan.shape.planes - 1))
    paths = nic_paths(plan, source)
    t0 = Node("t0", destination // plan.shape.hosts_per_t0, plane)
    for to in (destination, t0):
        ways: list[tuple[int, int]] = []
        for row in ev_rows(plan, source, to, plane):
            addresses = [row.address(selector) for selector in row.selectors]
            ways += paths.ways(addresses)
            for address in addresses:
                for port, selector in paths.ways([address]):
                    assert plan.path(source, t0.index * plan.shape.hosts_per_t0, port, selector).switches == (
                        plan.read(address).switches
                    )
        assert sorted(ways) == [(plane, selector) for selector in sorted(plan.selectors())]


# proves C.5.1
@given(plans(), st.data())
def test_probes_come_back_over_every_uplink_once(plan, data):
    nic = data.draw(st.integers(0, plan.shape.hosts - 1))
    plane = data.draw(st.integers(0, plan.shape.planes - 1))
    probes = probe_paths(plan, nic, plane)
    own = Node("t0", nic // plan.shape.hosts_per_t0, plane)
    host = Node("host", nic // plan.shape.nics_per_host)
    t1s = {cable.upper.node for cable in cables(plan.shape) if cable.lower.node == own}
    wanted = {(host, own)} | {
        (cable.lower.node, cable.upper.node)
        for cable in cables(plan.shape)
        if cable.lower.node == own or (cable.tier == "t1" and cable.lower.node in t1s)
    }
    assert {probe.link for probe in probes} == wanted
    assert len(probes) == len(wanted)
    for probe in probes:
        read = plan.read(probe.address, nic)
        assert (read.nic, read.plane) == (nic, plane)
        assert probe.nodes == (host, *read.switches, host)
        assert probe.links[-1] == probe.link
        assert shifted(probe.address)[-1] == plan.receive_address(nic, plane)


@settings(max_examples=30)
@given(plans(), st.booleans(), st.data())
def test_a_path_file_is_read_as_it_was_written(plan, named, data):
    nic = data.draw(st.integers(0, plan.shape.hosts - 1))
    names = [f"eth{plane}" for plane in range(plan.shape.planes)] if named else []
    paths = nic_paths(plan, nic, names)
    assert parse_nic_paths(render_nic_paths(paths)) == paths
