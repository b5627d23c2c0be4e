"""The simulator beats no ideal: random scenarios of every shape, transport and header, with lanes and odd sizes.

`HYPOTHESIS_PROFILE=nightly` draws thousands, `OPENMRC_SCENARIOS=10000` (with `--timeout 900`) so many.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmrc.sim import make_scenario, run
from openmrc.sim.run import build_graph, ideals_of

RATES = ["100G", "30G", "7G", "400G"]
DELAYS = ["100ns", "1us", "13us"]


@st.composite
def fabrics(draw: st.DrawFn) -> dict[str, Any]:
    """Two tiers, three tiers or sites, with framings, queues and routings that affect arrival times."""
    fabric: dict[str, Any] = {
        "planes": draw(st.integers(1, 5)),
        "hosts": 8,
        "hosts_per_t0": 2,
        "t1s": draw(st.integers(1, 3)),
        "rate": {"nic": draw(st.sampled_from(RATES)), "t0": draw(st.sampled_from(RATES))},
        "delay": {"nic": draw(st.sampled_from(DELAYS)), "t0": draw(st.sampled_from(["0", *DELAYS]))},
        "framing": draw(st.sampled_from(["ipv4", "ipv6", "srv6"])),
        "framing_bytes": draw(st.sampled_from([0, 38])),
        "routing": draw(st.sampled_from(["modulo", "hash", "adaptive"])),
    }
    tiers = draw(st.integers(2, 4))
    if tiers == 3:
        fabric |= {"tiers": 3, "t0s_per_pod": 2, "t1_uplinks": draw(st.integers(1, 3))}
        fabric["rate"]["t1"] = draw(st.sampled_from(RATES))
        fabric["delay"]["t1"] = draw(st.sampled_from(DELAYS))
    elif tiers == 4:
        fabric |= {"sites": 2, "site_link": {"delay": "20us", "rate": draw(st.sampled_from(RATES))}}
    if draw(st.integers(0, 2)) == 0:
        own = {"rate": st.sampled_from(RATES), "delay": st.sampled_from([*DELAYS, "90us"]), "ecn": st.just("off")}
        fabric["planes"] = draw(st.lists(st.fixed_dictionaries({}, optional=own), min_size=1, max_size=5))
    if draw(st.booleans()):
        fabric["trim"] = "on"
    elif draw(st.booleans()):
        fabric["priority"] = "off"
    if draw(st.integers(0, 3)) == 0:
        fabric["pfc"] = "on"
    return fabric


@st.composite
def workloads(draw: st.DrawFn, mtu: int) -> dict[str, Any]:
    """Messages around packet boundaries, alone, in pairs or all to all."""
    size = draw(st.integers(0, 6)) * mtu + draw(st.sampled_from([0, 1, -1, 7, mtu // 2, mtu // 2 + 1]))
    size = max(size, 1)
    kind = draw(st.sampled_from(["flows", "permutation", "incast", "all_to_all", "all_reduce"]))
    if kind == "flows":
        pairs = draw(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 7)), min_size=1, max_size=4))
        flows = [{"source": a, "destination": (a + b) % 8, "bytes": size + i} for i, (a, b) in enumerate(pairs)]
        return {"name": "flows", "flows": flows}
    spec: dict[str, Any] = {"name": kind, "bytes": size}
    if kind == "incast":
        spec["senders"] = draw(st.integers(1, 7))
    if kind == "all_reduce":
        spec["bytes"] = max(size, 8)
    return spec


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    mtu = draw(st.sampled_from([256, 1000, 1500, 4096, 8192]))
    faults = [
        [],
        ["t1 0 plane 0 down"],
        ["host 1 plane 0 rate 50%"],
        ["t0 0 rate 25%"],
        ["host 3 loss 1%"],
        ["plane 0 duplicate 10%"],
    ]
    return {
        "fabric": draw(fabrics()),
        "workload": draw(workloads(mtu)),
        "payload_mtu": mtu,
        "nic": {
            "latency": draw(st.sampled_from(["0", "600ns"])),
            "doorbell": draw(st.sampled_from(["0", "300ns"])),
            "lanes": draw(st.integers(1, 9)),
        },
        "transports": [draw(st.sampled_from(["mrc", "roce", "dctcp"]))],
        "faults": draw(st.sampled_from(faults)),
        "seed": draw(st.integers(0, 2**31)),
        "duration": "50ms",
        "watch": {"series": []},
    }


@settings(
    max_examples=int(os.environ.get("OPENMRC_SCENARIOS", "0")) or settings.default.max_examples * 3 // 2,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(scenarios())
def test_no_run_is_faster_than_its_ideals(scenario: dict[str, Any]) -> None:
    made = make_scenario(**scenario)
    (one,) = run(made)
    bounds = ideals_of(made, made.transports[0], build_graph(made))
    flows, sends = one.flows, one.flows["op"]
    received, completed = flows["received_ps"] >= 0, flows["completed_ps"] >= 0
    assert not np.any((flows["fct_ps"] < bounds.received_ps[sends])[received]), scenario
    assert not np.any((flows["acked_ps"] < bounds.completed_ps[sends])[completed]), scenario
    if received.all():
        assert flows["received_ps"].max() >= bounds.graph_received_ps, scenario
    if completed.all():
        assert flows["completed_ps"].max() >= bounds.graph_completed_ps, scenario
