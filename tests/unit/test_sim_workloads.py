"""Workloads: senders, receivers and sizes, named errors, and determinism by seed."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openmrc.config.yaml_document import read_yaml
from openmrc.errors import ConfigError
from openmrc.fabric import Fabric, make_fabric
from openmrc.fabric.errors import FabricFileError
from openmrc.sim.ops import COMPLETED, COMPUTE, RECEIVED, SEND, OpGraph
from openmrc.sim.workloads import WORKLOADS, build, parse_workload, workload_problems

DATA = Path(__file__).resolve().parents[2] / "scenarios" / "data"


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    return make_fabric(planes=2, hosts=32, hosts_per_t0=8, t1s=8, rate="100G", delay="1us")


def refusal(spec: Any, fabric: Fabric, **options: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        build(spec, fabric, 1, **options)
    return caught.value


def sent_and_received(graph: OpGraph, hosts: int) -> tuple[np.ndarray, np.ndarray]:
    sizes = graph.bytes.astype(np.int64)
    return np.bincount(graph.host, sizes, hosts), np.bincount(graph.peer, sizes, hosts)


def test_a_permutation_across_t0s_leaves_every_t0(fabric: Fabric) -> None:
    graph = build({"name": "permutation", "bytes": "2MB", "across_t0s": True}, fabric, 7)
    assert (graph.host // 8 != graph.peer // 8).all()
    assert sorted(graph.peer.tolist()) == list(range(32))


def test_a_permutation_of_131072_nics_calls_nothing_for_each_nic() -> None:
    class Large:
        hosts, hosts_per_t0, t0s_per_pod, line_rate_bps = 131_072, 64, 0, 8 * 10**11

    calls = Counter[str]()
    sys.setprofile(lambda frame, event, function: calls.update([event]))
    try:
        graph = build({"name": "permutation", "bytes": "1MiB", "across_t0s": True}, Large(), 1)
        graph.validate(131_072)
    finally:
        sys.setprofile(None)
    assert calls.total() < 131_072
    assert (graph.host // 64 != graph.peer // 64).all()


def test_messages_of_a_row_keep_their_gap_and_their_number_in_flight(fabric: Fabric) -> None:
    spec = {"name": "permutation", "bytes": 100, "count": 5, "gap": "2us", "parallel": 2, "hosts": [3, 9]}
    graph = build(spec, fabric, 1)
    assert sorted(graph.earliest_ps[graph.host == 3].tolist()) == [0, 2_000_000, 4_000_000, 6_000_000, 8_000_000]
    assert len(graph.dep_op) == 2 * 3
    assert (graph.step[graph.dep_op] - graph.step[graph.dep_on] == 2).all()
    assert (graph.dep_event == COMPLETED).all()


def test_an_incast_has_its_victim_beside_a_sender_and_beside_the_receiver(fabric: Fabric) -> None:
    graph = build({"name": "incast", "bytes": "1MB", "senders": 7, "victim": "auto", "victim_count": 3}, fabric, 1)
    victim = graph.job == graph.groups.index("incast/victim")
    assert (victim.sum(), (~victim).sum()) == (3, 7)
    assert set(graph.peer[~victim].tolist()) == {0}
    (source,), (destination,) = set(graph.host[victim].tolist()), set(graph.peer[victim].tolist())
    assert source // 8 in set((graph.host[~victim] // 8).tolist())
    assert source not in graph.host[~victim]
    assert (destination // 8, destination != 0) == (0, True)


def test_an_incast_without_room_for_a_victim_says_so(fabric: Fabric) -> None:
    error = refusal({"name": "incast", "bytes": 1, "senders": 8, "hosts": "0-15", "victim": "auto"}, fabric)
    assert error.field == "workload.victim"
    assert "no idle source beside a sender" in str(error)
    assert refusal({"name": "incast", "bytes": 1, "senders": 40}, fabric).field == "workload.senders"
    assert refusal({"name": "incast", "bytes": 1, "victim": [9, 40]}, fabric).field == "workload.victim"
    assert refusal({"name": "incast", "bytes": 1, "victim_bytes": 9}, fabric).field == "workload.victim"


def test_a_ring_all_reduce_forwards_on_receipt(fabric: Fabric) -> None:
    graph = build({"name": "all_reduce", "bytes": 3201, "chunks": 2}, fabric, 1)
    assert len(graph) == 2 * 31 * 2 * 32
    assert (graph.peer == (graph.host + 1) % 32).all()
    assert (graph.dep_event == RECEIVED).all()
    assert (graph.step[graph.dep_op] == graph.step[graph.dep_on] + 1).all()
    # 3,201 bytes make one segment of 101 and 31 of 100; every segment but one's own crosses each link twice.
    sent, _ = sent_and_received(graph, 32)
    assert set(sent.tolist()) <= {2 * 3201 - 200, 2 * 3201 - 201, 2 * 3201 - 202}


def test_tree_ranks_wait_for_their_children_and_their_parent(fabric: Fabric) -> None:
    graph = build({"name": "all_reduce", "bytes": 10, "algorithm": "tree", "hosts": "0-6"}, fabric, 1)
    edges = {
        (int(graph.host[on]), int(graph.host[op]), int(graph.peer[op]))
        for op, on in zip(graph.dep_op, graph.dep_on, strict=True)
    }
    assert {(3, 1, 0), (4, 1, 0), (5, 2, 0), (6, 2, 0)} <= edges  # up
    assert {(1, 0, 1), (2, 0, 1), (1, 0, 2), (2, 0, 2)} <= edges  # turned around at the root
    assert {(0, 1, 3), (0, 1, 4), (0, 2, 5), (0, 2, 6)} <= edges  # down
    assert len(edges) == 12


def test_halving_and_doubling_sends_what_a_ring_sends_in_fewer_steps(fabric: Fabric) -> None:
    graph = build({"name": "all_reduce", "bytes": 3200, "algorithm": "halving_doubling"}, fabric, 1)
    sent, received = sent_and_received(graph, 32)
    assert set(sent.tolist()) == set(received.tolist()) == {2 * 31 * 100}
    assert sum(1 for _ in graph.levels()) == 10
    assert set(graph.bytes[graph.step == 0].tolist()) == {1600}


def test_a_hierarchical_all_reduce_crosses_t0s_only_with_its_part(fabric: Fabric) -> None:
    graph = build({"name": "all_reduce", "bytes": 6400, "algorithm": "hierarchical", "inner": "t0"}, fabric, 1)
    away = (graph.kind == SEND) & (graph.host // 8 != graph.peer // 8)
    # A T0's 8 ranks carry 800 bytes each around a ring of 4 T0s, twice 3/4 of them.
    assert int(graph.bytes[away].sum()) == 32 * 2 * 3 * 200
    assert (graph.host[away] % 8 == graph.peer[away] % 8).all()
    sent, _ = sent_and_received(graph, 32)
    assert set(sent.tolist()) == {2 * 7 * 800 + 2 * 3 * 200}


def test_unsupported_requests_of_an_algorithm_are_named(fabric: Fabric) -> None:
    spec = {"name": "all_reduce", "bytes": 6400}
    assert "power of two" in str(refusal(spec | {"algorithm": "halving_doubling", "hosts": "0-11"}, fabric))
    assert refusal(spec | {"algorithm": "halving_doubling", "chunks": 2}, fabric).field == "workload.chunks"
    assert refusal(spec | {"algorithm": "hierarchical"}, fabric).field == "workload.inner"
    assert refusal(spec | {"algorithm": "hierarchical", "inner": 5}, fabric).field == "workload.inner"
    assert "order: t0" in str(refusal(spec | {"algorithm": "hierarchical", "inner": "t0", "order": "random"}, fabric))
    assert refusal(spec | {"inner": 4}, fabric).field == "workload.inner"
    assert refusal(spec | {"group_size": 5}, fabric).field == "workload.group_size"
    assert refusal(spec | {"bytes": 31}, fabric).field == "workload.bytes"


def test_all_to_all_sends_at_most_as_many_at_once_as_asked(fabric: Fabric) -> None:
    graph = build({"name": "all_to_all", "bytes": 100, "parallel": 3, "group_size": 8}, fabric, 1)
    assert len(graph) == 32 * 7
    assert (graph.host // 8 == graph.peer // 8).all()
    free = np.setdiff1d(np.arange(len(graph)), graph.dep_op)
    assert set(np.bincount(graph.host[free]).tolist()) == {3}
    assert len(build({"name": "all_to_all", "bytes": 100}, fabric, 1).dep_op) == 0


def test_neighbours_exchange_both_ways_and_wait_for_each_other(fabric: Fabric) -> None:
    graph = build({"name": "neighbours", "bytes": 10, "repeat": 3}, fabric, 1)
    sends = graph.kind == SEND
    assert sends.sum() == 3 * 2 * 32
    assert set(((graph.peer[sends].astype(int) - graph.host[sends]) % 32).tolist()) == {1, 31}
    assert sum(1 for _ in graph.levels()) == 5  # sends, marks, sends, marks, sends
    two = build({"name": "neighbours", "bytes": 10, "hosts": [0, 1]}, fabric, 1)
    assert len(two) == 2


def test_poisson_arrivals_make_the_load_that_was_asked_for(fabric: Fabric) -> None:
    spec = {"name": "poisson", "load": "40%", "sizes": "web_search.cdf", "duration": "50ms"}
    graph = build(spec, fabric, 5, folder=DATA)
    offered = int(graph.bytes.sum()) * 8 / 0.05
    assert abs(offered / (0.4 * 32 * 200e9) - 1) < 0.1
    assert (np.diff(graph.earliest_ps) >= 0).all()
    counted = build({"name": "poisson", "load": "40%", "bytes": 1000, "messages": 5000}, fabric, 5)
    assert len(counted) == 5000
    assert abs(int(counted.earliest_ps[-1]) / (5000 * 8000 * 1e12 / (0.4 * 32 * 200e9)) - 1) < 0.1


def test_poisson_wants_one_size_and_one_end(fabric: Fabric) -> None:
    spec = {"name": "poisson", "load": "40%"}
    assert refusal(spec | {"duration": "1ms"}, fabric).field == "workload.sizes"
    assert refusal(spec | {"bytes": 1}, fabric).field == "workload.duration"
    assert refusal(spec | {"bytes": 1, "duration": "1ms", "messages": 5}, fabric).field == "workload.duration"
    assert refusal(spec | {"bytes": "1GB", "duration": "1ps"}, fabric).field == "workload.duration"
    assert refusal(spec | {"bytes": 1, "duration": "1h"}, fabric).field == "workload.load"


def soonest_ends(graph: OpGraph, message_ps: int) -> np.ndarray:
    """End of every op if messages take `message_ps` to be received, and no time to be acknowledged."""
    ends = graph.earliest_ps.copy()
    for wave in graph.levels():
        for op in wave:
            before = graph.dep_on[graph.dep_op == op]
            took = message_ps if graph.kind[op] == SEND else graph.duration_ps[op]
            ends[op] = max(ends[before].max(initial=0), graph.earliest_ps[op]) + took
    return ends


@pytest.mark.parametrize(("overlap", "steps_us"), [(True, 10 + 20 + 3), (False, 10 + 40 + 3 + 3)])
def test_training_overlaps_buckets_with_the_backward_pass(fabric: Fabric, overlap: bool, steps_us: int) -> None:
    spec = {
        "name": "training",
        "bytes": 64,
        "forward": "10us",
        "backward": "20us" if overlap else "40us",
        "buckets": 2,
        "overlap": overlap,
        "barrier": False,
        "hosts": "0-1",
        "algorithm": "ring",
    }
    # Each bucket's ring of two ranks is two messages of 1.5 us, of which with overlap only the last bucket's add time.
    assert soonest_ends(build(spec, fabric, 1), 1_500_000).max() == steps_us * 1_000_000


def test_a_barrier_separates_the_steps_of_all_ranks(fabric: Fabric) -> None:
    spec = {"name": "training", "bytes": 64, "forward": "10us", "steps": 2, "group_size": 2, "hosts": "0-7"}
    graph = build(spec, fabric, 1)
    second = np.flatnonzero((graph.step == 1) & (graph.kind == COMPUTE) & (graph.duration_ps > 0))
    reached = np.zeros((len(graph), len(graph)), dtype=bool)
    for wave in graph.levels():
        for op in wave:
            for on in graph.dep_on[graph.dep_op == op]:
                reached[op] |= reached[on]
                reached[op, on] = True
    first = np.flatnonzero((graph.step == 0) & (graph.duration_ps > 0))
    assert len(first) == len(second) == 8
    assert reached[np.ix_(second, first)].all()


def test_jobs_run_side_by_side_at_their_own_hosts_and_times(fabric: Fabric) -> None:
    jobs = [
        {"name": "all_reduce", "bytes": 6400, "hosts": "0-7"},
        {"name": "permutation", "bytes": 10, "hosts": "8-31", "job": "noise", "start": "5us"},
    ]
    graph = build(jobs, fabric, 1)
    graph.validate(32)
    assert graph.groups == ("all_reduce", "noise")
    noise = graph.job == 1
    assert (graph.host[noise] >= 8).all()
    assert (graph.host[~noise] < 8).all()
    assert set(graph.earliest_ps[noise].tolist()) == {5_000_000}


def test_orders_of_ranks(fabric: Fabric) -> None:
    spec = {"name": "all_gather", "bytes": 6400, "hosts": [16, 0, 24, 8, 1, 17]}
    given = build(spec, fabric, 1)
    assert set(zip(given.host.tolist(), given.peer.tolist(), strict=True)) == {
        (16, 0), (0, 24), (24, 8), (8, 1), (1, 17), (17, 16)
    }  # fmt: skip
    sorted_hosts = build(spec | {"order": "t0"}, fabric, 1)
    assert (17, 24) in set(zip(sorted_hosts.host.tolist(), sorted_hosts.peer.tolist(), strict=True))
    one, two = (build(spec | {"order": "random"}, fabric, seed) for seed in (1, 2))
    assert one.host.tolist() != two.host.tolist()


RANDOM = [
    {"name": "permutation", "bytes": 10},
    {"name": "poisson", "load": "10%", "bytes": 1000, "messages": 50},
    {"name": "all_reduce", "bytes": 6400, "order": "random"},
]


@pytest.mark.parametrize("spec", RANDOM, ids=lambda spec: spec["name"])
def test_a_seed_determines_everything(spec: dict[str, Any], fabric: Fabric) -> None:
    def key(graph: OpGraph) -> list[Any]:
        return [array.tolist() for array in graph.native()]

    assert key(build(spec, fabric, 3)) == key(build(spec, fabric, 3))
    assert key(build(spec, fabric, 3)) != key(build(spec, fabric, 4))
    twins = build([spec, spec], fabric, 3)
    half = len(twins) // 2
    assert twins.peer[:half].tolist() != twins.peer[half:].tolist() or twins.host[:half].tolist() != (
        twins.host[half:].tolist()
    )


def test_files_are_found_from_their_folder_and_fit_the_job(fabric: Fabric) -> None:
    for name, file in (("matrix", "ring_all_reduce_8.cm"), ("goal", "broadcast_8.goal"), ("csv", "incast_8.csv")):
        graph = build({"name": name, "file": file, "hosts": "8-15"}, fabric, 1, folder=DATA)
        graph.validate(32)
        assert set(graph.host.tolist()) <= set(range(8, 16))
        error = refusal({"name": name, "file": file, "hosts": "0-6"}, fabric, folder=DATA)
        assert "for 8" in str(error)
    # An error inside a file names that file and its line, not the scenario.
    bad = Path(__file__).resolve().parents[1] / "golden" / "sim_files"
    assert refusal({"name": "matrix", "file": "self.cm"}, fabric, folder=bad).line == 4


MISTAKES = [
    ({"name": "permutaton", "bytes": 1}, "workload.name", "did you mean 'permutation'?"),
    ({"bytes": 1}, "workload.name", None),
    ({"name": "permutation", "bytse": 1}, "key", "did you mean 'bytes'?"),
    ({"name": "permutation", "bytes": "2 MBx"}, "workload.bytes", "did you mean 'MB'?"),
    ({"name": "permutation", "bytes": 0}, "workload.bytes", None),
    ({"name": "permutation", "bytes": 1, "order": "rendom"}, "workload.order", "did you mean 'random'?"),
    ({"name": "permutation", "bytes": 1, "hosts": "0-40"}, "workload.hosts", None),
    ({"name": "permutation", "bytes": 1, "hosts": "3,2-4"}, "workload.hosts", None),
    ({"name": "permutation", "bytes": 1, "hosts": []}, "workload.hosts", None),
    ({"name": "permutation", "bytes": 1, "hosts": 3}, "workload.hosts", None),
    ({"name": "permutation", "bytes": 1, "hosts": "0-8", "across_t0s": True}, "workload.across_t0s", "use more hosts"),
    ({"name": "permutation", "bytes": 1, "count": True}, "workload.count", None),
    ({"name": "flows", "flows": [{"source": 0, "destination": 32, "bytes": 1}]}, "workload.flows.0.destination", None),
    ({"name": "flows", "flows": [{"source": 5, "destination": 5, "bytes": 1}]}, "workload.flows.0.destination", None),
    ({"name": "flows", "flows": []}, "workload.flows", None),
    ({"name": "poisson", "load": "0%", "bytes": 1, "messages": 1}, "workload.load", None),
    ("permutation", "workload", None),
    ([], "workload", None),
]


@pytest.mark.parametrize(("spec", "field", "hint"), MISTAKES, ids=lambda value: str(value)[:40])
def test_mistakes_are_named(spec: Any, field: str, hint: str | None, fabric: Fabric) -> None:
    error = refusal(spec, fabric)
    assert error.field == field
    assert (error.hint or "").startswith(hint or "")


def test_problems_have_the_lines_of_the_file() -> None:
    text = "workload:\n  - name: permutation\n    bytes: 1\n  - name: incast\n    bytes: none\n    sender: 3\n"
    document = read_yaml(text, "s.yaml", "scenario file", "x: 1", FabricFileError)
    problems = workload_problems(document.values["workload"][1], document, ("workload", 1))
    assert [(problem.line, problem.field) for problem in problems] == [(5, "workload.1.bytes"), (6, "key")]
    assert problems[1].value == "workload.1.sender"


def test_checked_settings_can_be_built_again(fabric: Fabric) -> None:
    settings = parse_workload({"name": "all_to_all", "bytes": "100kB"})
    assert len(build(settings, fabric, 1)) == 32 * 31


def test_every_workload_is_documented() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "workloads.md").read_text()
    for name, workload in WORKLOADS.items():
        assert f"### {name}\n" in page
        for key in workload.settings.model_fields:
            assert f"`{key}`" in page, f"{name}: {key}"
