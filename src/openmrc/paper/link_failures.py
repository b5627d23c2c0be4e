"""Links, T0s and T1s that fail under full load in both directions (Figures 9a to 9d, 10 and 11; cluster B)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openmrc.paper.clusters import NIC_B, cluster_b, pair
from openmrc.paper.experiment import Experiment, Floats, Outcome, Results, Runs, goodput_gbps, window_mean
from openmrc.paper.finding import Measure, find
from openmrc.paper.plot import Line, Plot

__all__ = ["EXPERIMENTS"]

HOSTS = (0, 2)  # under different T0s
LINE_GBPS = 800.0
T1S = 32
SAMPLE_MS = 0.2
SCALE = (
    "1 s of the paper is 1 ms here and its 200 ms samples are 0.2 ms, but MRC's timers are not scaled: it has a "
    "thousandth of the paper's time for a repair; one pair of hosts"
)


def _scenario(faults: Sequence[str], run_ms: float) -> Mapping[str, Any]:
    return {
        "fabric": cluster_b(t1s=T1S),
        "nic": {**NIC_B, "lanes": 4},
        "transports": {"mrc": {"active_per_port": 16}},
        "workload": pair(*HOSTS, run_ms, LINE_GBPS),
        "faults": list(faults),
        "duration": f"{run_ms}ms",
        "sample": f"{SAMPLE_MS}ms",
        "watch": {"hosts": list(HOSTS), "series": ["hosts"]},
    }


class _Rates:
    """Goodput of both directions, and its level before the first failure."""

    def __init__(self, results: Results, first_fault_ms: float) -> None:
        self.ways = [goodput_gbps(results["run"], host) for host in HOSTS]
        self.healthy = [window_mean(*way, 2 * SAMPLE_MS, first_fault_ms) for way in self.ways]

    def share(self, start_ms: float, end_ms: float) -> float:
        """Remaining share of the healthy goodput in a time, of the worse direction."""
        both = zip(self.ways, self.healthy, strict=True)
        return min(window_mean(*way, start_ms, end_ms) / healthy for way, healthy in both)

    def worst_sample(self, start_ms: float, end_ms: float) -> float:
        """The lowest single sample in a time as a share of the healthy goodput."""
        both = zip(self.ways, self.healthy, strict=True)
        return min(float(y[(x > start_ms) & (x <= end_ms)].min()) / healthy for (x, y), healthy in both)

    def disturbed_ms(self, start_ms: float, end_ms: float) -> float:
        """Time after `start_ms` during which samples are more than 1 % below their final level before `end_ms`."""
        return max(self._disturbed(x, y, start_ms, end_ms) for x, y in self.ways)

    @staticmethod
    def _disturbed(x: Floats, y: Floats, start_ms: float, end_ms: float) -> float:
        settled = window_mean(x, y, (start_ms + end_ms) / 2, end_ms)
        inside = (x > start_ms) & (x <= end_ms)
        below = np.flatnonzero(y[inside] < 0.99 * settled)
        return float(below[-1] + 1) * SAMPLE_MS if len(below) else 0.0

    def plot(self, figure: str, title: str, events: Sequence[tuple[float, str]]) -> Plot:
        """Both directions over time."""
        lines = [Line(f"host {host} receives", x, y) for host, (x, y) in zip(HOSTS, self.ways, strict=True)]
        return Plot(f"fig{figure}", title, "ms (1 ms stands for 1 s)", "Gb/s", tuple(lines), events=tuple(events))


def _nic_links(quick: bool) -> tuple[int, float]:
    return (3, 1.2) if quick else (6, 2.0)


def _runs_9a(quick: bool) -> Runs:
    links, apart_ms = _nic_links(quick)
    faults = [f"host 0 plane {plane} down at {apart_ms * (plane + 1):g}ms" for plane in range(links)]
    return {"run": _scenario(faults, apart_ms * (links + 1))}


def _judge_9a(results: Results, quick: bool) -> Outcome:
    links, apart_ms = _nic_links(quick)
    rates = _Rates(results, apart_ms)
    shares = [rates.share(apart_ms * (at + 0.5), apart_ms * (at + 1)) for at in range(1, links + 1)]
    steps = -np.diff([1.0, *shares]) * min(rates.healthy)
    disturbed = [rates.disturbed_ms(apart_ms * at, apart_ms * (at + 1)) for at in range(1, links + 1)]
    finding = find(
        "9a",
        TITLES["9a"],
        "a staircase of 100 Gb/s per link in both directions, each step with less than 1 s of disturbance",
        [
            Measure("smallest step", float(steps.min()), "Gb/s", 90, 105, digits=1),
            Measure("largest step", float(steps.max()), "Gb/s", 90, 105, digits=1),
            Measure("longest disturbance", max(disturbed), "ms", None, 1.0, digits=1),
        ],
        SCALE,
    )
    events = [(apart_ms * (plane + 1), f"plane {plane}") for plane in range(links)]
    return Outcome(finding, (rates.plot("9a", TITLES["9a"], events),))


def _times_9b(quick: bool) -> tuple[float, float, float]:
    return (1.0, 3.0, 5.0) if quick else (5.0, 17.0, 22.0)


def _runs_9b(quick: bool) -> Runs:
    start, end, run_ms = _times_9b(quick)
    faults = [f"host 0 plane {plane} down at {start}ms for {end - start}ms" for plane in range(4)]
    return {"run": _scenario(faults, run_ms)}


def _judge_9b(results: Results, quick: bool) -> Outcome:
    start, end, run_ms = _times_9b(quick)
    rates = _Rates(results, start)
    measures = [
        Measure("with 4 of 8 links", 100 * rates.share(start + 2 * SAMPLE_MS, end), "%", 47, 51, digits=1),
        Measure("after their return", 100 * rates.share(end + 2 * SAMPLE_MS, run_ms), "%", 99, 101.5, digits=1),
        Measure("back at full rate after", rates.disturbed_ms(end, run_ms), "ms", None, 1.0, digits=1),
    ]
    saw = "about half the rate from 5 s until the links are back near 17 s, then all of it"
    finding = find("9b", TITLES["9b"], saw, measures, SCALE)
    return Outcome(finding, (rates.plot("9b", TITLES["9b"], [(start, "4 links down"), (end, "back")]),))


def _fabric_links(quick: bool) -> int:
    return 5 if quick else 20


def _runs_9c(quick: bool) -> Runs:
    count = _fabric_links(quick)
    # Over all planes in turn and far apart within each.
    faults = [f"t0 0 t1 {3 * at % T1S} plane {at % 8} down at {1 + at}ms" for at in range(count)]
    return {"run": _scenario(faults, count + 2)}


def _judge_9c(results: Results, quick: bool) -> Outcome:
    count = _fabric_links(quick)
    rates = _Rates(results, 1.0)
    lost = 100 * (1 - rates.share(1.0, count + 2))
    worst = 100 * (1 - rates.worst_sample(1.0, count + 2))
    measures = [
        Measure("links killed", count),
        Measure("mean loss of throughput", lost, "%", None, 1.0, digits=2),
        Measure("in the worst sample", worst, "%", None, 1.0, digits=2),
    ]
    saw = "20 T0-T1 links killed, one per second: minimal effect in 200 ms samples"
    finding = find("9c", TITLES["9c"], saw, measures, SCALE)
    return Outcome(finding, (rates.plot("9c", TITLES["9c"], [(1.0 + at, "") for at in range(count)]),))


def _runs_9d(quick: bool) -> Runs:
    faults = [f"t0 0 t1 {3 * at} plane {at} down at 1ms every 2ms" for at in range(8)]
    return {"run": _scenario(faults, 5 if quick else 13)}


def _judge_9d(results: Results, quick: bool) -> Outcome:
    run_ms = 5.0 if quick else 13.0
    rates = _Rates(results, 1.0)
    measures = [
        Measure("mean loss of throughput", 100 * (1 - rates.share(1.0, run_ms)), "%", None, 1.0, digits=2),
        Measure("in the worst sample", 100 * (1 - rates.worst_sample(1.0, run_ms)), "%", None, 1.0, digits=2),
    ]
    saw = "8 T0-T1 links flap: negligible effect"
    finding = find("9d", TITLES["9d"], saw, measures, f"{SCALE}; each link is down for 1 ms of every 2 ms")
    events = [(1.0 + 2 * turn, "") for turn in range(int(run_ms) // 2)]
    return Outcome(finding, (rates.plot("9d", TITLES["9d"], events),))


def _runs_10(quick: bool) -> Runs:
    return {"run": _scenario(["t0 0 plane 3 down at 1ms"], 4 if quick else 10)}


def _judge_10(results: Results, quick: bool) -> Outcome:
    run_ms = 4.0 if quick else 10.0
    rates = _Rates(results, 1.0)
    lost = (1 - rates.share(2.0, run_ms)) * min(rates.healthy)
    measures = [
        Measure("steady loss", lost, "Gb/s", 90, 105, digits=1),
        Measure("disturbance", rates.disturbed_ms(1.0, run_ms), "ms", None, 1.0, digits=1),
    ]
    finding = find("10", TITLES["10"], "100 Gb/s less, steady", measures, SCALE)
    return Outcome(finding, (rates.plot("10", TITLES["10"], [(1.0, "T0 down")]),))


def _runs_11(quick: bool) -> Runs:
    return {"run": _scenario(["t1 5 plane 3 down at 1ms"], 4 if quick else 10)}


def _judge_11(results: Results, quick: bool) -> Outcome:
    run_ms = 4.0 if quick else 10.0
    rates = _Rates(results, 1.0)
    measures = [
        Measure("steady loss", 100 * (1 - rates.share(2.0, run_ms)), "%", None, 1.0, digits=2),
        Measure("worst sample", 100 * (1 - rates.worst_sample(1.0, run_ms)), "%", digits=2),
    ]
    finding = find("11", TITLES["11"], "no steady loss with 4 QPs", measures, SCALE)
    return Outcome(finding, (rates.plot("11", TITLES["11"], [(1.0, "T1 down")]),))


TITLES: Mapping[str, str] = {
    "9a": "NIC-T0 links of a host fail one after another",
    "9b": "4 of 8 NIC-T0 links down, then back",
    "9c": "T0-T1 links killed one by one",
    "9d": "8 T0-T1 links flap",
    "10": "one T0 down",
    "11": "one T1 down",
}
EXPERIMENTS = (
    Experiment("9a", TITLES["9a"], _runs_9a, _judge_9a),
    Experiment("9b", TITLES["9b"], _runs_9b, _judge_9b),
    Experiment("9c", TITLES["9c"], _runs_9c, _judge_9c),
    Experiment("9d", TITLES["9d"], _runs_9d, _judge_9d),
    Experiment("10", TITLES["10"], _runs_10, _judge_10),
    Experiment("11", TITLES["11"], _runs_11, _judge_11),
)
