"""Baselines have the settings of their deployments: marks, rerouting around lasting failures, suitable timers."""

from __future__ import annotations

from typing import Any

import pytest

from openmrc import sim
from openmrc.sim.native_config import native_config
from openmrc.sim.native_settings import Reconvergence
from openmrc.sim.scenario_file import ScenarioFileError

CLOS = {"planes": 1, "hosts": 64, "hosts_per_t0": 8, "t1s": 8, "rate": "100Gbit", "delay": "1us"}
INCAST = {"name": "incast", "bytes": "1MB", "senders": 31}
TWO_PATHS = {"planes": 1, "hosts": 32, "hosts_per_t0": 16, "t1s": 2, "rate": "100Gbit", "delay": "1us"}


def summary_of(**values: Any) -> dict[str, Any]:
    (one,) = sim.run(sim.make_scenario(**({"watch": {"series": []}} | values)))
    return dict(one.summary)


def test_an_incast_of_dctcp_is_marked_where_it_meets() -> None:
    """4.5 times the ideal without marks at the port to the host, where its packets wait."""
    default = summary_of(fabric=CLOS, workload=INCAST, transports=["dctcp"])
    assert default["slowest_over_ideal"] < 1.02
    assert default["hints"] == []
    without = summary_of(fabric=CLOS | {"ecn": {"last_hop": False}}, workload=INCAST, transports=["dctcp"])
    assert without["slowest_over_ideal"] > 2
    assert "fabric.ecn.last_hop" in without["hints"][0]


@pytest.mark.parametrize(
    ("transport", "ecn", "marks"),
    [
        ("mrc", {}, False),
        ("dctcp", {}, True),
        ("roce", {}, True),
        ({"pfc_only": {"kind": "roce", "dcqcn": "off"}}, {}, False),
        ("mrc", {"last_hop": True}, True),
        ("dctcp", {"last_hop": False}, False),
    ],
)
def test_ports_to_hosts_mark_for_the_transports_that_need_it_or_as_the_fabric_says(
    transport: Any, ecn: dict[str, Any], marks: bool
) -> None:
    transports = [transport] if isinstance(transport, str) else transport
    fabric = CLOS | ({"ecn": ecn} if ecn else {})
    scenario = sim.make_scenario(fabric=fabric, workload=INCAST, transports=transports)
    (one,) = scenario.transports
    ports = native_config(scenario, one, 1).ports
    in_order = (ports.nic_up, ports.nic_down, ports.t0_up, ports.t1_down, ports.t1_up, ports.t2_down)
    assert [port is not None and port.ecn for port in in_order] == [False, marks, True, True, True, True]
    assert scenario.effective()["transports"][one.name]["last_hop_marks"] == marks


def test_a_fabric_without_marks_is_a_hint_for_transports_that_need_them() -> None:
    transports = ["mrc", "roce", "dctcp"]
    result = sim.run(
        sim.make_scenario(
            fabric=CLOS | {"ecn": "off"}, workload={"name": "permutation", "bytes": "10kB"}, transports=transports
        )
    )
    assert [bool(result[name].summary["hints"]) for name in transports] == [False, True, True]


def test_losses_of_roce_without_pfc_are_a_hint() -> None:
    few = CLOS | {"hosts": 16}
    for pfc, hinted in (("off", True), ("on", False)):
        fabric = few | {"pfc": pfc} if pfc == "on" else few | {"queue_bytes": "50kB"}
        one = summary_of(fabric=fabric, workload=INCAST | {"senders": 15}, transports=["roce"])
        assert any("fabric.pfc: off" in hint for hint in one["hints"]) == hinted


def test_dctcp_repairs_an_incast_alike_however_long_acknowledgements_wait() -> None:
    """31 initial windows meet in a queue of 44 packets: with one probe the median was 10.1 ms, and 1.1 ms with 1ms."""
    fabric = CLOS | {"hosts": 32, "delay": "200ns", "ecn": {"last_hop": False}}
    for delay in ("10us", "1ms"):
        workload = {"name": "incast", "bytes": "100kB", "senders": 31}
        one = summary_of(fabric=fabric, workload=workload, transports={"dctcp": {"ack_delay": delay}})
        assert one["fct_p50_ps"] < 10**9, delay


@pytest.mark.parametrize("kind", ["down", "blackhole"])
@pytest.mark.parametrize("transport", ["roce", "dctcp"])
def test_a_lasting_cut_is_routed_around_unless_that_is_off(transport: str, kind: str) -> None:
    cut = {
        "fabric": TWO_PATHS,
        "workload": {"name": "permutation", "bytes": "100kB", "across_t0s": True},
        "transports": [transport],
        "faults": [f"t0 0 t1 1 {kind}"],
    }
    assert summary_of(**cut)["verdict"] == "done"
    never = summary_of(**cut, reconvergence="off")
    assert never["verdict"] in ("failed", "time limit")
    assert 0 < never["flows_done"] < never["flows"]


def test_hashed_evs_of_mrc_are_rerouted_and_named_ones_are_not() -> None:
    for routing, wanted in (("modulo", None), ("hash", Reconvergence(down_ps=10**9, blackhole_ps=2 * 10**9))):
        scenario = sim.make_scenario(
            fabric=CLOS | {"routing": routing},
            workload=INCAST,
            reconvergence={"down": "1ms", "blackhole": "2ms"},
        )
        assert native_config(scenario, scenario.transports[0], 1).reconvergence == wanted


def test_reconvergence_is_one_time_or_two_or_off() -> None:
    def times(written: Any) -> tuple[int | None, int | None]:
        found = sim.make_scenario(fabric=CLOS, workload=INCAST, reconvergence=written).reconvergence
        return found.down_ps, found.blackhole_ps

    assert times("3ms") == (3 * 10**9, 3 * 10**9)
    assert times("off") == times(False) == (None, None)
    assert times({"blackhole": "off"}) == (100 * 10**9, None)
    with pytest.raises(ScenarioFileError):
        times({"down": "soon"})


@pytest.mark.slow
def test_rerouting_is_the_same_for_any_number_of_threads() -> None:
    scenario = sim.make_scenario(
        fabric=CLOS,
        workload={"name": "permutation", "bytes": "200kB"},
        transports=["roce", "dctcp"],
        faults=["t0 0 t1 1 down", "host 9 plane 0 down at 1ms for 30ms", "t0 2 t1 3 blackhole"],
        reconvergence="5ms",
    )
    one, three = (sim.run(scenario, threads=threads) for threads in (1, 3))
    for name in ("roce", "dctcp"):
        assert one[name].summary["trace"] == three[name].summary["trace"]
