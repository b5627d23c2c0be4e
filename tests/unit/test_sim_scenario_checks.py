"""Expectations of a scenario: notation of bounds, and their violations by runs."""

from __future__ import annotations

import pytest

from openmrc.sim.checks import METRICS, parse_expectations, unmet

TRANSPORTS = ("mrc", "roce")
SUMMARY = {
    "verdict": "done",
    "finish_ps": 250 * 10**6,
    "slowest_over_ideal": 1.04,
    "goodput_bps": 2e11,
    "retransmitted_share": 0.02,
    "drops": {"queue": 3, "down": 4},
    "fct_p99_ps": None,
}


def failures(expect: object, **changes: object) -> list[str]:
    expectations, problems = parse_expectations(expect, TRANSPORTS)
    assert problems == []
    return [str(failure) for failure in unmet(tuple(expectations), {"mrc": SUMMARY | changes})]


@pytest.mark.parametrize(
    "expect",
    [
        {"slowest_over_ideal": "<= 1.05"},
        {"slowest_over_ideal": {"mrc": ["<= 1.05", "> 1.03"]}},
        {"slowest_over_ideal": {"roce": "<= 0.5"}},
        {"finish": "<= 250us"},
        {"goodput": ">= 200Gbit"},
        {"retransmitted_share": "== 2%"},
        {"drops": "== 7"},
        {"drops_queue": "<= 3"},
    ],
)
def test_bounds_that_hold(expect: object) -> None:
    assert failures(expect) == []


@pytest.mark.parametrize(
    ("expect", "words"),
    [
        ({"slowest_over_ideal": "< 1.04"}, "mrc: slowest_over_ideal is 1.04; expected < 1.04"),
        ({"finish": "< 250us"}, "mrc: finish is 250 us; expected < 250us"),
        ({"goodput": "> 1Tbit"}, "mrc: goodput is 200 Gb/s; expected > 1Tbit"),
        ({"retransmitted_share": "<= 1%"}, "mrc: retransmitted_share is 2%; expected <= 1%"),
        ({"drops": "== 0"}, "mrc: drops is 7; expected == 0"),
        ({"fct_p99": "<= 1s"}, "mrc: fct_p99 is unknown; expected <= 1s"),
    ],
)
def test_bounds_that_do_not_hold_say_what_was_found(expect: object, words: str) -> None:
    assert failures(expect) == [words]


def test_a_run_that_did_not_end_fails_unless_that_is_expected() -> None:
    assert failures({}, verdict="stalled") == ["mrc: verdict is stalled; expected done"]
    assert failures({"verdict": "stalled"}, verdict="stalled") == []
    assert failures({"verdict": "stalled"}) == ["mrc: verdict is done; expected stalled"]


@pytest.mark.parametrize(
    ("expect", "words"),
    [
        ("often", "figures with bounds"),
        ({"jane": ">= 1"}, "did you mean 'jain'"),
        ({"resent": "== 0"}, "did you mean 'retransmitted'"),
        ({"resent_share": "<= 1%"}, "did you mean 'retransmitted_share'"),
        ({"jain": {"mcr": ">= 1"}}, "did you mean 'mrc'"),
        ({"jain": 0.98}, "a bound such as"),
        ({"jain": ">= much"}, "a number"),
        ({"finish": "<= 5"}, "a unit is missing"),
        ({"verdict": "good"}, "time limit"),
    ],
)
def test_invalid_bounds_are_refused(expect: object, words: str) -> None:
    _, problems = parse_expectations(expect, TRANSPORTS)
    assert len(problems) == 1
    assert words in str(problems[0])


def test_every_metric_has_a_meaning_of_its_own() -> None:
    assert len({metric.meaning for metric in METRICS.values()}) == len(METRICS)
