"""Transfers of plans on the simulator: times beside the arithmetic, faults, training, irrelevant networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openmrc.errors import ConfigError
from openmrc.evals.plan_record import PlanFile, read_plan
from openmrc.evals.simulation import Campaign, Phase, conclusion, load_training, simulate_plan

FABRIC = {"planes": 2, "hosts": 8, "hosts_per_t0": 4, "t1s": 2, "rate": "25Gbit", "delay": "1us", "trim": "on"}
TRAINING = "name: training\nhosts: [2, 6]\nsteps: 6\nbytes: 4MiB\nbackward: 200us\nbuckets: 2\n"


def push(source: int, destination: int, size: int, kind: str = "push", at_s: float = 0.0) -> dict[str, Any]:
    ends = {"source_nics": [source], "destination_nics": [destination]}
    return {"kind": kind, "at_s": at_s, "bytes": size, **ends}


def plan_of(*transfers: dict[str, Any], handoff_s: float = 0.0, **other: Any) -> PlanFile:
    return PlanFile.model_validate(
        {
            "openmrc_plan": 1,
            "name": "small",
            "fabric": FABRIC,
            "slots": 1,
            "load_gpus_s": 0.0,
            "swap_gpus_s": 0.0,
            "judging_s": 0.0,
            "trials": [{"duration_s": 1.0, "handoff_s": handoff_s}],
            "transfers": list(transfers),
            **other,
        }
    )


def test_a_push_takes_the_time_of_its_bytes_at_any_scale():
    plan = plan_of(push(0, 4, 400_000_000))
    for packets in (200_000, 10_000):
        (found,) = simulate_plan(plan, ["mrc"], packets_max=packets)
        (phase,) = found.phases
        assert phase.scale == (1 if packets == 200_000 else 10)
        assert phase.p50_s == pytest.approx(8 * 400_000_000 / 50e9, rel=0.06)
        assert found.wall_clock_s == pytest.approx(1.0 + (phase.finish_s or 0))


def test_one_path_has_one_plane():
    mrc, roce = simulate_plan(plan_of(push(0, 4, 40_000_000)), ["mrc", "roce"])
    assert mrc.phases[0].p50_s is not None
    assert roce.phases[0].p50_s == pytest.approx(2 * mrc.phases[0].p50_s, rel=0.1)


def test_a_campaign_without_transfers_needs_no_network():
    (found,) = simulate_plan(plan_of(), ["mrc"])
    assert found.wall_clock_s == found.without_network_s == 1.0
    assert conclusion([found]) == "The network does not matter here: no transfer of this plan crosses it."


def test_a_small_push_does_not_matter_and_a_large_one_does():
    small = simulate_plan(plan_of(push(0, 4, 1_000_000)), ["mrc", "roce"])
    assert conclusion(small).startswith("The network does not matter here")
    large = simulate_plan(plan_of(push(0, 4, 4_000_000_000)), ["mrc", "roce"], packets_max=20_000)
    assert conclusion(large).startswith("The network matters here")
    same = simulate_plan(plan_of(push(0, 4, 4_000_000_000)), ["mrc"], packets_max=20_000)
    assert "matters here" in conclusion(same)


def test_handoffs_that_meet_stretch_the_campaign():
    alone = [push(0, 4, 5_000_000, "handoff"), push(1, 4, 5_000_000, "handoff", 0.5)]
    together = [push(at, 4, 5_000_000, "handoff") for at in range(4)]
    (first,) = simulate_plan(plan_of(*alone, handoff_s=0.1), ["mrc"])
    (second,) = simulate_plan(plan_of(*together, handoff_s=0.1), ["mrc"])
    assert first.phases[0].stretch == pytest.approx(1.0, abs=0.05)
    assert second.phases[0].stretch == pytest.approx(4.0, rel=0.1)
    assert first.wall_clock_s == pytest.approx(1.0, abs=0.01)
    assert second.wall_clock_s == pytest.approx(1.0 + 3 * 0.1, rel=0.03)


def test_a_cut_off_replica_is_said_to_never_get_its_weights():
    (found,) = simulate_plan(plan_of(push(0, 4, 1_000_000)), ["mrc"], faults=["host 4 down"])
    assert found.wall_clock_s is None
    assert found.phases[0].failed == 1
    assert conclusion([found]) == "The network matters here: with mrc transfers never end."


def test_training_beside_a_push_is_slower_and_beside_nothing_it_is_not(tmp_path: Path):
    (tmp_path / "training.yaml").write_text(TRAINING)
    training = load_training(tmp_path / "training.yaml")
    crossing = [push(at, 6, 20_000_000) for at in (0, 1, 3)]
    (slow,) = simulate_plan(plan_of(*crossing), ["mrc"], training=training)
    assert slow.phases[0].training_slowdown is not None
    assert slow.phases[0].training_slowdown > 1.3
    assert "Training steps take up to" in conclusion([slow])
    (free,) = simulate_plan(plan_of(push(0, 1, 20_000_000)), ["mrc"], training=training)
    assert free.phases[0].training_slowdown == pytest.approx(1.0, abs=0.01)


def test_the_same_seed_gives_the_same_campaign():
    transfers = [push(at, 4 + at % 2, 10_000_000, "handoff", at / 1000) for at in range(4)]
    first, second = (simulate_plan(plan_of(*transfers), ["mrc"], seed=7) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: permutation\nbytes: 1MB\n", "allowed: training"),
        ("name: training\n", "bytes"),
        ("name: training\nbytes: 1MB\nstep: 3\n", "steps"),
        ("- 1\n", "keys and values"),
    ],
)
def test_bad_training_files_are_refused_with_file_and_key(tmp_path: Path, text: str, words: str):
    (tmp_path / "training.yaml").write_text(text)
    with pytest.raises(ConfigError, match=words) as raised:
        load_training(tmp_path / "training.yaml")
    assert "training.yaml" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "it is not JSON"),
        ("[]", "a plan"),
        ("{}", "openmrc_plan"),
        (json.dumps({"openmrc_plan": 2}), "openmrc_plan"),
    ],
)
def test_bad_plans_are_refused(tmp_path: Path, text: str, words: str):
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_plan(tmp_path / "plan.json")


def test_a_fault_of_another_fabric_is_refused():
    with pytest.raises(ConfigError, match="t0 9"):
        simulate_plan(plan_of(push(0, 4, 1000)), ["mrc"], faults=["t0 9 t1 0 down"])


def campaign(transport: str, wall_clock_s: float, slowdown: float | None = None) -> Campaign:
    phase = Phase("push", 1, 1, 1, 0, 1.0, 1.0, 1.0, 1.0, slowdown)
    return Campaign(transport, (phase,), wall_clock_s, 100.0)


@pytest.mark.parametrize(
    ("campaigns", "words"),
    [
        ([campaign("mrc", 100.5), campaign("roce", 100.9)], "The network does not matter here: it takes 0.5%"),
        ([campaign("mrc", 100.5, 1.3)], "does not matter to the campaign (0.5% with mrc of its time). Training steps"),
        ([campaign("mrc", 125.0), campaign("roce", 125.1)], "which transport makes no difference"),
        ([campaign("mrc", 110.0), campaign("roce", 130.0)], "The network matters here: it takes 9.1% with mrc, 23.1%"),
    ],
)
def test_a_conclusion_names_the_share_of_the_network(campaigns: list[Campaign], words: str):
    assert words in conclusion(campaigns)
