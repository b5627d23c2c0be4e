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


@pytest.mark.parametrize(("planes", "told"), [(2, (32, 4096)), ([{}, {"ecn": "off"}], (255, 65536))])
def test_the_receiver_is_as_of_a_connection_with_the_same_signal(planes: Any, told: tuple[int, int]) -> None:
    def of(scenario: Scenario) -> tuple[int, int]:
        mrc = native_config(scenario, scenario.transports[0], 1).mrc
        assert mrc is not None
        effective = scenario.effective()["transports"]["mrc"]
        assert (effective["mpr_units"], effective["sack_bytes"]) == (mrc.mpr_units, mrc.sack_bytes)
        return mrc.mpr_units, mrc.sack_bytes

    assert of(scenario_of(planes, ecn="on")) == told
    assert of(scenario_of(planes, {"mpr_units": 7, "sack_bytes": "8KiB"}, ecn="on")) == (7, 8192)


def test_late_reports_over_slow_planes_do_not_slow_the_fast_ones() -> None:
    """Seven planes, two of several Gb/s: reports that overtake each other once cost the start of the quickest."""
    drawn = (  # rate, FIFO and microseconds of round trip
        (41_774_816, 287_272, 224),
        (23_568_122, 76_254, 188),
        (7_944_550_770, 469_681, 47_087),
        (45_508_480, 2_765_169, 17_435),
        (338_159_757, 92_391, 43_119),
        (5_811_707_292, 445_927, 13_200),
        (58_733_038, 244_028, 2_223),
    )
    planes = [
        {
            "rate": {"nic": "10Gbit", "t0": f"{rate}bit"},
            "queue_bytes": fifo_bytes,
            "delay": f"{round_trip_us * 1000 // 8}ns",
        }
        for rate, fifo_bytes, round_trip_us in drawn
    ]
    flow = {"source": 0, "destination": 1, "bytes": "256KiB", "count": 700, "parallel": 16}
    scenario = make_scenario(
        fabric=PLAIN | {"planes": planes, "t1s": 1, "ecn": "off", "nic_queue_bytes": "4MB", "framing_bytes": 14},
        payload_mtu=1408,
        transports=["mrc"],
        workload={"name": "flows", "flows": [flow]},
        duration="10s",
        seed=26,
    )
    (one,) = run(scenario)
    assert one.summary["verdict"] == "done"
    # The quickest plane alone carries this much of so little posted data, as its round trip is 13 ms.
    assert 700 * 256 * 1024 * 8 / int(one.flows["received_ps"].max()) * 1e12 > 2.47e9
