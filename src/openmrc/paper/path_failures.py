"""Single EVs: a lossy one (Figures 12 and 13), and one shared by two flows (Figure 14)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from openmrc.paper.clusters import NIC_B, cluster_b, writes
from openmrc.paper.experiment import Experiment, Outcome, Results, Runs, goodput_gbps, window_mean
from openmrc.paper.finding import Measure, find
from openmrc.paper.plot import Line, Plot
from openmrc.sim import TransportResult
from openmrc.verbs.enums import EvState

__all__ = ["EXPERIMENTS"]

RATE_GBPS = 800.0
SOURCE, DESTINATION = 0, 2
SAMPLE_MS = 0.1
REPLACED, ASSUMED_BAD = 0, int(EvState.ASSUMED_BAD)  # states in the table of path events

# 16 EVs are 2 on each plane. Each plane has 4 paths, so that 2 are left as backups: every EV is known by number, and
# half of them are in use. The fault names an EV; the EVs in use depend on the seed, so all four of a plane are tried,
# in a run of their own.
EVS_ON_PLANE_0 = range(4)
LOSS_AT_MS = 1.0


def _lossy_scenario(ev: int, run_ms: float) -> Mapping[str, Any]:
    return {
        "fabric": cluster_b(t1s=4),
        "nic": NIC_B,
        "transports": {"mrc": {"active_per_port": 2, "universe_per_port": 4}},
        "workload": {"name": "flows", "flows": [writes(SOURCE, DESTINATION, run_ms, RATE_GBPS)]},
        "faults": [f"plane 0 loss 20% ev {ev} at {LOSS_AT_MS}ms"],
        "duration": f"{run_ms}ms",
        "sample": f"{SAMPLE_MS}ms",
        "watch": {"hosts": [SOURCE, DESTINATION], "series": ["hosts", "paths"]},
    }


def _runs_12(quick: bool) -> Runs:
    return {f"EV {ev}": _lossy_scenario(ev, 2.5 if quick else 8.0) for ev in EVS_ON_PLANE_0}


@dataclass(frozen=True)
class _Change:
    """Times in microseconds from the start of the loss until an EV left and until another replaced it."""

    left_us: float
    replaced_us: float | None
    replacement: int

    def plot(self, ev: int) -> Plot:
        """The EV in use over time, of the two."""
        end = 4 * self.left_us
        came = end if self.replaced_us is None else self.replaced_us
        lines = (
            Line(f"EV-A ({ev})", [-end, self.left_us, end], [1, 1, 0]),
            Line(f"EV-B ({self.replacement})", [-end, came, end], [0, 0, 1]),
        )
        return Plot("fig13", "EVs in use", "us since the loss began", "in use", lines, events=((0.0, "loss begins"),))


def _change_of(ev: int, result: TransportResult) -> _Change | None:
    """Fate of an EV; None if it was not in use, and so lost nothing."""
    events = result.series.get("path_events")
    if events is None:
        return None
    of_ev = (events["ev"] == ev) & (events["host"] == SOURCE)
    since_us = events["time_ps"] / 1e6 - 1000 * LOSS_AT_MS
    bad, taken = np.flatnonzero(of_ev & (events["state"] == ASSUMED_BAD)), of_ev & (events["state"] == REPLACED)
    if not len(bad):
        return None
    came = np.flatnonzero(taken)
    replacement = int(events["replacement"][came[0]]) if len(came) else -1
    return _Change(float(since_us[bad[0]]), float(since_us[came[0]]) if len(came) else None, replacement)


def _judge_12(results: Results, quick: bool) -> Outcome:
    run_ms = 2.5 if quick else 8.0
    leaves_us, replaced, changes = [], 0, []
    plots: tuple[Plot, ...] = ()
    for ev in EVS_ON_PLANE_0:
        result = results[f"EV {ev}"]
        x, y = goodput_gbps(result, DESTINATION)
        healthy = window_mean(x, y, 2 * SAMPLE_MS, LOSS_AT_MS)
        changes.append(100 * float(np.abs(y[x > LOSS_AT_MS] / healthy - 1).max()))
        change = _change_of(ev, result)
        if change is not None:
            leaves_us.append(change.left_us)
            replaced += change.replaced_us is not None
            begin = ((LOSS_AT_MS, f"20 % loss on EV {ev}"),)
            rate = Plot("fig12", TITLE_12, "ms", "Gb/s", (Line("goodput", x, y),), events=begin)
            plots = (rate, change.plot(ev))
    measures = [
        Measure("EVs tried that were in use", len(leaves_us), low=1),
        Measure("latest to leave", max(leaves_us, default=float("nan")), "us", None, 1000, digits=0),
        Measure("replaced", 100 * replaced / max(len(leaves_us), 1), "%", 100, 100),
        Measure("largest change of rate in a sample", max(changes), "%", None, 1.0, digits=2),
    ]
    finding = find(
        "12/13",
        TITLE_12,
        "EV-A leaves at once, EV-B enters, the line rate is kept (200 ms samples)",
        measures,
        f"samples of {SAMPLE_MS} ms in a run of {run_ms:g} ms, real time; every path of plane 0 in turn, since the "
        "seed determines which two of its four are in use",
    )
    return Outcome(finding, plots)


FORCED_FROM_MS, FORCED_UNTIL_MS = 1.0, 3.0
GAP_US = 18  # between writes of 1 MB: 444 Gb/s, so that two flows are more than one 100G path of plane 0 can carry


def _runs_14(quick: bool) -> Runs:
    run_ms = 4.0 if quick else 6.0
    flow = {"bytes": 1_000_000, "gap": f"{GAP_US}us", "count": int(run_ms * 1000 / GAP_US) + 8, "parallel": 16}
    return {
        "run": {
            "fabric": cluster_b(t1s=2),
            "nic": NIC_B,
            "transports": {"mrc": {"active_per_port": 2, "universe_per_port": 2, "probe_interval": "200us"}},
            "workload": {"name": "flows", "flows": [{"source": at, "destination": at + 2, **flow} for at in (0, 1)]},
            "faults": [f"t1 1 plane 0 down at {FORCED_FROM_MS}ms for {FORCED_UNTIL_MS - FORCED_FROM_MS}ms"],
            "duration": f"{run_ms}ms",
            "sample": f"{SAMPLE_MS}ms",
            "watch": {"hosts": [0, 1, 2, 3], "series": ["hosts", "planes", "queues"]},
        }
    }


def _judge_14(results: Results, quick: bool) -> Outcome:
    run_ms = 4.0 if quick else 6.0
    result = results["run"]
    shares = []
    lines = []
    for host in (2, 3):
        x, y = goodput_gbps(result, host)
        before = window_mean(x, y, 0.2, FORCED_FROM_MS)
        shares.append(100 * window_mean(x, y, FORCED_FROM_MS + 0.2, FORCED_UNTIL_MS) / before)
        lines.append(Line(f"flow to host {host}", x, y))
    drops = result.summary["drops"]
    retransmitted = 100 * float(result.summary["retransmitted_share"])
    measures = [
        Measure("slower flow while forced, of its rate before", min(shares), "%", 98, None, digits=1),
        Measure("packets dropped by queues", drops["queue"] + drops["control_queue"], high=0),
        Measure("marked", result.summary["marks"], low=1),
        Measure("trimmed and sent again", retransmitted, "%", digits=2),
    ]
    finding = find(
        "14",
        TITLE_14,
        "two flows forced onto EV-A at about 65 s: ECN moves one of them to EV-B, no loss",
        measures,
        "the simulator cannot set the EV of a running flow, so EV-B's T1 is removed from plane 0 for 2 ms, which "
        "forces both flows onto EV-A; each offers 444 Gb/s, together more than EV-A carries; EV probes every 0.2 ms "
        f"(10 ms by default) in this run of {run_ms:g} ms, so that EV-B returns in time. Trimmed packets are sent "
        "again and do not count as lost",
    )
    events = ((FORCED_FROM_MS, "EV-B gone"), (FORCED_UNTIL_MS, "EV-B back"))
    return Outcome(finding, (Plot("fig14", TITLE_14, "ms", "Gb/s", tuple(lines), events=events),))


TITLE_12 = "20 % loss on one of 16 EVs"
TITLE_14 = "two flows on one EV"
EXPERIMENTS = (
    Experiment("12/13", TITLE_12, _runs_12, _judge_12),
    Experiment("14", TITLE_14, _runs_14, _judge_14),
)
