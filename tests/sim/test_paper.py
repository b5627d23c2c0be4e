"""The paper's experiments in their quick versions: they reproduce the published results, and can contradict them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from openmrc.errors import ConfigError, OpenmrcError
from openmrc.paper import Experiment, Finding, Measure, experiments, run_experiments
from openmrc.paper.finding import find
from openmrc.paper.incast import SENDERS
from openmrc.paper.runs import simulate

NAN = float("nan")


def the(figure: str) -> Experiment:
    (found,) = experiments([figure])
    return found


def finding(figure: str) -> Finding:
    (outcome,) = run_experiments([the(figure)], quick=True, workers=1)
    return outcome.finding


@pytest.mark.parametrize("figure", ["D2", "9a", "9b", "9c", "9d", "10", "11", "12", "14"])
def test_published_results_of_links_and_paths_are_reproduced(figure: str) -> None:
    """Bandwidth, staircases and single EVs: the experiments without RoCE that take little time."""
    found = finding(figure)
    assert found.verdict == "as in the paper", found.we_see


@pytest.mark.parametrize("run", ["mrc", "mrc marked"])
def test_senders_of_an_incast_soon_share_its_receiver_evenly(run: str) -> None:
    """Also those whose short packets once found the path empty."""
    settings = {**the("18").runs(quick=False)[run], "duration": "10ms"}
    for seed in (1, 2, 3):
        result = simulate({**settings, "seed": seed})
        flows = result.flows
        late = flows["received_ps"] > 5e9
        got = np.array([flows["bytes"][late & (flows["host"] == sender)].sum() for sender in SENDERS], dtype=float)
        assert got.sum() ** 2 / (len(got) * np.square(got).sum()) >= 0.98, (seed, got)
        assert result.summary["retransmitted_share"] <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize("figure", ["5", "6", "20"])
def test_published_results_of_training_and_permutations_are_reproduced(figure: str) -> None:
    found = finding(figure)
    assert found.verdict == "as in the paper", found.we_see


@pytest.mark.parametrize("figure", ["9a", "9b", "10", "12"])
def test_without_the_fault_the_verdict_is_another(figure: str) -> None:
    """The verdicts depend on the runs: without a fault, no staircase and no EV that leaves is found."""
    experiment = the(figure)
    runs = {name: {**settings, "faults": []} for name, settings in experiment.runs(True).items()}
    results = {name: simulate(settings) for name, settings in runs.items()}
    assert experiment.judge(results, True).finding.verdict != "as in the paper"


def test_a_broken_transport_is_noticed() -> None:
    """With a small window the bandwidth of the point-to-point table is missed, and the finding gives the difference."""
    experiment = the("D2")
    runs = experiment.runs(True)
    slow = {"mrc": {"cc": {"max_cwnd_bytes": "20kB"}}}
    results = {name: simulate({**settings, "transports": slow}) for name, settings in runs.items()}
    found = experiment.judge(results, True).finding
    assert found.verdict == "partly"
    assert not found.numbers[0].met
    assert found.numbers[0].value < 700


def test_one_process_and_several_find_the_same() -> None:
    chosen = experiments(["10", "11"])
    alone = [outcome.finding for outcome in run_experiments(chosen, quick=True, workers=1)]
    together = [outcome.finding for outcome in run_experiments(chosen, quick=True, workers=2)]
    assert alone == together


def test_a_scenario_that_cannot_run_is_told_across_processes() -> None:
    """The simulating process's message reaches the caller, and the pool stays usable."""
    good = the("10")
    broken = replace(good, figure="x", runs=lambda _: {"one": {"fabric": {}}, "two": {"fabric": {}}})
    with pytest.raises(OpenmrcError, match="planes"):
        list(run_experiments([broken], quick=True, workers=2))


@pytest.mark.parametrize(
    ("value", "low", "high", "met"),
    [(1, None, None, True), (1, 1, 2, True), (0.9, 1, None, False), (2.1, None, 2, False), (NAN, 0, None, False)],
)
def test_a_measure_is_met_within_its_bounds(value: float, low: float | None, high: float | None, met: bool) -> None:
    assert Measure("x", value, low=low, high=high).met is met


def test_a_verdict_counts_judged_numbers_and_explains_differences_only() -> None:
    good = Measure("good", 1, low=0, why="never told")
    bad = Measure("bad", 1, high=0, why="too big")
    shown = Measure("shown", NAN)
    assert find("1", "t", "saw", [good, shown], "s").verdict == "as in the paper"
    assert find("1", "t", "saw", [bad, shown], "s").verdict == "differs"
    both = find("1", "t", "saw", [good, bad, shown], "s")
    assert both.verdict == "partly"
    assert both.why == "too big"


def test_a_finding_is_valid_json_even_with_a_number_that_is_none() -> None:
    found = find("1", "t", "saw", [Measure("x", NAN, low=1)], "s")
    (number,) = json.loads(json.dumps(found.as_json(), allow_nan=False))["numbers"]
    assert number["value"] is None
    assert number["met"] is False


def test_figures_are_found_by_number_and_group() -> None:
    assert [each.figure for each in experiments(["9"])] == ["9a", "9b", "9c", "9d"]
    assert [each.figure for each in experiments(["fig13", "12", "d2"])] == ["12/13", "D2"]
    with pytest.raises(ConfigError, match="FIGURE"):
        experiments(["99"])


def test_every_experiment_names_runs_that_are_scenarios_with_one_transport() -> None:
    from openmrc import sim

    for quick in (True, False):
        for experiment in experiments():
            for name, settings in experiment.runs(quick).items():
                scenario = sim.make_scenario(**settings)
                assert len(scenario.transports) == 1, (experiment.figure, name)


def test_the_same_experiment_gives_the_same_numbers() -> None:
    first, second = finding("11"), finding("11")
    assert first == second
