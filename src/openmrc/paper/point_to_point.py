"""Bandwidth and latency between two hosts (protocol D.2), and send/recv around many (Figure 15)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from openmrc.paper.clusters import NIC_B, cluster_b
from openmrc.paper.experiment import Experiment, Outcome, Results, Runs
from openmrc.paper.finding import Measure, find
from openmrc.paper.plot import Bars, Line, Plot

__all__ = ["EXPERIMENTS"]

SAME_T0, ACROSS_T1 = (0, 1), (0, 2)
MESSAGE_BYTES = 32 * 1024
LINE_GBPS = 769.0  # 4,096 of every 4,262 bytes at 800 Gb/s


def _scenario(ends: tuple[int, int], message_bytes: int, count: int, lanes: int) -> Mapping[str, Any]:
    source, destination = ends
    flow = {"source": source, "destination": destination, "bytes": message_bytes, "count": count, "parallel": 128}
    return {
        "fabric": cluster_b(),
        "nic": {**NIC_B, "lanes": lanes},
        # perftest writes without immediate data, whose number in flight is limited.
        "transports": {"mrc": {"active_per_port": 16, "wimm_max": 1024}},
        "workload": {"name": "flows", "flows": [flow]},
        "watch": {"hosts": [destination], "series": ["hosts"]},
    }


def _runs(quick: bool) -> Runs:
    count = 2_000 if quick else 20_000
    return {
        "bandwidth, same T0": _scenario(SAME_T0, MESSAGE_BYTES, count, 4),
        "bandwidth, across T1": _scenario(ACROSS_T1, MESSAGE_BYTES, count, 4),
        "latency, same T0": _scenario(SAME_T0, 2, 1, 1),
        "latency, across T1": _scenario(ACROSS_T1, 2, 1, 1),
    }


def _steady_gbps(results: Results, name: str) -> float:
    """Goodput in the middle eight tenths of the transfer: without filling and draining."""
    rates = results[name].tables["series_hosts"]["goodput_bps"]
    edge = len(rates) // 10
    return float(np.mean(rates[edge : len(rates) - edge])) / 1e9


def _judge(results: Results, _quick: bool) -> Outcome:
    near, far = (_steady_gbps(results, f"bandwidth, {where}") for where in ("same T0", "across T1"))
    near_us, far_us = (
        float(results[f"latency, {where}"].flows["fct_ps"][0]) / 1e6 for where in ("same T0", "across T1")
    )
    low, high = LINE_GBPS * 0.99, LINE_GBPS * 1.01
    finding = find(
        "D2",
        TITLE,
        "about 770 Gb/s in both cases, 96 % of 800; latency of 2 B 5.09 us below one T0, 6.54 us across T1 (+1.45 us)",
        [
            Measure("same T0", near, "Gb/s", low, high, digits=1),
            Measure("across T1", far, "Gb/s", low, high, digits=1),
            Measure("2 B same T0", near_us, "us", 5.04, 5.14, digits=2),
            Measure("2 B across T1", far_us, "us", 6.47, 6.61, digits=2),
            Measure("two more hops", far_us - near_us, "us", 1.435, 1.465, digits=2),
        ],
        "the bandwidth follows from the headers alone; link delay (711 ns) and NIC latency (1,817 ns) were derived "
        "from the two published latencies, so the latencies prove only that the delays add up. Simulated messages are "
        "writes with immediate data; the limit on those in flight is raised, since perftest uses plain writes",
    )
    bars = Bars(["same T0", "across T1"], [near, far])
    plot = Plot("d2", "32 KB messages, 4 QPs", "", "Gb/s", bars=bars, limit=(770.0, "paper: 770 Gb/s"))
    return Outcome(finding, (plot,))


MB = 1_000_000


def _hosts(quick: bool) -> int:
    return 8 if quick else 32


def _runs_15(quick: bool) -> Runs:
    hosts = _hosts(quick)
    return {
        f"{size}": {
            "fabric": cluster_b(hosts=hosts, hosts_per_t0=hosts // 4, t1s=32),
            "nic": {**NIC_B, "lanes": 2},
            "transports": {"mrc": {"active_per_port": 16}},
            "workload": {"name": "neighbours", "bytes": size, "direction": "next", "order": "random"},
            "watch": {"series": []},
        }
        for size in ((8 * MB, 32 * MB) if quick else (1 * MB, 4 * MB, 16 * MB, 64 * MB))
    }


def _judge_15(results: Results, quick: bool) -> Outcome:
    sizes = [int(size) for size in results]
    slowest = [
        size / (float(result.flows["fct_ps"].max()) / 1e3) for size, result in zip(sizes, results.values(), strict=True)
    ]
    last = f"{sizes[-1] // MB} MB"
    finding = find(
        "15",
        TITLE_15,
        "up to 92 GB/s per NIC at 64 MB to 2 GB on 42,000 GPUs",
        [Measure(f"slowest pair at {last}", slowest[-1], "GB/s", 89, 96, digits=1)],
        f"{_hosts(quick)} NICs; each sends to the next one in a random order and receives from the previous one, 2 QPs",
    )
    line = Line("slowest pair", sizes, slowest, marks=True)
    plot = Plot("fig15", TITLE_15, "bytes", "GB/s per NIC", (line,), limit=(92.0, "paper: 92 GB/s"), log="x")
    return Outcome(finding, (plot,))


TITLE = "point to point, 8 x 100G, SRv6 headers, 32 KB back to back, 4 QPs"
TITLE_15 = "send/recv in a ring of all NICs"
EXPERIMENTS = (Experiment("D2", TITLE, _runs, _judge), Experiment("15", TITLE_15, _runs_15, _judge_15))
