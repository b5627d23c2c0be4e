"""The native simulation takes what it documents and refuses the rest by name, before anything runs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openmrc._native.simulate import Simulation
from openmrc.fabric.native_settings import Routing

MS = 10**9  # picoseconds

PORT: dict[str, Any] = {
    "rate_bps": 10**9,
    "delay_ps": 10**7,
    "queue_bytes": 100_000,
    "control_queue_bytes": 100_000,
    "ecn": False,
    "ecn_min_bytes": 0,
    "ecn_max_bytes": 0,
    "trim": False,
    "trim_threshold_bytes": 0,
    "trim_bytes": 0,
    "last_hop": False,
}
EFFECTS: dict[str, Any] = {
    "down": False,
    "blackhole": True,
    "loss_ppb": 0,
    "burst_loss_ppb": 0,
    "burst_packets": 1,
    "rate_ppm": 1_000_000,
    "delay_ps": 0,
    "jitter_ps": 0,
    "corrupt_ppb": 0,
    "duplicate_ppb": 0,
    "reorder_ppb": 0,
    "reorder_delay_ps": 0,
}


def fault(
    effects: dict[str, Any] | None = None, start_ps: int = 0, duration_ps: int | None = None, **place: Any
) -> Any:
    """A silent fault of the whole fabric, or of a place."""
    values = {"place": place, "effects": EFFECTS | (effects or {}), "start_ps": start_ps, "duration_ps": duration_ps}
    return values | {"period_ps": 0}


def config(transport: str = "mrc", **settings: Any) -> dict[str, Any]:
    """Two planes, four hosts, two T0s, two T1s."""
    return {
        "shape": {
            "planes": 2,
            "hosts": 4,
            "hosts_per_t0": 2,
            "t1s": 2,
            "t0s_per_pod": 0,
            "t1_uplinks": 0,
            "routing": Routing.MODULO,
        },
        "ports": {kind: dict(PORT) for kind in ("nic_up", "nic_down", "t0_up", "t1_down", "t1_up", "t2_down")},
        "queued": None,
        "seed": 1,
        "payload_mtu": 1024,
        "header_bytes": 82,
        "base_rtt_ps": 2 * 10**8,
        "nic_latency_ps": 0,
        "doorbell_ps": 0,
        "lanes": 1,
        "threads": 1,
        transport: settings,
    }


def ops(**columns: Any) -> dict[str, np.ndarray]:
    """Host 0 sends 5,000 bytes to host 2, computes 1 ms, and host 2 sends them back."""
    values: dict[str, Any] = {
        "kind": [0, 1, 0],
        "host": [0, 0, 2],
        "peer": [2, 0, 0],
        "bytes": [5000, 0, 700],
        "duration_ps": [0, MS, 0],
        "earliest_ps": [0, 0, 0],
        "dep_op": [1, 2],
        "dep_on": [0, 0],
        "dep_event": [0, 1],
    } | columns
    types = {
        "kind": np.uint8,
        "bytes": np.uint64,
        "duration_ps": np.int64,
        "earliest_ps": np.int64,
        "dep_event": np.uint8,
    }
    return {name: np.array(value, dtype=types.get(name, np.uint32)) for name, value in values.items()}


def started(transport: str = "mrc") -> Simulation:
    simulation = Simulation(config(transport))
    simulation.add_ops(**ops())
    return simulation


@pytest.mark.parametrize("transport", ["mrc", "roce", "dctcp"])
def test_documented_calls_run_and_every_column_has_its_length(transport: str) -> None:
    simulation = started(transport)
    assert simulation.verdict == "running"
    assert simulation.now_ps == 0
    assert simulation.run_until(1000 * MS)
    assert simulation.finished
    assert simulation.verdict == "done"
    times = simulation.op_times()
    assert {name: column.shape for name, column in times.items()} == dict.fromkeys(
        ("started_ps", "received_ps", "completed_ps", "failed"), (3,)
    )
    assert times["started_ps"][2] == times["received_ps"][0] > 0
    assert times["received_ps"][1] == -1
    assert times["completed_ps"][1] == times["completed_ps"][0] + MS
    assert simulation.hosts()["goodput_bytes"].tolist() == [700, 0, 5000, 0]
    ports = simulation.ports()
    assert all(ports[name].shape == (8,) for name in ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets"))
    assert (ports["tx_packets"].reshape(4, 2).sum(axis=1) > 0).tolist() == [True, False, True, False]
    assert [len(simulation.links(1, kind)["packets"]) for kind in range(6)] == [4, 4, 4, 4, 0, 0]
    connections = simulation.connections()
    assert [connections[name].tolist() for name in ("host", "peer", "lane")] == [[0, 2], [2, 0], [0, 0]]
    assert connections["received_bytes"].tolist() == [5000, 700]
    assert connections["sent_bytes"].tolist() == [5000, 700]
    assert simulation.counters()["data_packets"] == 6
    assert simulation.memory_bytes() > 0


def test_equal_runs_have_equal_traces_and_another_seed_another() -> None:
    def trace(seed: int, threads: int) -> int:
        simulation = Simulation(config() | {"seed": seed, "threads": threads})
        simulation.add_ops(**ops(bytes=[500_000, 0, 0]))
        assert simulation.run_until(1000 * MS)
        return simulation.trace()

    assert trace(1, 1) == trace(1, 3) != trace(2, 1)


def _shape(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda cfg: cfg["shape"].update({name: value})


def _set(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda cfg: cfg.update({name: value})


def _port(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda cfg: cfg["ports"]["t0_up"].update({name: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_shape("planes", 0), "planes"),
        (_shape("planes", 65), "planes"),
        (_shape("hosts", 0), "hosts"),
        (_shape("hosts_per_t0", 0), "hosts_per_t0"),
        (_shape("t1s", 0), "t1s"),
        (_shape("t1s", 65536), "t1s"),
        (_shape("t0s_per_pod", 2), "third tier needs pods"),
        (_shape("t1_uplinks", 2), "third tier needs pods"),
        (_shape("routing", "random"), "MODULO, HASH or ADAPTIVE"),
        (_port("rate_bps", 0), "rate_bps"),
        (_port("delay_ps", -1), "delay_ps"),
        (_port("ecn_min_bytes", 1), "port settings"),
        (lambda cfg: cfg["ports"].pop("t0_up"), "PlanePorts needs it"),
        (lambda cfg: cfg.update(unlike=[cfg["ports"]]), "ports of every plane"),
        (_set("threads", 0), "threads"),
        (_set("threads", 257), "threads"),
        (_set("lanes", 0), "lanes"),
        (_set("doorbell_ps", -1), "doorbell_ps"),
        (_set("payload_mtu", 255), "payload_mtu"),
        (_set("payload_mtu", 8193), "payload_mtu"),
        (lambda cfg: [port.update(delay_ps=0) for port in cfg["ports"].values()], "needs a delay"),
        (_set("queued", {"buffer": 1}), "did you mean 'buffer_bytes'"),
        (_set("tcp", {}), "mrc, roce, dctcp"),
        (_set("roce", {}), "mrc, roce or dctcp"),
        (_set("mrc", None), "mrc, roce or dctcp"),
    ],
)
def test_settings_that_make_no_simulation_are_refused(change: Callable[[dict[str, Any]], Any], message: str) -> None:
    wrong = copy.deepcopy(config())
    change(wrong)
    with pytest.raises(ValueError, match=message):
        Simulation(wrong)


@pytest.mark.parametrize("section", ["shape", "ports", "seed", "payload_mtu", "nic_latency_ps", "lanes", "mrc"])
def test_a_section_that_is_missing_is_named(section: str) -> None:
    wrong = config()
    del wrong[section]
    with pytest.raises((KeyError, ValueError), match=section):
        Simulation(wrong)


@pytest.mark.parametrize(
    ("transport", "settings", "message"),
    [
        ("mrc", {"selector": "mrc"}, "did you mean 'ev_selector'"),
        ("mrc", {"ev_selector": "magic"}, "ev_selector"),
        ("mrc", {"controller": "magic"}, "controller"),
        ("mrc", {"cc": {"eta": 1}}, "eta_permille"),
        ("mrc", {"denied": [{"plane": 1}]}, "DeniedPath needs it"),
        ("mrc", {"watched": [-1]}, "watched"),
        ("roce", {"dcqnc": True}, "did you mean 'dcqcn'"),
        ("roce", {"ev_selector": "mrc"}, "ev_selector"),
        ("dctcp", {"rto_ps": 1}, "did you mean 'rto_"),
    ],
)
def test_unknown_settings_of_a_transport_are_named(transport: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Simulation(config(transport, **settings))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"kind": [0, 2, 0]}, "0 send, 1 compute"),
        ({"host": [4, 0, 2]}, "host that does not exist"),
        ({"peer": [4, 0, 0]}, "host that does not exist"),
        ({"peer": [0, 0, 0]}, "sends to itself"),
        ({"duration_ps": [0, -1, 0]}, "times"),
        ({"earliest_ps": [0, 0, -1]}, "times"),
        ({"duration_ps": [0, 2**61 + 1, 0]}, "26 days"),
        ({"bytes": [2**38 + 1, 0, 0]}, "256 GiB"),
        ({"dep_op": [1, 3]}, "names no op"),
        ({"dep_on": [0, 3]}, "names no op"),
        ({"dep_event": [0, 2]}, "0 completed, 1 received"),
        ({"dep_on": [0, 1]}, "only sends are received"),
        ({"dep_event": [1, 1]}, "its own host"),  # host 0 is not where op 0 is received
        ({"dep_event": [0, 0]}, "its own host"),  # nor does host 2 see it completed
        ({"host": [0, 0]}, "different lengths"),
        ({"bytes": [1, 2, 3, 4]}, "different lengths"),
        ({"dep_on": [0]}, "different lengths"),
        ({"dep_event": [0, 1, 1]}, "different lengths"),
        (
            {key: [] for key in ("kind", "host", "peer", "bytes", "duration_ps", "earliest_ps", "dep_op", "dep_on")},
            "ops",
        ),
    ],
)
def test_ops_out_of_range_are_refused(columns: dict[str, Any], message: str) -> None:
    simulation = Simulation(config())
    with pytest.raises(ValueError, match=message):
        simulation.add_ops(**ops(**columns))
    simulation.add_ops(**ops())  # refused calls have left nothing behind
    assert simulation.run_until(1000 * MS)
    assert simulation.verdict == "done"


def test_columns_are_one_dimensional_and_may_be_views() -> None:
    for value in (np.zeros((3, 1), dtype=np.uint8), None, "abc"):
        with pytest.raises(TypeError):
            Simulation(config()).add_ops(**(ops() | {"kind": value}))  # type: ignore[arg-type]
    view = Simulation(config())
    view.add_ops(**(ops() | {"bytes": np.repeat(ops()["bytes"], 2)[::2]}))
    whole = started()
    assert view.run_until(1000 * MS)
    assert whole.run_until(1000 * MS)
    assert view.trace() == whole.trace()


def test_the_order_of_calls_is_watched() -> None:
    simulation = Simulation(config())
    for too_early in (
        lambda: simulation.run_until(1),
        lambda: simulation.op_times(),
        lambda: simulation.add_fault(fault()),
        lambda: simulation.verdict,
    ):
        with pytest.raises(ValueError, match="add_ops comes first"):
            too_early()
    simulation.add_ops(**ops())
    with pytest.raises(ValueError, match="once"):
        simulation.add_ops(**ops())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"plane": 2}, "no such place"),
        ({"plane": 0, "host": 4}, "no such place"),
        ({"plane": 0, "t1": 2}, "no such place"),
        ({"plane": 0, "t1": 0, "t2": 0}, "no such place"),  # two tiers have no T2
        ({"plane": 0, "host": 0, "direction": 3}, "BOTH, TX or RX"),
        ({"nic": 0}, "allowed: plane, host"),
        ({"effects": {"loss_ppb": 10**9 + 1}}, "loss_ppb"),
        ({"effects": {"rate_ppm": 0}}, "rate_ppm"),
        ({"effects": {"rate_ppm": 1_000_001}}, "rate_ppm"),
        ({"effects": {"delay_ps": -1}}, "delay_ps"),
        ({"effects": {"burst_packets": 0}}, "burst_packets"),
        ({"duration_ps": 0}, "duration_ps"),
        ({"start_ps": MS - 1}, "not before now_ps"),
    ],
)
def test_faults_that_cannot_be_are_refused(values: dict[str, Any], message: str) -> None:
    simulation = started()
    simulation.run_until(MS)
    with pytest.raises(ValueError, match=message):
        simulation.add_fault(fault(**{"start_ps": MS} | values))
    with pytest.raises(ValueError, match="period_ps"):
        simulation.add_fault(fault(start_ps=MS) | {"period_ps": -1})


def test_links_that_do_not_exist_are_refused() -> None:
    simulation = started()
    for plane, kind in ((2, 0), (0, 6)):
        with pytest.raises(ValueError, match="no such plane or kind"):
            simulation.links(plane, kind)


def test_a_run_without_a_way_is_failed_and_one_that_waits_for_itself_stalled() -> None:
    cut_off = Simulation(config("roce", timeout_ps=MS, retries=1))
    cut_off.add_ops(**ops())
    cut_off.add_fault(fault(host=2))
    assert cut_off.run_until(1000 * MS)
    assert cut_off.verdict == "failed"
    assert not cut_off.finished
    assert cut_off.op_times()["failed"].tolist() == [1, 0, 0]
    assert cut_off.counters()["ops_failed"] == 1
    circle = Simulation(config())
    circle.add_ops(**ops(kind=[1, 1, 1], host=[0, 0, 0], dep_on=[2, 1], dep_event=[0, 0]))
    assert circle.run_until(1000 * MS)
    assert circle.verdict == "stalled"
