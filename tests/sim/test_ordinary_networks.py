"""Unequal planes without marks, simulated: the shipped scenarios, MRC's settings, every transport."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openmrc.fabric import Fabric
from openmrc.sim import load_scenario, make_scenario, run
from openmrc.sim.native_config import native_config
from openmrc.sim.scenario import Scenario

ORDINARY = sorted((Path(__file__).resolve().parents[2] / "scenarios" / "ordinary").glob("*.yaml"))
PLAIN: dict[str, Any] = {
    "hosts": 2,
    "hosts_per_t0": 1,
    "rate": {"nic": "10Gbit", "t0": "200Mbit"},
    "delay": "20us",
    "queue_bytes": "100kB",
    "priority": "off",
}
FLOW = {"source": 0, "destination": 1, "bytes": "64KiB", "count": 40, "parallel": 16}


def scenario_of(planes: Any, mrc: dict[str, Any] | None = None, **changes: Any) -> Scenario:
    return make_scenario(
        fabric=PLAIN | {"planes": planes} | changes,
        transports={"mrc": mrc or {}},
        workload={"name": "flows", "flows": [FLOW]},
        duration="10s",
    )


def signal(scenario: Scenario) -> Any:
    mrc = native_config(scenario, scenario.transports[0], 1).mrc
    assert mrc is not None
    return mrc.signal.name.lower()


@pytest.mark.parametrize("path", ORDINARY, ids=lambda path: path.stem)
def test_scenarios_that_ship_have_plain_switches_behind_faster_nics(path: Path) -> None:
    scenario = load_scenario(path)
    fabric: Fabric = scenario.fabric
    assert not fabric.marks
    assert not fabric.trims
    for plane in fabric.each_plane:
        assert not plane.priority
        assert plane.rates.nic > plane.rates.t0
    assert signal(scenario) == "delay"


def test_there_are_scenarios_that_ship() -> None:
    assert len(ORDINARY) > 15


@pytest.mark.parametrize(
    ("planes", "ecn", "told"),
    [
        (2, "on", "marks"),
        (2, "off", "delay"),
        ([{}, {"ecn": "off"}], "on", "discover"),
        ([{"ecn": "on"}], "off", "marks"),
    ],
)
def test_mrc_is_told_what_the_planes_do_unless_the_scenario_says_otherwise(planes: Any, ecn: str, told: str) -> None:
    assert signal(scenario_of(planes, ecn=ecn)) == told
    for said in ("marks", "delay", "discover"):
        assert signal(scenario_of(planes, {"signal": said}, ecn=ecn)) == said


def test_the_signal_is_among_the_settings_of_a_run_where_it_is_not_that_of_marks() -> None:
    told = scenario_of(2, ecn="off").effective()["transports"]["mrc"]
    assert told["signal"] == "delay"
    assert "signal" not in scenario_of(2).effective()["transports"]["mrc"]


def test_settings_that_came_later_change_no_hash_where_they_are_as_before() -> None:
    before = scenario_of(2, priority="on")
    assert {"unlike", "priority"}.isdisjoint(before.effective()["fabric"])
    assert len({before.hash, scenario_of(2).hash, scenario_of([{}, {"delay": "1ms"}]).hash}) == 3


@pytest.mark.parametrize("kind", ["mrc", "roce", "dctcp"])
def test_every_transport_crosses_planes_that_differ(kind: str) -> None:
    planes = [{}, {"rate": {"nic": "1Gbit", "t0": "50Mbit"}, "delay": "3ms"}, {"ecn": "off"}]
    made = make_scenario(
        fabric=PLAIN | {"planes": planes},
        transports=[kind],
        workload={"name": "flows", "flows": [FLOW]},
        duration="60s",
    )
    (one,) = run(made)
    assert one.summary["verdict"] == "done"


def test_a_slower_plane_carries_less() -> None:
    """The same messages take longer if one of two planes has a tenth of the rate."""
    simulated = {}
    for rate in ("200Mbit", "20Mbit"):
        (one,) = run(scenario_of([{}, {"rate": {"nic": "10Gbit", "t0": rate}}], ecn="off"))
        simulated[rate] = int(one.flows["received_ps"].max())
    assert simulated["20Mbit"] > simulated["200Mbit"]


def test_an_all_to_all_takes_little_longer_than_the_ideal_and_repeats_few_packets() -> None:
    (path,) = (path for path in ORDINARY if path.stem == "all_to_all_8")
    (one,) = run(load_scenario(path))
    assert one.summary["slowest_over_ideal"] is not None
    assert one.summary["slowest_over_ideal"] <= 1.10
    assert one.summary["retransmitted_share"] <= 0.01
