"""The published arithmetic of the design, computed and not copied (paper notes, B)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from openmrc.fabric import load_fabric, make_fabric
from openmrc.fabric.materials import Materials, SwitchModel
from openmrc.plan import DEFAULT_SWITCH, Plan, plan_of, three_tier

G = 10**9


@pytest.fixture(scope="module")
def design() -> Plan:
    """Two tiers, 8 x 100G, 131,072 NICs, derived from the switch alone."""
    switch = SwitchModel("51.2T", 51_200 * G, 512)
    half = switch.radix(100 * G) // 2
    fabric = make_fabric(planes=8, hosts=half * switch.radix(100 * G), hosts_per_t0=half, t1s=half, rate="100G")
    return plan_of(replace(fabric, materials=Materials(switches={"t0": switch, "t1": switch}, transceiver_bps=800 * G)))


def lost(plan: Plan, failure: str) -> tuple[float, float]:
    """Of the plane and of the NIC."""
    one = next(one for one in plan.impacts if one.failure == failure)
    return one.plane_share_lost, one.nic_share_lost


def test_nics_and_switches(design: Plan) -> None:
    assert design.nics == 131_072
    t0, t1 = design.bill.switch_tiers
    assert (t0.switches_per_plane, t0.switches, t0.ports_down, t0.ports_up) == (512, 4096, 256, 256)
    assert (t1.switches_per_plane, t1.switches, t1.ports_down, t1.ports_up) == (256, 2048, 512, 0)
    assert design.bill.switches == 6144
    assert (t0.ports_free, t1.ports_free) == (0, 0)


def test_three_tiers_of_the_same_switch() -> None:
    other = three_tier(65_536, 800 * G, DEFAULT_SWITCH)
    assert (other.radix, other.one_hop_nics, other.pod_nics, other.full_nics) == (64, 32, 1024, 65_536)
    assert other.switches == other.full_switches == 5120
    assert other.full_nics // other.pod_nics == 64  # pods


def test_two_thirds_of_the_optics_and_three_fifths_of_the_switches(design: Plan) -> None:
    assert design.comparison.row("transceivers").ratio == pytest.approx(2 / 3)
    assert design.comparison.row("transceivers per NIC").ratio == pytest.approx(2 / 3)
    assert design.comparison.row("switches").ratio == pytest.approx(3 / 5)
    per_nic = design.comparison.row("switches per NIC")
    assert per_nic.ratio == pytest.approx(3 / 5)
    assert (round(per_nic.fabric, 4), round(per_nic.three_tier, 4)) == (0.0469, 0.0781)


def test_one_hop_and_longest_path(design: Plan) -> None:
    one_hop, longest = (
        design.comparison.row(name) for name in ("NICs reached through one switch", "switches on the longest path")
    )
    assert (one_hop.fabric, one_hop.three_tier) == (256, 32)
    assert (longest.fabric, longest.three_tier) == (3, 5)
    assert "7 switches" in " ".join(design.comparison.notes)  # three tiers end below 131,072


def test_fields_of_links(design: Plan) -> None:
    link = design.comparison.row("plane capacity lost by a T0-T1 link")
    assert round(100 * link.fabric, 1) == 0.4
    assert round(100 * link.three_tier) == 3
    assert lost(design, "T0-T1 link") == (1 / 256, pytest.approx(1 / 256 / 8))
    assert lost(design, "NIC-T0 link")[1] == 0.125
    four = plan_of(make_fabric(planes=4, hosts=64, hosts_per_t0=8, t1s=8, rate="200G"))
    assert lost(four, "NIC-T0 link")[1] == 0.25


def test_full_bisection_without_oversubscription(design: Plan) -> None:
    assert design.reach.bisection_bps == 131_072 // 2 * 800 * G
    assert design.reach.bisection_share == 1
    assert design.reach.oversubscription_t0 == 1


def test_paths(design: Plan) -> None:
    reach = design.reach
    assert (reach.paths_same_t0_per_plane, reach.paths_farthest_per_plane) == (1, 256)
    assert (reach.paths_same_t0, reach.paths_farthest) == (8, 2048)


@pytest.mark.parametrize("name", ["design-131072", "design-three-tier"])
def test_the_ready_files_say_the_same(repository: Path, name: str, design: Plan) -> None:
    plan = plan_of(load_fabric(repository / "fabrics" / f"{name}.yaml"))
    if name == "design-131072":
        assert (plan.bill, plan.reach, plan.impacts) == (design.bill, design.reach, design.impacts)
    else:  # otherwise the closed form of the baseline equals the fabric in the file
        assert plan.bill.pieces == three_tier(plan.nics, 800 * G, DEFAULT_SWITCH).pieces(frozenset())
        assert plan.reach.longest_path_switches == 5
        assert lost(plan, "T0-T1 link")[0] == 1 / 32
        assert plan.comparison.row("switches").ratio == 1
        assert plan.comparison.row("transceivers").ratio == 1
