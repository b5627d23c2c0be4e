"""Costs, powers and messages about missing data; models, transceivers and addresses that do not fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openmrc.errors import ConfigError
from openmrc.fabric import Fabric, make_fabric
from openmrc.fabric.materials import Materials, SwitchModel
from openmrc.plan import plan_of, plan_record

G = 10**9


@pytest.fixture
def pod() -> Fabric:
    """Two planes; in each four T0s with two NICs and two uplinks, and two T1s."""
    return make_fabric(planes=2, hosts=8, hosts_per_t0=2, t1s=2, rate="100G", delay="1us")


def test_totals_add_up_what_the_tables_have_and_name_what_they_lack(pod: Fabric) -> None:
    tables = Materials(
        prices={"t0": 100.0, "nic": 10.0, "copper_cable": 5.0}, powers_watts={"t0": 1, "t1": 2, "nic": 3}
    )
    plan = plan_of(replace(pod, materials=replace(tables, copper=frozenset({"nic"}), currency="EUR")))
    assert plan.bill.pieces == {
        "nic": 8,
        "t0": 8,
        "t1": 4,
        "transceiver": 2 * 16,
        "fiber_cable": 16,
        "copper_cable": 16,
    }
    assert plan.cost is not None
    assert (plan.cost.unit, plan.cost.total) == ("EUR", 8 * 100 + 8 * 10 + 16 * 5)
    assert plan.cost.per_nic == plan.cost.total / 8
    assert plan.cost.without == ("t1", "transceiver", "fiber_cable")
    assert plan.power is not None
    assert plan.power.total == 8 * 1 + 4 * 2 + 8 * 3
    assert plan.power.without == ("transceiver", "fiber_cable", "copper_cable")


def test_a_price_of_nothing_is_a_price(pod: Fabric) -> None:
    prices = dict.fromkeys(("t0", "t1", "nic", "transceiver", "fiber_cable"), 0.0)
    plan = plan_of(replace(pod, materials=Materials(prices=prices)))
    assert plan.cost is not None
    assert plan.cost.without == ()
    assert plan.cost.total == 0


def test_without_tables_there_are_no_totals(pod: Fabric) -> None:
    plan = plan_of(pod)
    assert (plan.cost, plan.power, plan.failures_per_day) == (None, None, None)
    assert plan_record(plan)["cost"] is None


def test_costs_stand_beside_each_other_only_when_both_are_whole(pod: Fabric) -> None:
    prices = {"t0": 100.0, "t1": 50.0, "nic": 0.0, "transceiver": 1.0, "fiber_cable": 0.0}
    known = plan_of(replace(pod, materials=Materials(prices=prices, transceiver_bps=200 * G)))
    row = known.comparison.row("cost, USD")
    other = known.comparison.three_tier
    # Every switch of the other fabric is the T0's; its transceivers are the same, one for each end of three links.
    assert row.three_tier == 100 * other.switches + 8 * 3 * 2
    assert row.fabric == 8 * 100 + 4 * 50 + known.bill.transceivers
    unknown = plan_of(replace(pod, materials=Materials(prices=prices)))  # transceivers of 100G do not help at 200G
    with pytest.raises(KeyError):
        unknown.comparison.row("cost, USD")
    assert any("No comparison of cost" in note and "transceiver" in note for note in unknown.comparison.notes)
    half = plan_of(replace(pod, materials=Materials(prices={"t0": 100.0, "nic": 1.0})))  # T1s count there, not here
    assert any("No comparison of cost" in note and "some switches" in note for note in half.comparison.notes)
    both = plan_of(replace(pod, materials=Materials(prices={"nic": 1.0})))
    assert both.comparison.row("cost, USD").ratio == 1


def test_ports_left_over_are_counted_by_number_and_by_capacity(pod: Fabric) -> None:
    def free(model: SwitchModel) -> list[int | None]:
        switches = {"t0": model, "t1": model}
        return [
            tier.ports_free for tier in plan_of(replace(pod, materials=Materials(switches=switches))).bill.switch_tiers
        ]

    assert free(SwitchModel("by number", 10_000 * G, 6)) == [8 * 2, 4 * 2]
    assert free(SwitchModel("by capacity", 500 * G, 64)) == [8 * 1, 4 * 1]
    assert [tier.ports_free for tier in plan_of(pod).bill.switch_tiers] == [None, None]


@pytest.mark.parametrize("model", [SwitchModel("few ports", 1000 * G, 3), SwitchModel("slow", 300 * G, 64)])
def test_a_switch_model_without_enough_ports_is_refused(pod: Fabric, model: SwitchModel) -> None:
    with pytest.raises(ConfigError, match="2 x 100 Gb/s down and 2 x 100 Gb/s up"):
        plan_of(replace(pod, materials=Materials(switches={"t0": model})))


def test_a_transceiver_slower_than_its_link_is_refused_unless_the_tier_is_copper(pod: Fabric) -> None:
    slow = Materials(transceiver_bps=50 * G)
    with pytest.raises(ConfigError, match="transceiver is '50 Gb/s'"):
        plan_of(replace(pod, materials=slow))
    assert plan_of(replace(pod, materials=replace(slow, copper=frozenset({"nic", "t0"})))).bill.transceivers == 0


def test_more_switches_than_usids_are_a_warning_and_the_rest_is_planned() -> None:
    fabric = make_fabric(planes=16, hosts=2**18, hosts_per_t0=128, t1s=128, rate="100G", delay="1us")
    plan = plan_of(fabric)
    assert plan.addresses is None
    assert len(plan.warnings) == 1
    assert plan.warnings[0].startswith("no address plan and no switch configuration: T0s is '15 bits")
    assert plan.bill.switches == 16 * (2048 + 128)


def test_the_address_plan_is_that_of_the_usid_allocation(pod: Fabric) -> None:
    addresses = plan_of(pod).addresses
    assert addresses is not None
    assert (addresses.selector_bits, addresses.selectors, addresses.plane_bits) == (1, 2, 1)
    assert [(one.kind, one.nodes, one.first_usid, one.last_usid) for one in addresses.usids] == [
        ("T0", 8, "4000", "4007"),
        ("T1", 4, "8000", "8003"),
        ("NIC port", 4, "e000", "e003"),
    ]
    example = addresses.example
    assert example.switches == ("p1-t0-0", "p1-t1-1", "p1-t0-3")
    assert example.destination_address == "fcbb:bb00:4004:8003:4007:e003::"
    assert example.destination_receive_address == "fcbb:bb00:e003::"
    assert example.destination_own_address == "fd00:6d72:1:3:1::1"
