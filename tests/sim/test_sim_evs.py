"""Number of a QP's EVs: from the fabric by default, at most the number of paths, and reported correctly."""

from __future__ import annotations

from typing import Any

import pytest

from openmrc import sim
from openmrc.sim.evs import evs_of
from openmrc.sim.native_config import native_config
from openmrc.sim.scenario_file import ScenarioFileError
from openmrc.sim.transports import MrcSection

CLOS = {"planes": 2, "hosts": 16, "hosts_per_t0": 4, "t1s": 4, "rate": "100Gbit", "delay": "1us"}
THREE_TIERS = {
    "planes": 1,
    "hosts": 256,
    "hosts_per_t0": 8,
    "tiers": 3,
    "t0s_per_pod": 8,
    "t1s": 8,
    "t1_uplinks": 8,
    "rate": "100Gbit",
    "delay": "1us",
    "trim": "on",
}
PERMUTATION = {"name": "permutation", "bytes": "100kB"}


def scenario(fabric: dict[str, Any], **mrc: Any) -> sim.Scenario:
    return sim.make_scenario(fabric=fabric, workload=PERMUTATION, transports={"mrc": mrc}, watch={"series": []})


def run(fabric: dict[str, Any], **mrc: Any) -> dict[str, Any]:
    return dict(sim.run(scenario(fabric, **mrc))["mrc"].summary)


@pytest.mark.parametrize(
    ("fabric", "active", "known"),
    [
        (CLOS, 4, 4),  # all of few paths
        (CLOS | {"t1s": 64}, 64, 64),
        (CLOS | {"t1s": 600}, 512, 512),  # 1,024 on two planes
        (CLOS | {"routing": "hash"}, 32, 64),  # EVs spread by a hash, and backups
        (THREE_TIERS, 64, 64),
        ({"planes": 8, "hosts": 131072, "rate": "100Gbit", "switch": "51.2T"}, 64, 64),  # the same memory as before
        ({"planes": 8, "hosts": 32768, "rate": "100Gbit", "switch": "51.2T"}, 128, 128),
    ],
)
def test_by_default_there_is_an_ev_for_each_path_that_a_qp_has_room_for(
    fabric: dict[str, Any], active: int, known: int
) -> None:
    made = scenario(fabric)
    assert (evs_of(MrcSection(), made.fabric).active, evs_of(MrcSection(), made.fabric).known) == (active, known)
    native = native_config(made, made.transports[0], 1).mrc
    assert native is not None
    assert (native.active_per_port, native.universe_per_port) == (active, known)
    assert made.effective()["transports"]["mrc"]["active_per_port"] == active


def test_more_evs_than_paths_are_counted_as_paths_with_a_hint() -> None:
    """The summary once said 2,048 for 16 senders, 2 planes and 4 paths."""
    one = run(CLOS, active_per_port=64)
    assert one["evs"] == 16 * 2 * 4
    assert (one["active_per_port"], one["paths_per_plane"]) == (4, 4)
    assert one["hints"] == ["active_per_port: 64 configured, 4 used: a plane has 4 different paths"]
    assert run(CLOS)["hints"] == []


def test_fewer_evs_than_paths_are_a_hint() -> None:
    one = run(THREE_TIERS, active_per_port=32)
    assert one["evs"] == 256 * 32
    assert one["hints"] == [
        "active_per_port: 32 EVs for 64 paths of a plane load some links more than others; up to 1024 are possible"
    ]


def test_three_tiers_are_nearer_to_their_ideal_with_an_ev_for_each_path() -> None:
    few, default = (
        sim.run(
            sim.make_scenario(
                fabric=THREE_TIERS,
                workload={"name": "permutation", "bytes": "2MB", "across_t0s": True},
                transports={"mrc": settings},
                watch={"series": []},
            )
        )["mrc"].summary["slowest_over_ideal"]
        for settings in ({"active_per_port": 32}, {})
    )
    assert default < 1.12 < few


def test_denied_paths_take_no_ev_from_the_others() -> None:
    denied = [[0, 1], [0, 3], [1, 0], [0, 1]]
    one = run(CLOS, denied=denied)
    assert one["evs"] == 16 * (2 + 3)
    # Two EVs on either plane, none of which may be denied: every sent packet arrives.
    two = run(CLOS | {"t1s": 3}, active_per_port=2, universe_per_port=2, denied=[[0, 1], [1, 2]])
    assert two["evs"] == 16 * 2 * 2
    assert two["verdict"] == "done"


def test_a_universe_smaller_than_the_evs_in_use_is_refused() -> None:
    with pytest.raises(ScenarioFileError, match="did you mean 'active_per_port'"):
        scenario(CLOS, evs_per_port=8)
    with pytest.raises(ScenarioFileError, match="at least the 8 of active_per_port"):
        scenario(CLOS, active_per_port=8, universe_per_port=4)
    assert evs_of(MrcSection(universe_per_port=2), scenario(CLOS).fabric).active == 2
