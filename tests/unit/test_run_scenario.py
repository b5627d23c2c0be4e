"""A scenario file as a run between real processes: supported and refused parts, and its simulated form."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmrc.connection import QpSettings
from openmrc.errors import ConfigError
from openmrc.runs.records.fault_phases import phases
from openmrc.runs.scenario_outcome import outcome_table, simulate
from openmrc.runs.scenario_plan import plan_of
from openmrc.sim import load_scenario
from openmrc.sim.scenario_file import make_scenario

THREE_PLACES = Path(__file__).resolve().parents[2] / "scenarios" / "three_environments.yaml"
FABRIC = {"planes": 2, "hosts": 4, "hosts_per_t0": 2, "t1s": 2, "rate": "50Mbit", "delay": "100us"}
FLOW = {"source": 0, "destination": 2, "bytes": "10MB"}


def scenario(**changes):
    return make_scenario(**{"fabric": FABRIC, "workload": {"name": "flows", "flows": [FLOW]}, **changes})


def test_fabric_flows_faults_seed_and_length_carry_over():
    plan = plan_of(load_scenario(THREE_PLACES))
    assert (plan.planes, plan.t1s, plan.rate_bps, plan.seconds) == (4, 4, 50_000_000, 9.0)
    assert plan.pairs() == [(0, 2), (1, 3)]
    assert plan.participants() == [0, 1, 2, 3]
    assert plan.faults == ("t1 1 blackhole at 2s for 2s", "plane 3 host 2 blackhole at 6s for 1s")
    assert plan.fabric().hosts_per_t0 == 2
    assert QpSettings(**plan.connection_settings()).active_per_port == 4


def test_a_flow_ends_after_its_bytes_and_hosts_without_a_flow_take_no_part():
    plan = plan_of(scenario())
    assert plan.participants() == [0, 2]
    shape = plan.stream_shape(0)
    assert shape["messages"] * shape["message_bytes"] >= 10_000_000 > (shape["messages"] - 1) * shape["message_bytes"]


def test_rows_of_one_pair_are_one_flow():
    assert plan_of(scenario(workload={"name": "incast", "senders": 2, "bytes": "1MB", "count": 3})).flow_bytes == (
        3_000_000,
        3_000_000,
    )


def test_random_flaps_are_drawn_as_in_the_simulation():
    flaps = {"links": "t0-t1", "flaps_per_minute": 600, "down_for": "10ms", "until": "1s"}
    plan = plan_of(scenario(faults=[{"random": flaps}]))
    assert plan.faults
    assert all(" down at " in fault for fault in plan.faults)


def test_settings_of_the_transport_become_settings_of_the_connection():
    plan = plan_of(scenario(transports={"mine": {"kind": "mrc", "probe_interval": "5ms", "ev_selector": "reps"}}))
    settings = QpSettings(**plan.connection_settings())
    assert (settings.probe_interval_us, settings.ev_selector) == (5000, "reps")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"transports": ["roce"]}, "one of kind mrc"),
        ({"workload": {"name": "all_reduce", "bytes": "1MB"}}, "flows that all begin at once"),
        ({"workload": {"name": "flows", "flows": [{**FLOW, "start": "1s"}]}}, "flows that all begin at once"),
        ({"nic": {"lanes": 2}}, "lanes"),
        ({"payload_mtu": 1000}, "payload_mtu"),
        ({"transports": {"mrc": {"dynamic_mpr": True}}}, "transports.dynamic_mpr"),
    ],
)
def test_features_of_simulations_alone_are_refused_in_a_sentence(changes, words):
    with pytest.raises(ConfigError, match="real processes") as caught:
        plan_of(scenario(**changes))
    assert words in str(caught.value)


def test_the_simulated_outcome_has_the_form_of_a_real_one():
    faults = ["t1 1 blackhole at 300ms for 500ms"]
    flow = {**FLOW, "bytes": "1GB"}
    evs = {"mrc": {"active_per_port": 2, "universe_per_port": 2}}
    outcome = simulate(
        scenario(workload={"name": "flows", "flows": [flow]}, faults=faults, transports=evs, duration="2200ms")
    )
    assert [one.name for one in outcome.run.flows] == ["host0 → host2"]
    assert outcome.run.placed.at(2.2) == pytest.approx(outcome.run.limit_gbps * 2.2e9 / 8, rel=0.1)
    (phase,) = phases(outcome.run)
    assert phase.during_gbps == pytest.approx(phase.before_gbps, rel=0.05)
    assert outcome.lost_paths(0.3, 0.8) == {(0, 1), (1, 1)}
    assert outcome.bad_paths(0.79) == {(0, 1), (1, 1)}
    assert outcome.bad_paths(0.29) == outcome.bad_paths(2.2) == set()
    assert outcome_table([outcome]).row_count == 2
