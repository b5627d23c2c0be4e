"""Plans of sweeps: values, paths, combinations, keys, the sweep file."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmrc.errors import ConfigError
from openmrc.sim.sweep.combinations import plan_runs, run_key
from openmrc.sim.sweep.paths import set_path
from openmrc.sim.sweep.values import expand_values

SCENARIO = {
    "fabric": {"planes": 4, "rate": "100G"},
    "transports": {"mrc": {"active_per_port": 32}, "roce": None},
    "faults": ["plane 0 down at 1us"],
}
HERE = Path()


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ([3, 1, 3, 2], [3, 1, 2]),
        ({"from": 1, "to": 4, "step": 1}, [1, 2, 3, 4]),
        ({"from": 0, "to": 0.3, "step": 0.1}, [0, 0.1, 0.2, 0.3]),
        ({"from": 5, "to": 1, "step": -2}, [5, 3, 1]),
        ({"from": "10us", "to": "35us", "step": "10us"}, ["10us", "20us", "30us"]),
        ({"from": "0.5%", "to": "1.5%", "step": "0.5%"}, ["0.5%", "1%", "1.5%"]),
        ({"log": {"from": 16, "to": 256, "factor": 2}}, [16, 32, 64, 128, 256]),
        ({"log": {"from": "64KiB", "to": "1024KiB", "factor": 4}}, ["64KiB", "256KiB", "1024KiB"]),
        ({"log": {"from": 1, "to": 1000, "points": 4}}, [1, 10, 100, 1000]),
        ({"log": {"from": 1e-05, "to": 0.1, "factor": 100}}, [1e-05, 0.001, 0.1]),
    ],
)
def test_values_of_the_sweep_notation(words, values):
    assert expand_values(words, "parameters.x") == values


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (4, r"a list.*\[4\]"),
        ("16", r"a list"),
        ([], "at least one value"),
        ({"from": 1, "to": 4}, r"parameters\.x\.step is None"),
        ({"from": 1, "to": 4, "setp": 1}, "did you mean 'step'"),
        ({"from": 1, "to": 4, "step": -1}, "leads from"),
        ({"from": 1, "to": 4, "step": 0}, "leads from"),
        ({"from": "1us", "to": "1ms", "step": "1us"}, "same unit"),
        ({"from": "a", "to": 4, "step": 1}, "a number"),
        ({"from": True, "to": 4, "step": 1}, "a number"),
        ({"from": 0, "to": 1, "step": 1e-9}, "at most"),
        ({"log": {"from": 0, "to": 4, "factor": 2}}, "0 < from"),
        ({"log": {"from": 1, "to": 4, "points": 1}}, "at least 2 points"),
        ({"log": [1, 2]}, "from, to, points"),
    ],
)
def test_wrong_values_are_named(words, message):
    with pytest.raises(ConfigError, match=message) as caught:
        expand_values(words, "parameters.x")
    assert caught.value.field.startswith("parameters.x")


def test_a_path_replaces_one_value_and_leaves_the_scenario_alone():
    changed = set_path(SCENARIO, "fabric.planes", 8)
    assert changed["fabric"] == {"planes": 8, "rate": "100G"}
    assert SCENARIO["fabric"]["planes"] == 4
    assert changed["transports"] is SCENARIO["transports"]
    assert set_path(SCENARIO, "transports.roce.qps", 16)["transports"]["roce"] == {"qps": 16}
    assert set_path(SCENARIO, "faults.0", "all loss 1%")["faults"] == ["all loss 1%"]


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("fabrik.planes", "'fabric.planes'"),
        ("transport.mrc.active_per_port", "'transports.mrc.active_per_port'"),
        ("planes.fabric", None),
        ("faults.3", None),
        ("fabric.rate.bps", None),
    ],
)
def test_a_path_that_leads_nowhere_is_named_with_near_ones(path, near):
    with pytest.raises(ConfigError) as caught:
        set_path(SCENARIO, path, 1)
    assert repr(path) in str(caught.value)
    assert near is None or near in (caught.value.hint or "")


def test_a_plan_has_every_combination_for_every_seed_and_transport():
    runs = plan_runs(SCENARIO, {"fabric.planes": [1, 2], "transports.roce.qps": [1, 8]}, [5, 6], None, HERE)
    rows = [(run.spec.seed, *run.parameters.values(), run.spec.transport) for run in runs]
    assert len(rows) == len(set(rows)) == 16
    assert rows[0] == (5, 1, 1, "mrc")
    assert [row[0] for row in rows] == [5] * 8 + [6] * 8
    for run in runs:
        assert run.spec.scenario["seed"] == run.spec.seed
        assert list(run.spec.scenario["transports"]) == [run.spec.transport]
        assert run.spec.scenario["fabric"]["planes"] == run.parameters["fabric.planes"]


def test_a_setting_of_another_transport_does_not_repeat_a_simulation():
    runs = plan_runs(SCENARIO, {"transports.roce.qps": [1, 8]}, [1], None, HERE)
    keys = {(run.spec.transport, run.parameters["transports.roce.qps"]): run.spec.key for run in runs}
    assert keys["mrc", 1] == keys["mrc", 8]
    assert keys["roce", 1] != keys["roce", 8]


def test_paths_separated_by_commas_vary_together():
    runs = plan_runs(SCENARIO, {"fabric.planes, fabric.rate": [[1, "800G"], [8, "100G"]]}, [1], ["mrc"], HERE)
    assert [run.parameters for run in runs] == [
        {"fabric.planes": 1, "fabric.rate": "800G"},
        {"fabric.planes": 8, "fabric.rate": "100G"},
    ]
    with pytest.raises(ConfigError, match="lists of 2 values"):
        plan_runs(SCENARIO, {"fabric.planes, fabric.rate": [[1, "800G"], 8]}, [1], None, HERE)


def test_a_transport_that_the_scenario_lacks_and_too_many_runs_are_refused():
    with pytest.raises(ConfigError, match="did you mean 'mrc'"):
        plan_runs(SCENARIO, {"fabric.planes": [1]}, [1], ["mcr"], HERE)
    with pytest.raises(ConfigError, match="at most 1,000,000 runs"):
        plan_runs(SCENARIO, {"fabric.planes": range(1000), "fabric.x": range(1001)}, [1], ["mrc"], HERE)


def test_the_key_depends_on_the_contents_of_named_files(tmp_path):
    (tmp_path / "pairs.csv").write_text("0,1,4096,0\n")
    scenario = {"workload": {"csv": "pairs.csv"}}
    before = run_key(scenario, tmp_path)
    assert run_key({"workload": {"csv": "pairs.csv"}}, tmp_path) == before
    (tmp_path / "pairs.csv").write_text("0,1,8192,0\n")
    assert run_key(scenario, tmp_path) != before
