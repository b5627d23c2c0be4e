"""Sweeps of the real simulator: the table agrees with single runs."""

from __future__ import annotations

import polars as pl
import pytest

from openmrc import sim
from openmrc.errors import ConfigError
from openmrc.sim.run import run
from openmrc.sim.sweep import Sweep, load_sweep

FABRIC = {"planes": 2, "hosts": 8, "hosts_per_t0": 4, "t1s": 2, "rate": "100G", "delay": "1us", "trim": "on"}
SCENARIO = {
    "fabric": FABRIC,
    "transports": ["mrc", "roce"],
    "workload": {"name": "permutation", "bytes": "64KiB"},
    "faults": ["t0 0 t1 0 plane 0 loss 5%"],
}


def test_the_table_says_what_single_runs_say(tmp_path):
    sweep = Sweep(
        SCENARIO, {"fabric.planes": [1, 2], "transports.mrc.active_per_port": [4, 8]}, seeds=[3], out=tmp_path
    )
    frame = sweep.run(workers=2)
    assert frame.height == 8
    assert set(frame["error"]) == {""}
    for row in frame.iter_rows(named=True):
        fabric = {**FABRIC, "planes": row["fabric.planes"]}
        transports = {"mrc": {"active_per_port": row["transports.mrc.active_per_port"]}, "roce": {}}
        scenario = sim.make_scenario(**{**SCENARIO, "fabric": fabric, "transports": transports, "seed": 3})
        summary = run(scenario, transport=row["transport"])[row["transport"]].summary
        for name in (
            "verdict",
            "finish_ps",
            "fct_p50_ps",
            "fct_p99_ps",
            "slowest_over_ideal",
            "retransmitted_share",
            "trace",
        ):
            assert row[name] == summary[name], name
        assert row["drops_loss"] == summary["drops"]["loss"]
        assert row["drops"] == sum(summary["drops"].values())
    roce = frame.filter(pl.col("transport") == "roce")
    assert roce["run"].n_unique() == 2  # a setting of MRC does not repeat RoCE's runs


@pytest.mark.slow
def test_seeds_matter_and_workers_do_not(tmp_path):
    frames = [
        Sweep(SCENARIO, {"workload.bytes": ["16KiB", "64KiB"]}, seeds=[1, 2], out=tmp_path / str(workers)).run(workers)
        for workers in (1, 3)
    ]
    aside = ["wall_s", "setup_s", "packets_per_second", "commit"]  # properties of the machine and the checkout
    assert frames[0].drop(aside).equals(frames[1].drop(aside))
    mrc = frames[0].filter(pl.col("transport") == "mrc")
    assert mrc["trace"].n_unique() == 4


def test_values_that_do_not_go_together_are_rows_with_the_reason(tmp_path):
    workload = {"name": "incast", "senders": 3, "bytes": "16KiB"}
    scenario = {**SCENARIO, "workload": workload, "transports": "mrc"}
    frame = Sweep(scenario, {"workload.senders": [3, 50]}, out=tmp_path).run(workers=1)
    assert frame["error"][0] == ""
    assert frame["error"][1].startswith("ConfigError: ")
    assert "50" in frame["error"][1]


def test_a_path_may_lead_into_the_fabric_file(tmp_path):
    (tmp_path / "clos.yaml").write_text("planes: 1\nhosts: 4\nhosts_per_t0: 2\nrate: 100G\ndelay: 1us\n")
    (tmp_path / "ring.yaml").write_text("fabric: clos.yaml\nworkload: {name: permutation, bytes: 4KiB}\n")
    (tmp_path / "sweep.yaml").write_text("scenario: ring.yaml\nparameters: {fabric.planes: [1, 4]}\nseeds: 2\n")
    frame = load_sweep(tmp_path / "sweep.yaml", tmp_path / "out").run(workers=2)
    assert frame.select("fabric.planes", "seed").rows() == [(1, 1), (4, 1), (1, 2), (4, 2)]
    assert frame["evs"].to_list() == [frame["evs"][0], 4 * frame["evs"][0]] * 2
    assert set(frame["verdict"]) == {"done"}


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"transports.mrc.active_per_prot": [4]}, "did you mean 'active_per_port'"),
        ({"transports.mrc.evs_per_port": [4]}, "did you mean 'active_per_port'"),
        ({"transports.mcr.active_per_port": [4]}, "did you mean 'transports.mrc.active_per_port'"),
        ({"fabrik.planes": [4]}, "did you mean 'fabric.planes'"),
        ({"fabric.planes": [400]}, r"parameters\.fabric\.planes is 400; allowed: 1 to 16"),
        ({"fabric.planes": [2], "seeed": [1]}, "did you mean 'seed'"),
    ],
)
def test_parameters_that_name_nothing_are_refused_before_anything_runs(tmp_path, parameters, words):
    with pytest.raises(ConfigError, match=words):
        Sweep(SCENARIO, parameters, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
