"""Searches for fabrics: designs that can be wired, the same numbers as plans, and correct reasons."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmrc.errors import ConfigError
from openmrc.fabric import make_fabric
from openmrc.fabric.materials import Materials, SwitchModel
from openmrc.plan import DEFAULT_SWITCH, Search, SearchQuery, plan_of, search
from openmrc.plan.search import Design, numbers_of

G = 10**9
QUERY = SearchQuery(gpus=20_000, planes=(1, 2, 4, 8), tiers=(2, 3), nic_bps=800 * G, switch=DEFAULT_SWITCH)


def reason(found: Search, planes: int, tiers: int) -> str:
    return next(one.reason for one in found.infeasible if (one.planes, one.tiers) == (planes, tiers))


def test_every_combination_is_a_design_or_has_a_reason() -> None:
    found = search(QUERY)
    designs = {(one.planes, one.tiers) for one in found.designs}
    others = {(one.planes, one.tiers) for one in found.infeasible}
    assert designs | others == {(planes, tiers) for planes in QUERY.planes for tiers in QUERY.tiers}
    assert not designs & others
    assert designs == {(4, 2), (8, 2), (1, 3), (2, 3), (4, 3)}


def test_reasons_say_how_far_a_fabric_reaches() -> None:
    found = search(QUERY)
    assert "2 tiers of 128 ports of 400 Gb/s reach 8,192 NICs" in reason(found, 2, 2)
    assert "79 T0s fit in one pod of 256" in reason(found, 8, 3)
    assert "too few to divide" in reason(search(replace(QUERY, switch=SwitchModel("small", 800 * G, 8))), 1, 2)


def test_radix_bounds_the_ports_that_capacity_would_allow() -> None:
    narrow = search(replace(QUERY, gpus=2048, switch=replace(DEFAULT_SWITCH, ports_max=64)))
    assert {one.ports_per_switch for one in narrow.designs} == {64}
    assert search(replace(QUERY, gpus=2049, tiers=(2,), switch=replace(DEFAULT_SWITCH, ports_max=64))).designs == ()


@pytest.mark.parametrize(
    ("planes", "values"),
    [
        (8, {"hosts": 131_072, "hosts_per_t0": 256, "t1s": 256, "rate": "100G"}),
        (1, {"hosts": 65_536, "hosts_per_t0": 32, "t1s": 32, "rate": "800G", "tiers": 3, "t0s_per_pod": 32}),
    ],
)
def test_a_design_is_the_fabric_that_the_plan_counts(planes: int, values: dict[str, object]) -> None:
    tiers = values.get("tiers", 2)
    one = search(replace(QUERY, gpus=values["hosts"], planes=(planes,), tiers=(tiers,))).designs[0]
    fabric = make_fabric(planes=planes, delay="1us", **values)
    plan = plan_of(replace(fabric, materials=Materials(transceiver_bps=800 * G)))
    assert (one.t0s, one.t1s, one.t2s) == tuple(plan.bill.pieces.get(kind, 0) for kind in ("t0", "t1", "t2"))
    assert (one.cables, one.transceivers) == (plan.bill.cables, plan.bill.transceivers)
    assert one.paths_per_plane == plan.reach.paths_farthest_per_plane
    assert one.longest_path_switches == plan.reach.longest_path_switches
    link = next(impact for impact in plan.impacts if impact.failure == "T0-T1 link")
    assert one.t0_t1_link_lost_plane_share == link.plane_share_lost


def fits(query: SearchQuery, one: Design) -> None:
    """Checks that a design can be wired with its switches and has the required capacity."""
    t0s, t1s, t2s = (number // one.planes for number in (one.t0s, one.t1s, one.t2s))
    assert (t0s * one.planes, t1s * one.planes, t2s * one.planes) == (one.t0s, one.t1s, one.t2s)
    assert t0s * one.nics_per_t0 >= query.gpus > (t0s - 1) * one.nics_per_t0
    assert one.nics_per_t0 + one.uplinks_per_t0 <= one.ports_per_switch
    if one.tiers == 1:
        assert (t0s, t1s, t2s) == (1, 0, 0)
        return
    assert one.nics_per_t0 <= query.oversubscription * one.uplinks_per_t0
    assert one.uplinks_per_t0 * one.pods == t1s * one.parallel_t0_t1  # of a T0, to all T1s of its pod
    pod_t0s = -(-t0s // one.pods)
    down = pod_t0s * one.parallel_t0_t1
    if one.tiers == 2:
        assert one.pods == 1
        assert down <= one.ports_per_switch
        return
    up, rest = divmod(t2s * one.parallel_t1_t2 * one.pods, t1s)
    assert rest == 0
    assert up >= down  # non-blocking above the T0s
    assert down + up <= one.ports_per_switch
    assert one.pods * one.parallel_t1_t2 <= one.ports_per_switch


@given(
    gpus=st.integers(2, 300_000),
    planes=st.sampled_from([1, 2, 4, 8]),
    tiers=st.sampled_from([2, 3]),
    ports=st.integers(2, 600),
    oversubscription=st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(2), Fraction(7, 3)]),
)
def test_designs_can_be_wired(gpus: int, planes: int, tiers: int, ports: int, oversubscription: Fraction) -> None:
    query = replace(
        QUERY,
        gpus=gpus,
        planes=(planes,),
        tiers=(tiers,),
        switch=replace(DEFAULT_SWITCH, ports_max=ports),
        oversubscription=oversubscription,
    )
    for one in search(query).designs:
        fits(query, one)
        assert one.nics_at_most >= gpus


def test_designs_are_sorted_by_the_requested_key() -> None:
    priced = replace(
        QUERY, prices={"t0": 1.0, "t1": 100.0, "t2": 100.0}, powers_watts={"t0": 1.0, "t1": 0.0, "t2": 0.0}
    )
    for sort, key in (
        ("switches", lambda one: one.switches),
        ("cost", lambda one: one.cost.total),
        ("power", lambda one: one.power.total),
    ):
        values = [key(one) for one in search(replace(priced, sort=sort)).designs]
        assert values == sorted(values)
    by_power = search(replace(priced, sort="power")).designs[0]
    assert (by_power.planes, by_power.tiers) == (1, 3)  # the fewest T0s, regardless of the others
    assert by_power.cost is not None
    assert by_power.cost.without == ("nic", "transceiver", "fiber_cable")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"planes": (3,)}, "--planes is 3.*2 planes is a whole rate"),
        ({"planes": (0,)}, "--planes is 0"),
        ({"tiers": (4,)}, "--tiers is 4"),
        ({"gpus": 1}, "--gpus is 1"),
        ({"oversubscription": Fraction(0)}, "--oversubscription"),
        ({"sort": "cost"}, "together with prices"),
        ({"sort": "power"}, "together with powers"),
    ],
)
def test_wishes_out_of_range_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        search(replace(QUERY, **change))


def test_lists_of_numbers() -> None:
    assert numbers_of("2, 4,2", "--planes") == (2, 4)
    for text in ("", "2,", "a", "-1", "²"):
        with pytest.raises(ConfigError, match="--planes"):
            numbers_of(text, "--planes")
