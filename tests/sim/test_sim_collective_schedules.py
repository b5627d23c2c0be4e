"""The schedules of collectives can be simulated: same bytes between the same ranks, and they terminate."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from openmrc import sim
from openmrc.collectives.elements import ElementType
from openmrc.collectives.goal import goal_of
from openmrc.collectives.planner import ALGORITHMS, Request, schedule_of
from openmrc.collectives.schedule import StepKind
from openmrc.sim.files.goal_graph import load_goal

RANKS = 8
SITES = ((0, 1, 2, 3), (4, 5, 6, 7))
CASES = [
    (kind, algorithm, sizes)
    for kind, sizes in (
        ("all_reduce", (3 << 20,)),
        ("all_gather", (1 << 20, 8 << 20)),
        ("reduce_scatter", (8 << 20, 1 << 20)),
        ("broadcast", (1 << 20,)),
        ("reduce", (1 << 20,)),
    )
    for algorithm in ALGORITHMS[kind]
]


@pytest.mark.parametrize(("kind", "algorithm", "sizes"), CASES)
def test_a_collective_is_simulated_as_it_runs(kind: str, algorithm: str, sizes: tuple[int, ...], tmp_path: Path):
    schedules = [
        schedule_of(Request(kind, rank, RANKS, sizes, ElementType.FLOAT32, algorithm=algorithm, sites=SITES))
        for rank in range(RANKS)
    ]
    (tmp_path / "collective.goal").write_text(goal_of(schedules))
    graph, ranks = load_goal(tmp_path / "collective.goal")
    assert ranks == RANKS
    simulated: Counter[tuple[int, int]] = Counter()
    for op in graph.sends.tolist():
        simulated[int(graph.host[op]), int(graph.peer[op])] += int(graph.bytes[op])
    run: Counter[tuple[int, int]] = Counter()
    for rank, schedule in enumerate(schedules):
        for step in schedule.steps:
            if step.kind is StepKind.SEND:
                run[rank, step.peer] += step.bytes
    assert simulated == run


def simulated_ps(requests: list[Request], path: Path, duration: str, **fabric: object) -> int:
    """The time that a collective takes between two sites; every request is a host's."""
    path.write_text(goal_of([schedule_of(request) for request in requests]))
    scenario = sim.make_scenario(
        fabric={"planes": 1, "hosts": len(requests), "hosts_per_t0": len(requests) // 2, "delay": "1us", "sites": 2}
        | fabric,
        workload={"name": "goal", "file": str(path)},
        transports=[{"kind": "mrc"}],
        duration=duration,
    )
    (result,) = sim.run(scenario).transports.values()
    assert result.summary["verdict"] == "done"
    return int(result.summary["finish_ps"])


def test_between_far_sites_the_hierarchical_schedule_ends_first(tmp_path: Path):
    """The reason for the choice by shape."""
    finish = {}
    for algorithm in ("ring", "hierarchical"):
        requests = [
            Request("all_reduce", rank, RANKS, (4 << 20,), ElementType.FLOAT32, algorithm=algorithm, sites=SITES)
            for rank in range(RANKS)
        ]
        site_link = {"delay": "100us"}
        path = tmp_path / f"{algorithm}.goal"
        finish[algorithm] = simulated_ps(requests, path, "50ms", t1s=4, rate="100Gbit", site_link=site_link)
    assert finish["hierarchical"] < finish["ring"]


def test_the_turns_of_a_ring_fill_long_paths(tmp_path: Path):
    """As many as the paths hold are as good as all at once, and fewer are not."""
    finish = []
    for path_bytes in (1 << 40, 7_500_000, 0):
        requests = [
            Request("all_reduce", rank, 4, (32 << 20,), ElementType.FLOAT32, algorithm="ring", path_bytes=path_bytes)
            for rank in range(4)
        ]
        path = tmp_path / f"{path_bytes}.goal"
        finish.append(simulated_ps(requests, path, "5s", t1s=2, rate="1Gbit", site_link={"delay": "15ms"}))
    assert finish[0] == pytest.approx(finish[1], rel=0.01)
    assert finish[1] < 0.95 * finish[2]
