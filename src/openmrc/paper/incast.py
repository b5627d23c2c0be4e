"""7:1 incast with a victim flow beside it (Figures 18 and 21; cluster D)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from openmrc.paper.clusters import NIC_D, PFC, cluster_d, writes
from openmrc.paper.experiment import Experiment, Outcome, Results, Runs, goodput_gbps, window_mean
from openmrc.paper.finding import Measure, find
from openmrc.paper.plot import Line, Plot
from openmrc.sim import TransportResult

__all__ = ["EXPERIMENTS"]

RECEIVER, VICTIM_DESTINATION = 0, 1  # in rack 0
SENDERS = tuple(range(4, 11))  # the hosts of racks 1 and 2, but the last, which is the victim's source
VICTIM_SOURCE = 11
RATE_GBPS = 400.0
BEGINS_MS = 1.0
EDGE_MS = 0.3  # until the first flow has reached its rate


def _scenario(
    transport: Mapping[str, Any], run_ms: float, sample_ms: float, *, lanes: int = 1, seed: int = 1, **fabric: Any
) -> Mapping[str, Any]:
    # Small writes, for a fine resolution of each sender's progress.
    rush = [
        writes(sender, RECEIVER, run_ms, RATE_GBPS / 2, size=100_000, start=f"{BEGINS_MS}ms", job="incast")
        for sender in SENDERS
    ]
    victim = writes(VICTIM_SOURCE, VICTIM_DESTINATION, run_ms, RATE_GBPS, job="victim")
    return {
        "fabric": cluster_d(**fabric),
        "nic": {**NIC_D, "lanes": lanes},
        "transports": transport,
        "workload": {"name": "flows", "flows": [*rush, victim]},
        "duration": f"{run_ms}ms",
        "sample": f"{sample_ms}ms",
        "seed": seed,
        "watch": {"hosts": [RECEIVER, VICTIM_DESTINATION], "series": ["hosts"]},
    }


MRC: Mapping[str, Any] = {"mrc": {}}
ROCE: Mapping[str, Any] = {"roce": {}}
PFC_ONLY: Mapping[str, Any] = {"roce": {"dcqcn": "off"}}


class _Victim:
    """The victim's goodput over time, and the effect of the incast on it."""

    def __init__(self, result: TransportResult) -> None:
        self.x, self.y = goodput_gbps(result, VICTIM_DESTINATION)
        self.before = window_mean(self.x, self.y, EDGE_MS, BEGINS_MS)

    def mean(self, start_ms: float) -> float:
        return window_mean(self.x, self.y, start_ms, float(self.x[-1]))

    def lowest(self) -> float:
        return float(self.y[self.x > BEGINS_MS].min())

    def line(self, name: str) -> Line:
        return Line(name, self.x, self.y)


def _jain(result: TransportResult, start_ms: float) -> float:
    """Jain's index of the senders' progress from some time on."""
    flows = result.flows
    counted = flows["received_ps"] > start_ms * 1e9
    sent = np.array([flows["bytes"][counted & (flows["host"] == sender)].sum() for sender in SENDERS], dtype=float)
    return float(sent.sum() ** 2 / (len(sent) * np.square(sent).sum()))


def _seeds(quick: bool) -> range:
    """Seeds of RoCE's runs; the hash determines which flows collide on a spine."""
    return range(1, 3 if quick else 7)


def _roce_ms(quick: bool) -> float:
    return 12.0 if quick else 60.0


def _mrc_ms(quick: bool) -> float:
    return 4.0 if quick else 60.0


def _runs_18(quick: bool) -> Runs:
    roce_ms, mrc_ms = _roce_ms(quick), _mrc_ms(quick)
    runs = {
        "mrc": _scenario(MRC, mrc_ms, 0.1, trim="on", routing="modulo"),
        "mrc marked": _scenario(MRC, mrc_ms / 2, 0.1, trim="on", routing="modulo", ecn={"last_hop": True}),
    }
    for seed in _seeds(quick):
        # Several QPs recover their rate soon, a single one takes long.
        for lanes, run_ms in ((1, roce_ms), (8, roce_ms / 3), (10, roce_ms / 3)):
            runs[f"dcqcn {lanes}/{seed}"] = _scenario(ROCE, run_ms, 0.5, lanes=lanes, seed=seed, **PFC)
    return runs


def _judge_18(results: Results, quick: bool) -> Outcome:
    victims = {name: _Victim(result) for name, result in results.items()}
    left = {name: 100 * victim.mean(float(victim.x[-1]) / 2) / victim.before - 100 for name, victim in victims.items()}
    untouched = 100 * victims["mrc"].mean(BEGINS_MS) / victims["mrc"].before - 100
    retransmitted = {name: 100 * float(result.summary["retransmitted_share"]) for name, result in results.items()}
    one = [left[f"dcqcn 1/{seed}"] for seed in _seeds(quick)]
    dips = [victims[f"dcqcn {lanes}/{seed}"].lowest() for lanes in (8, 10) for seed in _seeds(quick)]
    jain = _jain(results["mrc"], _mrc_ms(quick) / 2)
    unsettled = "DCQCN has not recovered yet in this short run" if quick else "DCQCN settles at another rate"
    measures = [
        Measure("MRC victim", untouched, "%", -1.0, None, digits=2),
        Measure(
            "Jain index of MRC's senders",
            jain,
            "",
            0.99,
            why="marking is off at the last hop, as deployed, so NSCC gets only trims from it and converges slowly",
            digits=4,
        ),
        Measure("retransmitted", retransmitted["mrc"], "%", digits=1),
        Measure("with marks on the last hop, an option: Jain index", _jain(results["mrc marked"], BEGINS_MS), digits=4),
        Measure("retransmitted then", retransmitted["mrc marked"], "%", digits=1),
        Measure("DCQCN 1 QP: victim in the second half, worst seed", min(one), "%", -40, -15, why=unsettled),
        Measure("median", float(np.median(one)), "%"),
        Measure("8-10 QPs: victim dips to, median", float(np.median(dips)), "Gb/s", 30, 160),
        Measure("8 QPs: victim in the second half, worst", min(left[f"dcqcn 8/{seed}"] for seed in _seeds(quick)), "%"),
    ]
    finding = find(
        "18",
        TITLE_18,
        "DCQCN 1 QP: victim -25 %; 8-10 QPs: dips to 100 Gb/s; MRC: victim untouched, senders share nearly equally",
        measures,
        f"runs of {_roce_ms(quick):g} ms (RoCE; 8 and 10 QPs a third of it; {len(one)} seeds, since the hash "
        f"determines which flows share a spine) and {_mrc_ms(quick):g} ms (MRC), real time; DCQCN with the values of "
        "its paper, PFC and marking thresholds by the bandwidth-delay product; MRC over EVs that name the uplinks. The "
        "paper shows one run, so the bound for 1 QP applies to the worst seed",
    )
    names = {"mrc": "MRC", "dcqcn 1/1": "DCQCN, 1 QP", "dcqcn 8/1": "DCQCN, 8 QPs", "dcqcn 10/1": "DCQCN, 10 QPs"}
    lines = tuple(victims[name].line(shown) for name, shown in names.items())
    plot = Plot("fig18", "Goodput of the victim", "ms", "Gb/s", lines, events=((BEGINS_MS, "incast begins"),))
    return Outcome(finding, (plot,))


def _runs_21(quick: bool) -> Runs:
    run_ms = 4.0 if quick else 10.0
    runs = {f"mrc {lanes}": _scenario(MRC, run_ms, 0.1, lanes=lanes, trim="on", routing="modulo") for lanes in (1, 8)}
    for seed in _seeds(quick):
        for lanes in (1, 8):
            runs[f"pfc {lanes}/{seed}"] = _scenario(PFC_ONLY, run_ms, 0.1, lanes=lanes, seed=seed, **PFC)
    return runs


def _judge_21(results: Results, quick: bool) -> Outcome:
    victims = {name: _Victim(result) for name, result in results.items()}
    means = {name: victim.mean(BEGINS_MS + 0.2) for name, victim in victims.items()}
    ones, eights = ([means[f"pfc {lanes}/{seed}"] for seed in _seeds(quick)] for lanes in (1, 8))
    measures = [
        # Read off a picture, with a tenth of tolerance.
        Measure("PFC only, 1 QP: victim, median", float(np.median(ones)), "Gb/s", 27, 110),
        Measure("lowest", min(ones), "Gb/s"),
        Measure("highest", max(ones), "Gb/s"),
        Measure("8 QPs: victim, median", float(np.median(eights)), "Gb/s", 27, 110),
        Measure("lowest", min(eights), "Gb/s"),
        Measure("highest", max(eights), "Gb/s"),
        Measure("MRC 1 QP: victim", means["mrc 1"], "Gb/s", 386, 394, digits=1),
        Measure(
            "MRC 8 QPs: victim",
            means["mrc 8"],
            "Gb/s",
            386,
            394,
            why="56 QPs overrun the last hop for longer than 7, and trimmed headers and retries use the uplinks",
            digits=1,
        ),
    ]
    finding = find(
        "21",
        TITLE_21,
        "victim at 30-100 Gb/s with PFC alone; MRC with 8 QPs as with 1",
        measures,
        f"runs of {4 if quick else 10} ms, real time, {len(ones)} seeds for RoCE's hash; PFC thresholds by the "
        "bandwidth-delay product",
    )
    names = {"pfc 1/1": "PFC only, 1 QP", "pfc 8/1": "PFC only, 8 QPs", "mrc 1": "MRC, 1 QP", "mrc 8": "MRC, 8 QPs"}
    lines = tuple(victims[name].line(shown) for name, shown in names.items())
    plot = Plot("fig21", "Goodput of the victim", "ms", "Gb/s", lines, events=((BEGINS_MS, "incast begins"),))
    return Outcome(finding, (plot,))


TITLE_18 = "7:1 incast with a victim flow, DCQCN and MRC"
TITLE_21 = "7:1 incast with a victim flow, PFC only"
EXPERIMENTS = (Experiment("18", TITLE_18, _runs_18, _judge_18), Experiment("21", TITLE_21, _runs_21, _judge_21))
