"""User-defined policies in the simulator: named by a scenario, in several threads, and in the processes of a sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openmrc.sim.run import run
from openmrc.sim.scenario_file import make_scenario

pytest.importorskip("numba")

POLICY = """
from numba import cfunc

from openmrc import policies


@cfunc(policies.NEXT_SIGNATURE)
def step(state, position_count):
    state[1] += 1
    return state[1] - 1


@cfunc(policies.CC_INIT_SIGNATURE)
def init(state, mtu, rate, base_rtt, limit, trimming):
    state[0] = {packets} * mtu


@cfunc(policies.CC_ON_ACK_SIGNATURE)
def on_ack(state, now, new, in_flight, rtt, marked, penalty, restore):
    pass


@cfunc(policies.CC_ON_TRIM_SIGNATURE)
def on_trim(state, now, size, in_flight, last_hop):
    pass


@cfunc(policies.CC_ON_LOSS_SIGNATURE)
def on_loss(state, now, size, in_flight):
    pass


@cfunc(policies.CC_WINDOW_SIGNATURE)
def window_bytes(state):
    return state[0]


policies.register_ev_selector("{name}", next=step, state_words=2)
policies.register_controller(
    "{name}", init=init, on_ack=on_ack, on_trim=on_trim, on_loss=on_loss, window_bytes=window_bytes
)
"""


def scenario(folder: Path, name: str, *, packets: int = 1000) -> dict[str, Any]:
    (folder / "mine.py").write_text(POLICY.format(name=name, packets=packets))
    return {
        "fabric": {
            "planes": 2,
            "hosts": 8,
            "hosts_per_t0": 4,
            "t1s": 2,
            "rate": "100G",
            "delay": "500ns",
            "trim": "on",
        },
        "policies": "mine.py",
        "transports": {
            "mine": {"kind": "mrc", "ev_selector": name, "controller": "none"},
            "built_in": {"kind": "mrc", "ev_selector": "round_robin", "controller": "none"},
            "window": {"kind": "mrc", "controller": name},
        },
        "workload": {"name": "permutation", "bytes": "256KiB"},
    }


def test_a_selector_like_a_built_in_one_gives_the_same_run(tmp_path: Path) -> None:
    made = make_scenario(folder=tmp_path, **scenario(tmp_path, "test_sim_step"))
    mine = run(made, transport="mine")["mine"].summary
    built_in = run(made, transport="built_in")["built_in"].summary
    assert mine["verdict"] == "done"
    assert mine["trace"] == built_in["trace"]
    assert run(made, transport="mine", threads=2)["mine"].summary["trace"] == mine["trace"]


def test_a_controller_limits_the_packets_in_flight(tmp_path: Path) -> None:
    made = make_scenario(folder=tmp_path, **scenario(tmp_path, "test_sim_window", packets=2))
    slow = run(made, transport="window")["window"].summary
    fast = run(made, transport="built_in")["built_in"].summary
    assert slow["verdict"] == "done"
    # Two packets per round trip of several microseconds, on 200 Gb/s.
    assert slow["finish_ps"] > 5 * fast["finish_ps"]


@pytest.mark.slow
def test_the_processes_of_a_sweep_load_the_policies_of_their_scenario(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    from openmrc.sim.sweep import Sweep

    words = scenario(tmp_path, "test_sim_sweep")
    sweep = Sweep(
        words,
        {"workload.bytes": ["16KiB", "64KiB"]},
        transports=["mine", "built_in"],
        out=tmp_path / "out",
        folder=tmp_path,
    )
    frame = sweep.run(workers=2)
    assert frame["verdict"].to_list() == ["done"] * 4
    # Counting in Python and counting in C++ give equal results, size by size.
    assert frame.group_by("workload.bytes").agg(pl.col("fct_p100_ps").n_unique())["fct_p100_ps"].to_list() == [1, 1]
