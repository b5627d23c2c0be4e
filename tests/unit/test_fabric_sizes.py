"""Sizes that follow from switch models, and messages with fitting numbers for impossible ones."""

from __future__ import annotations

from typing import Any

import pytest

from openmrc.errors import ConfigError
from openmrc.fabric import SWITCH_MODELS, Fabric, FabricFileError, make_fabric, switch_model

EIGHT_PLANES: dict[str, Any] = {"planes": 8, "rate": "100Gbit", "switch": "51.2T"}
ONE_PLANE: dict[str, Any] = {"planes": 1, "rate": "800Gbit", "switch": "51.2T"}
SMALL: dict[str, Any] = {"name": "small", "capacity": "10Tbit", "ports": 64}


def refused(**settings: Any) -> ConfigError:
    with pytest.raises(FabricFileError) as caught:
        make_fabric(**settings)
    (problem,) = caught.value.problems
    return problem


def sizes(fabric: Fabric) -> tuple[int, ...]:
    return fabric.hosts_per_t0, fabric.t0s, fabric.t1s, fabric.t0s_per_pod, fabric.pods, fabric.t1_uplinks, fabric.t2s


def test_two_tiers_of_the_paper_follow_from_planes_hosts_rate_and_switch() -> None:
    fabric = make_fabric(**EIGHT_PLANES, hosts=131_072)
    assert sizes(fabric) == (256, 512, 256, 0, 1, 0, 0)


def test_three_tiers_of_the_paper_follow_too() -> None:
    fabric = make_fabric(**ONE_PLANE, hosts=65_536, tiers=3)
    assert sizes(fabric) == (32, 2048, 32, 32, 64, 32, 1024)


def test_one_host_more_than_the_switches_join_is_refused_with_what_fits() -> None:
    two = refused(**EIGHT_PLANES, hosts=131_073)
    assert two.field == "switch"
    assert "513 T0s" in two.allowed
    assert two.hint == "tiers: 3, or at most 131072 hosts"
    three = refused(**ONE_PLANE, hosts=65_537, tiers=3)
    assert three.field == "hosts"
    assert "at most 65536" in three.allowed


def test_hosts_with_several_nics_share_the_ports() -> None:
    assert sizes(make_fabric(**EIGHT_PLANES, hosts=16_384, nics_per_host=8))[:3] == (256, 512, 256)
    seven = make_fabric(**EIGHT_PLANES, hosts=16_384, nics_per_host=7)
    assert seven.hosts_per_t0 % 7 == 0
    assert seven.hosts_per_t0 == seven.t1s <= 256


def test_fewer_hosts_than_ports_meet_in_equal_t0s() -> None:
    assert sizes(make_fabric(**EIGHT_PLANES, hosts=600))[:3] == (200, 3, 200)
    assert sizes(make_fabric(**EIGHT_PLANES, hosts=64))[:3] == (32, 2, 32)
    assert make_fabric(**EIGHT_PLANES, hosts=1).t0s == 1


def test_fast_uplinks_are_fewer() -> None:
    fabric = make_fabric(planes=8, hosts=5120, rate={"nic": "100Gbit", "t0": "400Gbit"}, switch="51.2T")
    assert sizes(fabric)[:3] == (256, 20, 64)


def test_oversubscription_takes_uplinks_for_hosts() -> None:
    assert sizes(make_fabric(**(EIGHT_PLANES | {"switch": SMALL}), hosts=960, oversubscription=3))[:3] == (48, 20, 16)


def test_written_numbers_win_and_are_checked() -> None:
    assert sizes(make_fabric(**EIGHT_PLANES, hosts=640, hosts_per_t0=64, t1s=32))[:3] == (64, 10, 32)
    assert sizes(make_fabric(**EIGHT_PLANES, hosts=640, hosts_per_t0=64))[:3] == (64, 10, 64)
    assert sizes(make_fabric(**EIGHT_PLANES, hosts=640, t1s=32))[:3] == (32, 20, 32)
    assert sizes(make_fabric(**EIGHT_PLANES, hosts=640, t0s=4))[:3] == (160, 4, 160)
    problem = refused(**EIGHT_PLANES, hosts=640, hosts_per_t0=300)
    assert "300 NICs and 300 uplinks, 51.2T has 512 ports of 100 Gb/s" in problem.allowed


def test_the_capacity_counts_where_rates_differ() -> None:
    rates = {"nic": "100Gbit", "t0": "800Gbit"}
    problem = refused(planes=1, hosts=64, hosts_per_t0=32, t1s=64, rate=rates, switch="51.2T")
    assert "32 NICs and 64 uplinks" in problem.allowed


def test_an_odd_radix_says_what_would_fit() -> None:
    problem = refused(**(EIGHT_PLANES | {"switch": SMALL | {"ports": 63}}), hosts=640)
    assert "31.5 ports down and 31.5 up" in problem.allowed
    assert problem.hint is not None
    assert "hosts_per_t0: 31 and t1s: 31" in problem.hint
    odd = SMALL | {"ports": 63}
    assert make_fabric(**(EIGHT_PLANES | {"switch": odd}), hosts=620, hosts_per_t0=31, t1s=31).t0s == 20
    pods = refused(planes=1, hosts=1024, tiers=3, rate="100Gbit", hosts_per_t0=32, switch={"t0": SMALL, "t1": odd})
    assert pods.hint is not None
    assert "t0s_per_pod: 31 and t1_uplinks: 31" in pods.hint


def test_uplinks_are_as_many_as_a_fabric_may_have_t1s() -> None:
    huge = {"name": "huge", "capacity": "1000Tbit", "ports": 20_000}
    assert refused(planes=1, hosts=20_000, rate="10Gbit", switch=huge).field == "t1s"


def test_radix_and_model_together_take_the_smaller() -> None:
    assert make_fabric(**EIGHT_PLANES, hosts=640, radix=64).hosts_per_t0 == 32


def test_a_switch_too_small_for_one_host_is_refused() -> None:
    problem = refused(planes=1, hosts=4, rate="800Gbit", switch={"name": "tiny", "capacity": "1Tbit", "ports": 64})
    assert (problem.field, problem.value) == ("switch", "tiny")


def test_pods_are_equal_or_refused_with_hosts_that_fill_them() -> None:
    fabric = make_fabric(**ONE_PLANE, hosts=20_000, tiers=3)
    assert fabric.pods * fabric.t0s_per_pod == fabric.t0s
    problem = refused(**ONE_PLANE, hosts=37 * 30, hosts_per_t0=30, tiers=3)
    assert problem.field == "hosts"
    assert problem.hint is not None
    assert "1140 hosts fill 2 pods of 19 T0s" in problem.hint
    assert make_fabric(**ONE_PLANE, hosts=1140, hosts_per_t0=30, tiers=3).pods == 2


def test_sites_share_hosts_evenly() -> None:
    fabric = make_fabric(**EIGHT_PLANES, hosts=640, sites=2, site_link={"delay": "1ms", "t2s": 4})
    assert sizes(fabric) == (160, 4, 160, 2, 2, 4, 640)


def test_a_model_may_differ_by_tier() -> None:
    settings = EIGHT_PLANES | {"switch": {"t0": "25.6T", "t1": SMALL}}
    fabric = make_fabric(**settings, hosts=8192)
    assert fabric.hosts_per_t0 == 128
    models = fabric.materials.switches
    assert [models[tier].name for tier in ("t0", "t1", "t2")] == ["25.6T", "small", "small"]
    assert refused(**settings, hosts=8193).field == "switch.t1"


@pytest.mark.parametrize(
    ("switch", "field"),
    [
        ("tomahwak5", "switch"),
        (3, "switch"),
        ({"t1": "51.2T"}, "switch.t0"),
        ({"t0": "51.2T", "ports": 64}, "switch.ports"),
        ({"name": "mine", "ports": 64}, "switch.capacity"),
        ({"t0": {"name": "mine", "ports": 64}}, "switch.t0.capacity"),
    ],
)
def test_a_switch_that_is_none_is_named(switch: object, field: str) -> None:
    assert refused(planes=2, hosts=8, rate="100Gbit", switch=switch).field == field


def test_an_unknown_model_lists_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match="did you mean 'tomahawk5'") as caught:
        switch_model("Tomahawk-5")
    assert all(name in caught.value.allowed for name in SWITCH_MODELS)


def test_ports_of_a_rate_are_bounded_by_capacity_and_count() -> None:
    model = switch_model("tomahawk5")
    assert [model.radix(gbit * 10**9) for gbit in (800, 400, 200, 100)] == [64, 128, 256, 256]
    assert switch_model("51.2T").radix(100 * 10**9) == 512


def test_without_a_switch_nothing_is_derived() -> None:
    assert sizes(make_fabric(planes=2, hosts=8, rate="100Gbit"))[:3] == (4, 2, 1)
