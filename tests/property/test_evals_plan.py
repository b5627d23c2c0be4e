"""Plans of random campaigns: memory, GPUs, bounds, order."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from openmrc.errors import ConfigError
from openmrc.evals.campaign_plan import Plan, gpu_memory, make_plan
from openmrc.evals.cluster import Cluster, Model
from openmrc.evals.curve import Curve, Point
from openmrc.evals.trial_profile import Profile, Trial
from openmrc.evals.trial_schedule import (
    expected_seconds,
    list_schedule,
    longest_first,
    shared_schedule,
    wall_clock_bound_s,
)
from openmrc.fabric import make_fabric

GIB = 2**30
seconds = st.lists(st.floats(0, 1000), min_size=1, max_size=40)


def curves(sizes: tuple[int, ...]) -> st.SearchStrategy[Curve]:
    rate = st.floats(10, 1000)

    def curve(rates: list[float]) -> Curve:
        return Curve(
            {
                gpus: (Point(1, 10 * one * gpus, one * gpus), Point(16, 20 * one * gpus, 8 * one * gpus))
                for gpus, one in zip(sizes, rates, strict=True)
            }
        )

    return st.lists(rate, min_size=len(sizes), max_size=len(sizes)).map(curve)


@st.composite
def models(draw: st.DrawFn, name: str) -> Model:
    sizes = draw(st.sampled_from([(1,), (1, 2), (2,), (1, 2, 4)]))
    return Model(
        name=name,
        weights_bytes=draw(st.integers(1, 40)) * GIB,
        kv_bytes_per_token=draw(st.integers(1, 512)) * 1024,
        context_tokens=draw(st.sampled_from([2048, 16384])),
        curve=draw(curves(sizes)),
        prefill_apart=draw(st.booleans()),
    )


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    gpus = tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=4).filter(any)))
    values = {"planes": 2, "hosts": len(gpus), "hosts_per_t0": len(gpus), "t1s": 1, "rate": "25Gbit", "delay": "1us"}
    return Cluster(
        name="drawn",
        fabric=make_fabric(**values),
        fabric_values=values,
        gpus=gpus,
        gpu_memory_bytes=draw(st.sampled_from([16, 24, 80])) * GIB,
        weights_host=draw(st.integers(0, len(gpus) - 1)),
        agent=draw(models("agent")),
        judge=draw(models("judge")),
        weights_in_host_memory=draw(st.booleans()),
        sharing_slowdown=draw(st.sampled_from([None, 1.0, 1.5])),
        slots_max=draw(st.integers(1, 40)),
    )


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    judged = draw(st.booleans())
    return Profile(
        Trial(
            task="t",
            sample=f"s{at}",
            epoch=epoch + 1,
            total_s=draw(st.none() | st.floats(0, 500)),
            agent_s=draw(st.none() | st.floats(0, 300)),
            calls=draw(st.integers(0, 6)),
            prompt_tokens=(prompt := draw(st.integers(1, 30_000))),
            cached_tokens=draw(st.integers(0, prompt)),
            output_tokens=draw(st.integers(0, 3000)),
            judge_calls=int(judged),
            judge_prompt_tokens=draw(st.integers(0, 5000)) * judged,
            judge_output_tokens=draw(st.integers(0, 500)) * judged,
        )
        for epoch in range(draw(st.integers(1, 2)))
        for at in range(draw(st.integers(1, 8)))
    )


def check_memory(plan: Plan) -> None:
    cluster, placement = plan.cluster, plan.chosen.placement
    assert max(gpu_memory(placement)) <= cluster.gpu_memory_bytes * cluster.memory_share
    assert plan.head_room_bytes >= 0
    phases = ("judge",), ("agent", "prefill", "decode")
    together = phases if placement.kind == "alternating" or placement.kind == "shared" else (phases[0] + phases[1],)
    for roles in together:
        used = Counter((one.host, gpu) for one in placement.replicas if one.role in roles for gpu in one.gpus)
        assert max(used.values(), default=1) == 1, "a GPU has one replica of a model"
    for one in placement.replicas:
        assert all(gpu < cluster.gpus[one.host] for gpu in one.gpus)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(clusters(), profiles())
def test_a_plan_fits_its_cluster_and_beats_no_bound(cluster: Cluster, profile: Profile):
    plan = None
    with suppress(ConfigError):  # models that fit no GPU; `assume` limits their frequency
        plan = make_plan(profile, cluster, tool_share=0.5)
    assume(plan is not None)
    assert plan is not None
    chosen = plan.chosen
    check_memory(plan)
    assert Counter(plan.order) == Counter(plan.trials)
    names = [(one.task, one.sample, one.epoch) for one in plan.order]
    wanted = {(*key, epoch + 1) for key in profile.samples for epoch in range(profile.epochs)}
    assert len(names) == len(wanted)
    assert set(names) == wanted
    assert chosen.schedule.wall_clock_s >= chosen.bound_s * (1 - 1e-9)
    assert chosen.wall_clock_s >= chosen.load_s + chosen.bound_s * (1 - 1e-9)
    for other in plan.others:
        assert other.schedule.wall_clock_s >= other.bound_s * (1 - 1e-9)
    for transfer in plan.transfers:
        ends = {*transfer.source_nics, *transfer.destination_nics}
        assert ends <= set(range(cluster.fabric.hosts))
        assert not set(transfer.source_nics) & set(transfer.destination_nics)
        assert transfer.at_s >= 0
        assert sum(size for _, _, size in transfer.parts) >= transfer.bytes


@given(seconds, st.integers(1, 50))
def test_a_list_schedule_is_no_faster_than_its_bound_and_at_most_twice_as_long(some: list[float], slots: int):
    schedule = list_schedule(some, slots)
    bound_s = wall_clock_bound_s(some, slots)
    assert bound_s * (1 - 1e-9) <= schedule.wall_clock_s <= 2 * bound_s + 1e-9
    ordered = list_schedule([some[at] for at in longest_first(some)], slots)
    assert ordered.wall_clock_s <= (4 / 3) * wall_clock_bound_s(some, slots) + max(some) / 3 + 1e-9
    busy: dict[int, float] = {}
    for slot, start_s, end_s in zip(schedule.slots, schedule.starts_s, schedule.ends_s, strict=True):
        assert start_s >= busy.get(slot, 0.0)
        busy[slot] = end_s


@given(seconds, st.integers(1, 20))
def test_trials_that_do_not_slow_each_other_down_are_a_list_schedule(some: list[float], slots: int):
    table = dict.fromkeys({1, slots}, np.array(some))
    order = list(range(len(some)))
    plain, shared = list_schedule(some, slots), shared_schedule(order, table, slots)
    assert np.allclose(shared.starts_s, plain.starts_s, atol=1e-5)
    assert np.allclose(shared.ends_s, plain.ends_s, atol=1e-5)


@given(st.integers(1, 12), st.integers(1, 12), st.floats(0.1, 100))
def test_equal_trials_that_share_one_server_take_as_long_as_one_after_the_other(count: int, slots: int, each_s: float):
    table = {n: np.full(count, n * each_s) for n in {1, slots}}
    assert np.isclose(shared_schedule(range(count), table, slots).wall_clock_s, count * each_s)


def test_an_unknown_sample_is_expected_to_be_rather_long():
    earlier = [(("t", f"s{n}"), float(n)) for n in range(8)]
    earlier += [(("t", "s0"), 100.0), (("t", "s0"), 2.0), (("t", "s9"), None)]
    keys = [("t", "s0"), ("t", "s5"), ("t", "new"), ("t", "s9")]
    assert expected_seconds(keys, earlier) == [2.0, 5.0, 6.0, 6.0]
