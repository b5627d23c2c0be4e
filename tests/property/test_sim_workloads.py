"""Every workload sends the theoretical amount, and every op can start, for all sizes, groups and orders."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from openmrc.errors import ConfigError
from openmrc.fabric import Fabric, make_fabric
from openmrc.sim.ops import COMPLETED, RECEIVED, SEND, OpGraph
from openmrc.sim.workloads import WORKLOADS, build, workload_problems

HOSTS = 24
FABRIC: Fabric = make_fabric(planes=2, hosts=HOSTS, hosts_per_t0=4, t1s=4, rate="100G", delay="1us")

SIZES = st.integers(1, 1_000_000)
SEEDS = st.integers(0, 2**32)
ORDERS = st.sampled_from(["given", "t0", "random"])
GROUPS = st.lists(st.integers(0, HOSTS - 1), min_size=2, max_size=HOSTS, unique=True)


def built(seed: int, **spec: Any) -> OpGraph:
    """The graph, after a check of the common invariants."""
    graph = build(spec, FABRIC, seed)
    graph.validate(HOSTS)
    assert sum(len(wave) for wave in graph.levels()) == len(graph)
    members = set(graph.host.tolist()) | set(graph.peer.tolist())
    assert members <= set(spec.get("hosts") or range(HOSTS))
    return graph


def sums(graph: OpGraph, hosts: list[int]) -> tuple[list[int], list[int]]:
    """Bytes sent and received by each of the hosts."""
    sizes = graph.bytes.astype(np.int64)
    sent, received = (np.bincount(end, sizes, HOSTS).astype(int) for end in (graph.host, graph.peer))
    return sent[hosts].tolist(), received[hosts].tolist()


@given(SEEDS, GROUPS, SIZES, st.integers(1, 4), st.integers(0, 3))
def test_a_permutation_is_one(seed: int, hosts: list[int], size: int, count: int, parallel: int) -> None:
    graph = built(seed, name="permutation", bytes=size, hosts=hosts, count=count, parallel=parallel)
    assert sums(graph, hosts) == ([count * size] * len(hosts),) * 2
    assert len({*zip(graph.host.tolist(), graph.peer.tolist(), strict=True)}) == len(hosts)


@given(SEEDS, GROUPS)
def test_a_permutation_across_t0s_is_refused_or_is_one(seed: int, hosts: list[int]) -> None:
    largest = max(np.bincount(np.array(hosts) // 4))
    try:
        graph = built(seed, name="permutation", bytes=1, hosts=hosts, across_t0s=True)
    except ConfigError:
        assert 2 * largest > len(hosts)
        return
    assert 2 * largest <= len(hosts)
    assert (graph.host // 4 != graph.peer // 4).all()
    assert sorted(graph.peer.tolist()) == sorted(hosts)


@given(SEEDS, GROUPS, st.integers(1, 30), st.integers(0, 30), SIZES)
def test_an_incast_ends_at_its_receiver(seed: int, hosts: list[int], senders: int, receiver: int, size: int) -> None:
    spec = {"name": "incast", "bytes": size, "senders": senders, "receiver": receiver, "hosts": hosts}
    if receiver >= len(hosts) or senders >= len(hosts):
        return
    graph = built(seed, **spec)
    assert len(set(graph.host.tolist())) == senders
    assert set(graph.peer.tolist()) == {hosts[receiver]}
    near = graph.host // 4 == hosts[receiver] // 4
    assert not near.any() or (~near).sum() == sum(host // 4 != hosts[receiver] // 4 for host in hosts)


def ring_bytes(size: int, count: int, rank_gap: int) -> list[int]:
    """Bytes that every rank sends in one round of a ring: all segments but the one at `rank_gap` behind it."""
    segments = [size // count + (i < size % count) for i in range(count)]
    return [size - segments[(rank + rank_gap) % count] for rank in range(count)]


@given(
    SEEDS,
    GROUPS,
    st.integers(1, 4),
    st.integers(0, 100_000),
    st.sampled_from(["all_reduce", "all_gather", "reduce_scatter"]),
)
def test_a_ring_sends_every_segment_but_one(seed: int, hosts: list[int], chunks: int, extra: int, name: str) -> None:
    n = len(hosts)
    size = n * chunks + extra
    graph = built(seed, name=name, bytes=size, hosts=hosts, chunks=chunks)
    reduce, gather = ring_bytes(size, n, 0), ring_bytes(size, n, 1)
    expected = {
        "all_reduce": [a + b for a, b in zip(reduce, gather, strict=True)],
        "all_gather": gather,
        "reduce_scatter": reduce,
    }[name]
    sent, received = sums(graph, hosts)
    assert sent == expected
    assert received == [expected[rank - 1] for rank in range(n)]


@given(SEEDS, st.integers(1, 4), st.integers(0, 100_000), st.permutations(range(HOSTS)))
def test_halving_and_doubling_gives_everybody_everything(seed: int, depth: int, extra: int, order: list[int]) -> None:
    hosts = order[: 2**depth]
    size = 2**depth + extra
    graph = built(seed, name="all_reduce", algorithm="halving_doubling", bytes=size, hosts=hosts)
    sent, received = sums(graph, hosts)
    # Reducing, all ranks but one send every byte once; gathering, they receive it once.
    assert sum(sent) == sum(received) == 2 * size * (2**depth - 1)
    # A rank sends all but its part, and receives all but its part.
    halved = np.bincount(graph.host[graph.step < depth], graph.bytes[graph.step < depth].astype(float), HOSTS)
    doubled = np.bincount(graph.peer[graph.step >= depth], graph.bytes[graph.step >= depth].astype(float), HOSTS)
    assert halved.tolist() == doubled.tolist()


@given(SEEDS, GROUPS, st.integers(1, 5), st.integers(0, 100_000))
def test_a_tree_moves_the_buffer_over_every_edge_twice(seed: int, hosts: list[int], chunks: int, extra: int) -> None:
    size = chunks + extra
    graph = built(seed, name="all_reduce", algorithm="tree", bytes=size, chunks=chunks, hosts=hosts)
    n = len(hosts)
    degree = [sum(child < n for child in (2 * i + 1, 2 * i + 2)) + (i > 0) for i in range(n)]
    assert sums(graph, hosts) == ([size * d for d in degree],) * 2


@given(SEEDS, st.integers(2, 6), st.integers(1, 4), st.integers(1, 3), st.integers(0, 1000), st.integers(1, 2))
def test_a_hierarchy_sends_as_much_as_its_rings(
    seed: int, inner: int, outer: int, chunks: int, extra: int, repeat: int
) -> None:
    n = inner * outer
    hosts = list(range(n))
    size = n * chunks * inner + extra
    spec = {"name": "all_reduce", "algorithm": "hierarchical", "inner": inner, "chunks": chunks, "repeat": repeat}
    graph = built(seed, bytes=size, hosts=hosts, **spec)
    # Inside, every byte leaves all but one of an area's ranks twice; across, all but one of the areas twice.
    assert int(graph.bytes.sum()) == repeat * 2 * size * (outer * (inner - 1) + (outer - 1))


@given(SEEDS, st.sampled_from([2, 3, 4, 6, 8, 12, 24]), st.integers(0, 5), SIZES, st.integers(1, 2), ORDERS)
def test_all_to_all_reaches_every_pair_of_a_group(
    seed: int, group: int, parallel: int, size: int, repeat: int, order: str
) -> None:
    spec = {"bytes": size, "group_size": group, "parallel": parallel, "repeat": repeat, "order": order}
    graph = built(seed, name="all_to_all", **spec)
    sends = graph.kind == SEND
    pairs, counts = np.unique(np.stack([graph.host, graph.peer])[:, sends], axis=1, return_counts=True)
    assert pairs.shape[1] == HOSTS * (group - 1)
    assert set(counts.tolist()) == {repeat}


@given(SEEDS, GROUPS, SIZES, st.integers(1, 3), st.sampled_from(["next", "both"]))
def test_neighbours_send_to_their_neighbours(seed: int, hosts: list[int], size: int, repeat: int, way: str) -> None:
    graph = built(seed, name="neighbours", bytes=size, hosts=hosts, repeat=repeat, direction=way)
    each = repeat * size * (2 if way == "both" and len(hosts) > 2 else 1)
    assert sums(graph, hosts) == ([each] * len(hosts),) * 2


@given(
    SEEDS,
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([2, 4, 8, 24]),
    st.sampled_from(["ring", "tree", "halving_doubling"]),
    st.booleans(),
    st.booleans(),
)
def test_training_moves_every_gradient_in_every_step(
    seed: int, steps: int, buckets: int, group: int, algorithm: str, overlap: bool, barrier: bool
) -> None:
    if algorithm == "halving_doubling" and group == 24:
        return
    spec = {"steps": steps, "buckets": buckets, "group_size": group, "algorithm": algorithm, "overlap": overlap}
    graph = built(seed, name="training", bytes=10_000, forward="1us", backward="2us", barrier=barrier, **spec)
    rounds = (HOSTS - 1).bit_length()
    meeting = 64 * HOSTS * rounds if barrier else 0
    assert int(graph.bytes.sum()) == steps * (2 * 10_000 * (group - 1) * (HOSTS // group) + meeting)
    assert int(graph.duration_ps.sum()) == steps * HOSTS * 3_000_000
    assert set(graph.step.tolist()) == set(range(steps))
    # No op of a step starts at a host before its previous step is done: only ops of the first step are free.
    free = np.setdiff1d(np.arange(len(graph)), graph.dep_op)
    assert set(graph.step[free].tolist()) == {0}


@given(SEEDS, st.integers(1, 100), SIZES, st.integers(1, 300))
def test_poisson_messages_go_from_one_to_another(seed: int, load: int, size: int, messages: int) -> None:
    graph = built(seed, name="poisson", load=f"{load}%", bytes=size, messages=messages)
    assert len(graph) == messages
    assert (graph.bytes == size).all()


@given(SEEDS, st.lists(st.sampled_from(["permutation", "all_gather", "all_to_all"]), min_size=1, max_size=4))
def test_jobs_stay_apart(seed: int, names: list[str]) -> None:
    graph = build([{"name": name, "bytes": 1000} for name in names], FABRIC, seed)
    graph.validate(HOSTS)
    assert graph.groups == tuple(names)
    assert (graph.job[graph.dep_op] == graph.job[graph.dep_on]).all()
    assert set(graph.dep_event.tolist()) <= {COMPLETED, RECEIVED}


NAMES = {key for each in WORKLOADS.values() for key in each.settings.model_fields}
KEYS = st.sampled_from([*sorted(NAMES), "byte"])
WORDS = st.sampled_from(["1us", "2MB", "ring", "auto", "0-3", "50%", "t0", "random"])
LISTS = st.lists(st.integers(-1, 40), max_size=3)
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | LISTS | WORDS


@given(st.sampled_from(sorted(WORKLOADS)), st.dictionaries(KEYS, VALUES, max_size=5))
def test_whatever_is_written_is_a_graph_or_a_named_mistake(name: str, settings: dict[str, Any]) -> None:
    spec = {"bytes": 1000, **settings, "name": name}
    for key in (
        "count",
        "repeat",
        "steps",
        "messages",
        "duration",
        "chunks",
        "buckets",
    ):  # limited to a graph of this test's size
        if isinstance(spec.get(key), int):
            spec[key] = min(spec[key], 8)
    problems = workload_problems(spec)
    try:
        build(spec, FABRIC, 1).validate(HOSTS)
    except ConfigError:
        return  # the error always names a field and the allowed values
    assert not problems
