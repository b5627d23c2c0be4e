"""Links that are removed (Figure 19), and eight hosts that write to eight others (Figure 20; cluster D)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from openmrc.paper.clusters import NIC_D, PFC, cluster_d, pair, writes
from openmrc.paper.experiment import Experiment, Outcome, Results, Runs, goodput_gbps, window_mean
from openmrc.paper.finding import Measure, find
from openmrc.paper.plot import Line, Plot

__all__ = ["EXPERIMENTS"]

LINE_GBPS = 390.0  # 4,096 of every 4,198 bytes at 400 Gb/s
FIRST_MS, APART_MS = 1.0, 1.0
REMOVED = 3
TRIMS = (
    "if the fabric has less capacity than the NIC, NSCC's reaction to trims keeps the window below the capacity; if "
    "the last EV in use is dead, min_active keeps it in use until three probes, 10 ms apart, have restored another one"
)


def _removal(*, slow: bool, trim: str = "on") -> Mapping[str, Any]:
    """Two hosts that write to each other across T1; one's T0 loses its uplinks one after another."""
    run_ms = FIRST_MS + APART_MS * (REMOVED + 1)
    rate = {"rate": {"nic": "400Gbit", "t0": "100Gbit"}} if slow else {}
    return {
        "fabric": cluster_d(trim=trim, routing="modulo", **rate),
        "nic": NIC_D,
        "workload": pair(0, 4, run_ms, 400),
        "faults": [f"t0 0 t1 {at} down at {FIRST_MS + APART_MS * at}ms" for at in range(REMOVED)],
        "duration": f"{run_ms}ms",
        "sample": "100us",
        "watch": {"hosts": [4], "series": ["hosts"]},
    }


def _runs_19(_quick: bool) -> Runs:
    return {
        "400G links": _removal(slow=False),
        "100G links": _removal(slow=True),
        "100G links, no trimming": _removal(slow=True, trim="off"),
    }


def _judge_19(results: Results, _quick: bool) -> Outcome:
    series = {name: goodput_gbps(result, 4) for name, result in results.items()}
    levels = {
        name: [
            window_mean(x, y, FIRST_MS + APART_MS * (at - 0.5), FIRST_MS + APART_MS * at) for at in range(REMOVED + 1)
        ]
        for name, (x, y) in series.items()
    }
    fast = levels["400G links"]
    measures = [
        Measure("400G links, 3 of 4 removed", 100 * fast[REMOVED] / fast[0], "% of before", 99, 101, digits=1),
    ]
    shares = {
        name: [100 * rates[at] / (rates[0] * (4 - at) / 4) for at in range(1, REMOVED + 1)]
        for name, rates in levels.items()
    }
    for at, share in enumerate(shares["100G links"], 1):
        measures.append(Measure(f"100G links, {4 - at} of 4 left", share, "% of what they carry", 95, 101, why=TRIMS))
    least = min(shares["100G links, no trimming"])
    measures.append(Measure("without trimming, an option, at least", least, "% of what they carry"))
    saw = "no effect with 400G links; with 100G links the rate follows the remaining capacity"
    setting = "two hosts that write to each other; a link is removed every 1 ms, real time; EVs that name the uplinks"
    finding = find("19", TITLE_19, saw, measures, setting)
    events = tuple((FIRST_MS + APART_MS * at, f"link {at}") for at in range(REMOVED))
    lines = tuple(Line(name, x, y) for name, (x, y) in series.items())
    return Outcome(finding, (Plot("fig19", TITLE_19, "ms", "Gb/s", lines, events=events),))


PAIRS = tuple((source, 8 + (3 * source + 1) % 8) for source in range(8))
SEEDS = (1, 2, 3)


def _permutation(
    transport: Mapping[str, Any], run_ms: float, seed: int, lanes: int, **fabric: Any
) -> Mapping[str, Any]:
    return {
        "fabric": cluster_d(**fabric),
        "nic": {**NIC_D, "lanes": lanes},
        "transports": transport,
        "workload": {"name": "flows", "flows": [writes(*ends, run_ms, 400) for ends in PAIRS]},
        "duration": f"{run_ms}ms",
        "sample": "200us",
        "seed": seed,
        "watch": {"hosts": list(range(8, 16)), "series": ["hosts"]},
    }


def _times_20(quick: bool) -> tuple[float, float, tuple[int, ...]]:
    return (2.0, 3.0, SEEDS[:1]) if quick else (6.0, 40.0, SEEDS)


def _runs_20(quick: bool) -> Runs:
    run_ms, dcqcn_ms, seeds = _times_20(quick)
    off = {"roce": {"dcqcn": "off"}}
    runs: dict[str, Mapping[str, Any]] = {}
    for seed in seeds:
        runs[f"MRC/{seed}"] = _permutation({"mrc": {}}, run_ms, seed, 1, trim="on", routing="modulo")
        runs[f"MRC, hashed EVs/{seed}"] = _permutation({"mrc": {}}, run_ms, seed, 1, trim="on")
        runs[f"RoCE, PFC, 1 QP/{seed}"] = _permutation(off, run_ms, seed, 1, **PFC)
        runs[f"RoCE, PFC, 8 QPs/{seed}"] = _permutation(off, run_ms, seed, 8, **PFC)
        runs[f"RoCE, DCQCN, 1 QP/{seed}"] = _permutation({"roce": {}}, dcqcn_ms, seed, 1, **PFC)
    return runs


def _judge_20(results: Results, _quick: bool) -> Outcome:
    rates: dict[str, list[float]] = {}
    for run, result in results.items():
        name = run.split("/")[0]
        for host in range(8, 16):
            x, y = goodput_gbps(result, host)
            rates.setdefault(name, []).append(window_mean(x, y, float(x[-1]) / 2, float(x[-1])))
    one = np.array(rates["RoCE, PFC, 1 QP"])
    shared = one[one < 0.75 * LINE_GBPS]  # shared a link with another flow
    measures = [
        Measure("slowest MRC flow", min(rates["MRC"]), "Gb/s", LINE_GBPS * 0.99, digits=1),
        Measure("fastest MRC flow", max(rates["MRC"]), "Gb/s", None, LINE_GBPS * 1.01, digits=1),
        Measure("RoCE 1 QP flows at or below one half", 100 * len(shared) / len(one), "%", 10, 90),
        Measure("slowest of them", float(shared.min(initial=LINE_GBPS)), "Gb/s", LINE_GBPS / 5, 0.51 * LINE_GBPS),
        Measure("RoCE 8 QPs, mean", float(np.mean(rates["RoCE, PFC, 8 QPs"])), "Gb/s"),
        Measure("slowest", min(rates["RoCE, PFC, 8 QPs"]), "Gb/s", None, 0.95 * LINE_GBPS),
        Measure("MRC over hashed EVs, slowest", min(rates["MRC, hashed EVs"]), "Gb/s"),
    ]
    finding = find(
        "20",
        TITLE_20,
        "RoCE 1 QP: some flows at one half or one third; PFC with 8 QPs marginal; MRC 390 Gb/s for all",
        measures,
        f"{len(rates['MRC']) // 8} seeds; MRC's EVs name the uplinks, as static source routes do; if switches hash the "
        "EVs, the 32 of a flow are spread unevenly over the 4 spines of a fully loaded fabric",
    )
    rank = np.arange(1, len(one) + 1) / len(one)
    lines = tuple(Line(name, np.sort(values), rank[: len(values)]) for name, values in rates.items())
    return Outcome(finding, (Plot("fig20", TITLE_20, "goodput of a flow, Gb/s", "share of flows", lines),))


TITLE_19 = "T0-T1 links removed one after another"
TITLE_20 = "permutation of 8 hosts to 8 others"
EXPERIMENTS = (Experiment("19", TITLE_19, _runs_19, _judge_19), Experiment("20", TITLE_20, _runs_20, _judge_20))
