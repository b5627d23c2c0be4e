"""Runs of small scenarios: contents of a result, repeatability, and a verdict for every run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openmrc import sim
from openmrc.errors import ConfigError
from openmrc.sim.memory_estimate import MemoryEstimate, check_memory, estimate_memory
from openmrc.sim.run import build_graph

FABRIC = {
    "planes": 2,
    "hosts": 8,
    "hosts_per_t0": 2,
    "t1s": 2,
    "rate": "100Gbit",
    "delay": "500ns",
    "trim": "on",
    "framing": "ipv4",
}
PERMUTATION = {"name": "permutation", "bytes": "500kB"}


def scenario(**values: Any) -> sim.Scenario:
    fabric = FABRIC | values.pop("fabric", {})
    return sim.make_scenario(**({"fabric": fabric, "workload": PERMUTATION} | values))


@pytest.mark.parametrize("transport", ["mrc", "roce", "dctcp"])
def test_a_permutation_ends_and_no_flow_beats_its_ideal(transport: str) -> None:
    result = sim.run(scenario(transports=[transport]))[transport]
    assert result.summary["verdict"] == "done"
    assert result.summary["flows_done"] == result.summary["flows"] == 8
    assert result.summary["received_bytes"] == 8 * 500_000
    assert result.summary["slowest_over_ideal"] >= 1.0
    flows = result.flows
    assert np.all(flows["ratio"] >= 1.0)
    assert np.all(flows["completed_ps"] > flows["received_ps"])
    assert np.array_equal(flows["fct_ps"], flows["received_ps"] - flows["started_ps"])
    assert result.summary["fct_p100_ps"] == flows["fct_ps"].max()


def test_the_same_name_gives_the_same_trace_and_another_seed_another() -> None:
    wanted = scenario(faults=["t0 0 t1 1 loss 5%"])
    first, again, other = sim.run(wanted), sim.run(wanted), sim.run(wanted, seed=2)
    assert first["mrc"].summary["trace"] == again["mrc"].summary["trace"]
    assert np.array_equal(first["mrc"].flows["received_ps"], again["mrc"].flows["received_ps"])
    assert first["mrc"].summary["trace"] != other["mrc"].summary["trace"]
    assert (first.scenario_hash, first.seed, other.seed) == (other.scenario_hash, 1, 2)


def test_threads_and_sampling_do_not_change_what_happens() -> None:
    plain = sim.run(scenario())
    threaded = sim.run(scenario(), threads=2)
    unwatched = sim.run(scenario(watch={"series": []}))
    assert len({each["mrc"].summary["trace"] for each in (plain, threaded, unwatched)}) == 1
    sampled = sim.run(scenario(sample="700ns", duration="10ms", watch={"hosts": "all"}))
    assert np.array_equal(sampled["mrc"].flows["received_ps"], plain["mrc"].flows["received_ps"])


def test_series_add_up_to_what_was_received() -> None:
    result = sim.run(scenario(sample="2us", watch={"hosts": "all"}))["mrc"]
    times = np.unique(result.series["series_goodput"]["time_ps"])
    spans = np.diff(times, prepend=0)
    total = (result.series["series_goodput"]["goodput_bps"] * spans).sum() / 8e12
    assert total == pytest.approx(8 * 500_000)
    hosts = result.series["series_hosts"]
    by_time = dict(zip(times.tolist(), spans.tolist(), strict=True))
    passed = np.array([by_time[time] for time in hosts["time_ps"].tolist()])
    assert (hosts["goodput_bps"] * passed).sum() / 8e12 == pytest.approx(8 * 500_000)
    assert set(result.series["series_planes"]["plane"].tolist()) == {0, 1}
    queues = result.series["series_queues"]
    assert result.summary["queue_peak_bytes"] == queues["peak_bytes"].max()
    assert {(tier, switch) for tier, switch in zip(queues["tier"], queues["switch"], strict=True)} == {
        ("t0", 0),
        ("t0", 1),
        ("t0", 2),
        ("t0", 3),
        ("t1", 0),
        ("t1", 1),
    }


def test_packets_lost_to_a_fault_are_counted_by_cause_and_over_time() -> None:
    result = sim.run(scenario(faults=["t0 0 t1 1 blackhole at 5us"]))["mrc"]
    lost = result.series["drops"]
    assert result.summary["verdict"] == "done"
    assert result.summary["drops"]["blackhole"] > 0
    assert set(lost["cause"].tolist()) == {"blackhole"}
    assert lost["packets"].sum() == result.summary["drops"]["blackhole"]
    assert lost["time_ps"].min() > 5 * 10**6
    assert result.series["path_events"].rows > 0


def test_a_run_that_cannot_finish_ends_with_a_verdict() -> None:
    cut = scenario(faults=["host 0 blackhole"], duration="2ms", transports=["mrc", "roce"])
    result = sim.run(cut)
    for each in result:
        assert each.summary["verdict"] in ("stalled", "failed", "time limit")
        assert each.summary["finish_ps"] is None
        assert each.summary["flows_done"] < 8
    assert {failure.metric for failure in result.unmet()} == {"verdict"}


def test_the_duration_is_a_limit() -> None:
    result = sim.run(scenario(duration="5us"))["mrc"]
    assert (result.summary["verdict"], result.summary["end_ps"]) == ("time limit", 5 * 10**6)
    assert np.all(result.flows["fct_ps"] == -1)
    assert np.all(np.isnan(result.flows["ratio"]))


def test_an_interrupt_leaves_a_partial_result(tmp_path: Path) -> None:
    def interrupt(moment: sim.Progress) -> None:
        if moment.now_ps > 10**7:
            raise KeyboardInterrupt

    result = sim.run(scenario(sample="1us", transports=["mrc", "roce"]), progress=interrupt)
    assert result.interrupted
    assert list(result.transports) == ["mrc"]
    assert result["mrc"].summary["verdict"] == "interrupted"
    assert 0 < result["mrc"].summary["received_bytes"] < 8 * 500_000
    assert sim.Result.load(result.save(tmp_path / "partial")).interrupted


def test_progress_goes_up_to_everything() -> None:
    moments: list[sim.Progress] = []
    sim.run(scenario(sample="2us"), progress=moments.append)
    assert moments[-1].share == 1.0
    assert [each.now_ps for each in moments] == sorted(each.now_ps for each in moments)
    assert moments[-1].packets > 0


def test_a_saved_run_is_read_back_as_it_was(tmp_path: Path) -> None:
    result = sim.run(scenario(transports=["mrc", "roce"], faults=["plane 0 down at 3us for 2us"]), command="try again")
    folder = result.save(tmp_path / "run")
    assert sorted(path.name for path in folder.iterdir()) == ["mrc", "roce", "settings.yaml", "summary.json"]
    loaded = sim.Result.load(folder)
    assert loaded.summary == json.loads(json.dumps(result.summary))
    assert loaded.settings["fabric"]["planes"] == 2
    for each in result:
        assert sorted(loaded[each.name].tables) == sorted(each.tables)
        for name, table in each.tables.items():
            assert all(
                np.array_equal(loaded[each.name].tables[name][key], table[key], equal_nan=key == "ratio")
                for key in table
            )


def test_saving_replaces_a_run_and_nothing_else(tmp_path: Path) -> None:
    both = sim.run(scenario(transports=["mrc", "roce"]))
    both.save(tmp_path / "run")
    sim.run(scenario()).save(tmp_path / "run")
    assert not (tmp_path / "run" / "roce").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="an earlier run"):
        both.save(tmp_path / "mine")
    with pytest.raises(ConfigError, match=r"summary\.json"):
        sim.Result.load(tmp_path / "mine")


def test_tables_come_as_numpy_arrow_and_polars() -> None:
    flows = sim.run(scenario(transports=["mrc", "dctcp"])).flows
    assert set(flows.numpy()["transport"].tolist()) == {"mrc", "dctcp"}
    assert flows.polars().height == flows.arrow().num_rows == flows.rows == 16
    with pytest.raises(ValueError, match="read-only"):
        flows["fct_ps"][0] = 1


def test_a_transport_is_found_by_its_name() -> None:
    result = sim.run(scenario(transports=["mrc", "roce"]), transport="roce")
    assert list(result.transports) == ["roce"]
    with pytest.raises(ConfigError, match="did you mean 'roce'"):
        result["rocce"]
    with pytest.raises(ConfigError, match="mrc, roce"):
        sim.run(scenario(transports=["mrc", "roce"]), transport="tcp")


def test_runs_beyond_memory_are_refused_with_the_estimate() -> None:
    wanted = scenario()
    estimate = estimate_memory(wanted, wanted.transports[0], build_graph(wanted))
    used = sim.run(wanted)["mrc"].summary["memory_bytes"]
    assert used / 2 < estimate.total_bytes < used * 4
    check_memory(estimate, estimate.total_bytes)
    with pytest.raises(ConfigError, match="an estimated") as caught:
        check_memory(MemoryEstimate(10**12, 0, 0, 0), 10**9)
    assert "931.323 GiB" in str(caught.value)
    check_memory(MemoryEstimate(10**12, 0, 0, 0), None)


TOPOLOGIES: dict[str, dict[str, Any]] = {
    "one plane": {"planes": 1},
    "three tiers": {"tiers": 3, "t0s_per_pod": 2, "t1_uplinks": 2},
    "sites": {"sites": 2, "site_link": {"delay": "50us", "t2s": 2}},
    "hash": {"routing": "hash"},
    "adaptive": {"routing": "adaptive"},
    "rates": {"rate": {"nic": "100Gbit", "t0": "200Gbit"}},
    "pfc": {"pfc": "on", "trim": "off"},
    "shared buffer": {"buffer_bytes": "1MiB", "alpha": 1},
    "nics": {"nics_per_host": 2},
    "srv6": {"framing": "srv6"},
}


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_every_kind_of_fabric_carries_a_permutation(name: str) -> None:
    summary = sim.run(scenario(fabric=TOPOLOGIES[name], duration="100ms"))["mrc"].summary
    assert summary["verdict"] == "done"
    assert 1.0 <= summary["slowest_over_ideal"] < 10.0


FAULTS = [
    "t0 1 t1 0..1 plane 0 down at 5us for 20us",
    "host 3 plane 0 blackhole at 5us",
    "t1 1 reboot at 5us for 20us",
    "plane 1 loss 1%",
    "t0 0 t1 1 loss 20% ev 3",
    "t0 0 rate 50%",
    {"random": {"links": "t0-t1", "flaps_per_minute": 6_000_000, "down_for": "5us", "until": "100us"}},
    {"random": {"links": "nic-t0", "flaps_per_minute": 1_000_000, "down_for": "5us", "until": "100us"}},
]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_mrc_survives_every_kind_of_fault(fault: Any) -> None:
    summary = sim.run(scenario(faults=[fault], duration="100ms"))["mrc"].summary
    assert summary["verdict"] == "done"
    assert summary["received_bytes"] == 8 * 500_000


SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
SMALL_BYTES = 2 * 10**9


def small_scenarios() -> list[Path]:
    paths = sorted(SCENARIOS.glob("*.yaml"))
    return [path for path in paths if build_graph(sim.load_scenario(path)).bytes.sum() <= SMALL_BYTES]


@pytest.mark.slow
@pytest.mark.parametrize("path", small_scenarios(), ids=lambda path: path.stem)
def test_scenarios_that_ship_keep_what_they_promise(path: Path) -> None:
    failures = sim.run(path).unmet()
    assert [str(failure) for failure in failures] == []
