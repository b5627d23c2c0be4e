"""One scenario file in the simulator, over the emulated fabric and in the test bed: same goodput, same paths.

Tolerances: goodput around each fault within 10 % of the remaining limit; every path over the dead T1 or port is given
up and comes back within a second, and at most two healthy ones are suspected at the end of a fault, which losses beside
the dead ones may cause. Other programs on the machine cost goodput and never add any, so a real run that misses a
tolerance is repeated, three times in all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from openmrc.runs.environment import TestBedEnvironment
from openmrc.runs.records.fault_phases import phases
from openmrc.runs.scenario_outcome import Outcome, emulate, run_in, simulate
from openmrc.sim import load_scenario
from openmrc.testbed import TestBed

pytestmark = [pytest.mark.root, pytest.mark.alone, pytest.mark.timeout(240)]

SCENARIO = Path(__file__).resolve().parents[2] / "scenarios" / "three_environments.yaml"
SHORTER = {
    "fabric.rate": "25Mbit",  # a rate that a busy machine can carry, too
    "faults": ["t1 1 blackhole at 1s for 1s", "host 2 plane 3 blackhole at 3500ms for 800ms"],
    "duration": "5800ms",
}
DEAD_T1 = {(plane, 1) for plane in range(4)}
DEAD_PORT = {(3, t1) for t1 in range(4)}
TOLERANCE = 0.1
SUSPECTED_MAX = 2
ATTEMPTS = 3


@pytest.fixture(scope="module")
def outcomes(needs_namespaces: None) -> list[Outcome]:
    """The outcome in each place."""
    scenario = load_scenario(SCENARIO, SHORTER)
    with TestBed.up(scenario.fabric, f"t{os.getpid()}-places") as bed:
        in_bed = undisturbed(lambda: run_in(TestBedEnvironment(bed), "test bed", scenario))
    return [simulate(scenario), undisturbed(lambda: emulate(scenario)), in_bed]


def undisturbed(run: Callable[[], Outcome]) -> Outcome:
    """The first run without a problem, or the last attempt."""
    for _ in range(ATTEMPTS):
        outcome = run()
        if not [*goodput_problems(outcome), *path_problems(outcome)]:
            break
    return outcome


def goodput_problems(outcome: Outcome) -> Iterator[str]:
    """Goodput of both flows around both faults outside the expected limits: the first flow loses a plane."""
    for flow, left in zip(outcome.run.flows, (3 / 4, 1.0), strict=True):
        dead_t1, dead_port = phases(outcome.run, flow.placed)
        expected = (
            ("before the dead T1", dead_t1.before_gbps, 1.0),
            ("during the dead T1", dead_t1.during_gbps, 1.0),
            ("after the dead T1", dead_t1.after_gbps, 1.0),
            ("during the dead port", dead_port.during_gbps, left),
            ("after the dead port", dead_port.after_gbps, 1.0),
        )
        for when, gbps, share in expected:
            if gbps != pytest.approx(share * outcome.run.limit_gbps, rel=TOLERANCE):
                yield f"{outcome.place}, {flow.name}, {when}: {gbps} Gb/s of {share * outcome.run.limit_gbps}"


def path_problems(outcome: Outcome) -> Iterator[str]:
    """Paths that are wrongly under suspicion, or wrongly not."""
    for fault, dead in zip(outcome.run.faults, (DEAD_T1, DEAD_PORT), strict=True):
        before = outcome.bad_paths(fault.start_s)
        at_the_end = outcome.bad_paths(fault.end_s - 0.05)
        after = outcome.bad_paths(fault.end_s + 1.0)
        if before & dead:
            yield f"{outcome.place}: {before & dead} bad before {fault.text}"
        if dead - at_the_end:
            yield f"{outcome.place}: {dead - at_the_end} in use during {fault.text}"
        if len(at_the_end - dead) > SUSPECTED_MAX:
            yield f"{outcome.place}: {at_the_end - dead} bad during {fault.text}"
        if after & dead:
            yield f"{outcome.place}: {after & dead} bad a second after {fault.text}"


def test_contents_are_right_where_there_are_contents(outcomes: list[Outcome]):
    for outcome in outcomes[1:]:
        assert outcome.run.content_ok, outcome.place
        assert [flow.error for flow in outcome.run.flows] == [None, None], outcome.place


def test_every_place_has_the_same_flows_and_faults(outcomes: list[Outcome]):
    assert len({tuple(flow.name for flow in outcome.run.flows) for outcome in outcomes}) == 1
    assert len({outcome.run.faults for outcome in outcomes}) == 1


def test_goodput_before_during_and_after_each_fault_is_the_same_everywhere(outcomes: list[Outcome]):
    assert [problem for outcome in outcomes for problem in goodput_problems(outcome)] == []


def test_the_evs_of_dead_paths_are_given_up_and_come_back_everywhere(outcomes: list[Outcome]):
    assert [problem for outcome in outcomes for problem in path_problems(outcome)] == []


def test_the_tolerances_can_be_missed(outcomes: list[Outcome]):
    simulated = outcomes[0]
    assert list(path_problems(Outcome("nowhere", simulated.scenario, simulated.run, ())))
