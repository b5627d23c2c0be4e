"""The simulator against the ideals: nothing in a run is faster, and a lone packet takes exactly that long."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openmrc.sim import make_scenario, run
from openmrc.sim.result import TransportResult

TWO_TIERS = {"planes": 1, "hosts": 32, "hosts_per_t0": 8, "t1s": 8, "rate": "100G", "delay": "1us", "trim": "on"}
FABRICS: dict[str, dict[str, Any]] = {
    "one plane": TWO_TIERS,
    "eight planes": TWO_TIERS | {"planes": 8},
    "three tiers": TWO_TIERS
    | {
        "hosts_per_t0": 4,
        "t1s": 4,
        "tiers": 3,
        "t0s_per_pod": 4,
        "t1_uplinks": 4,
        "rate": {"nic": "100G", "t1": "50G"},
    },
    "two sites": TWO_TIERS | {"sites": 2, "site_link": {"delay": "100us"}},
}
WORKLOADS: dict[str, dict[str, Any]] = {
    "permutation": {"name": "permutation", "bytes": "100kB"},
    "ring": {"name": "all_reduce", "bytes": "256KiB"},
    "training": {"name": "training", "bytes": "256KiB", "forward": "5us", "buckets": 2, "steps": 2, "group_size": 8},
}


def result_of(fabric: dict[str, Any], workload: Any, transport: str = "mrc", **more: Any) -> TransportResult:
    nic = {"latency": "300ns", "doorbell": "200ns"}
    settings = {"fabric": fabric, "workload": workload, "duration": "50ms", "transports": [{"kind": transport}]}
    (result,) = run(make_scenario(nic=nic, **settings, **more)).transports.values()
    assert result.summary["verdict"] == "done"
    return result


def check(result: TransportResult) -> None:
    late_ps = np.asarray(result.flows["fct_ps"]) - np.asarray(result.flows["ideal_ps"])
    assert late_ps.min() >= 0
    assert result.summary["slowest_over_ideal"] >= 1


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("fabric", FABRICS)
def test_no_run_is_faster_than_its_ideal(fabric: str, workload: str) -> None:
    check(result_of(FABRICS[fabric], WORKLOADS[workload]))


@pytest.mark.parametrize("transport", ["roce", "dctcp"])
@pytest.mark.parametrize("workload", ["ring", "training"])
def test_nor_with_another_transport(transport: str, workload: str) -> None:
    check(result_of(TWO_TIERS, WORKLOADS[workload], transport))


def test_nor_with_a_slow_spine() -> None:
    spec = WORKLOADS["permutation"] | {"across_t0s": True}
    check(result_of(TWO_TIERS, spec, faults=["t1 0 rate 25%"]))


@pytest.mark.parametrize("fabric", FABRICS)
def test_one_packet_alone_takes_its_ideal(fabric: str) -> None:
    """Beyond the minimum headers there is an ImmDt of four bytes, sent by up to six links."""
    flow = {"source": 0, "destination": 31, "bytes": 4096}
    result = result_of(FABRICS[fabric], {"name": "flows", "flows": [flow]})
    assert 0 <= int(result.flows["fct_ps"][0] - result.flows["ideal_ps"][0]) <= 6 * 4 * 160 + 10
