"""15:1 incast onto one host, one more flow every few milliseconds: the need of DCQCN for PFC (Figure 22; cluster D)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from openmrc.paper.clusters import NIC_D, cluster_d, writes
from openmrc.paper.experiment import Experiment, Floats, Outcome, Results, Runs, goodput_gbps, window_mean
from openmrc.paper.finding import Measure, find
from openmrc.paper.plot import Line, Plot
from openmrc.sim import TransportResult

__all__ = ["EXPERIMENTS"]

FLOWS = 15
LINE_GBPS = 392.0  # RoCE's headers over IPv4
SAMPLE_MS = 0.5

# The marking of the switch, and DCQCN's own settings. None are published for this figure. With a ramp of 1 %, as in
# DCQCN's paper, more flows need a longer queue for their control, until PFC acts; a step at 20 kB acts at once.
SETTINGS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "default": ({"min_bytes": 100_000, "max_bytes": 1_000_000, "max_probability": "1%"}, {}),
    "aggressive": ({"threshold_bytes": 20_000}, {}),
    "most aggressive": ({"threshold_bytes": 20_000}, {"increase_timer": "300us"}),
}
XOFF_BYTES = 100_000


def _apart_ms(quick: bool) -> float:
    return 2.0 if quick else 5.0


def _runs(quick: bool) -> Runs:
    apart_ms = _apart_ms(quick)
    run_ms = apart_ms * FLOWS
    flows = [writes(1 + at, 0, run_ms, 400, start=f"{apart_ms * at}ms") for at in range(FLOWS)]
    runs: dict[str, Mapping[str, Any]] = {}
    for name, (ecn, dcqcn) in SETTINGS.items():
        pfc = {"xoff": XOFF_BYTES, "xon": XOFF_BYTES // 2}
        runs[name] = {
            "fabric": cluster_d(pfc=pfc, queue_bytes="16MB", ecn={"last_hop": True, **ecn}),
            "nic": NIC_D,
            "transports": {"roce": {"dcqcn": dcqcn}},
            "workload": {"name": "flows", "flows": flows},
            "duration": f"{run_ms}ms",
            "sample": f"{SAMPLE_MS}ms",
            "watch": {"hosts": [0], "series": ["hosts", "queues"]},
        }
    return runs


class _Steps:
    """Steady values with 1, 2, ... flows: means over the second half of the time before the next one joins."""

    def __init__(self, result: TransportResult, apart_ms: float) -> None:
        x, y = goodput_gbps(result, 0)
        pauses = result.tables["series_pauses"]
        links = pauses["paused_ps"] / 1e9 / SAMPLE_MS
        ends = apart_ms * np.arange(1, FLOWS + 1)
        self.gbps: Floats = np.array([window_mean(x, y, end - apart_ms / 2, end) for end in ends])
        self.paused: Floats = np.array(
            [window_mean(pauses["time_ps"] / 1e9, links, end - apart_ms / 2, end) for end in ends]
        )

    @property
    def needs_pfc_from(self) -> float:
        """The number of flows from which on at least one link is paused at any time, on average; 16: never."""
        free = np.flatnonzero(self.paused < 1)
        return float(free[-1] + 2) if len(free) else 1.0

    @property
    def below_line(self) -> float:
        """Shortfall of the incast's goodput from the line rate, with two flows and more, in percent."""
        return 100 * (1 - float(self.gbps[1:].mean()) / LINE_GBPS)


def _judge(results: Results, quick: bool) -> Outcome:
    steps = {name: _Steps(result, _apart_ms(quick)) for name, result in results.items()}
    measures = [
        Measure("default: PFC acts steadily from", steps["default"].needs_pfc_from, "flows", 8, 12),
        Measure("links paused with 15 flows", float(steps["default"].paused[-1]), "on average", digits=1),
        Measure("default: throughput", -steps["default"].below_line, "%", -3, None, digits=1),
        Measure("aggressive", -steps["aggressive"].below_line, "%", -15, -5, digits=1),
        Measure("most aggressive", -steps["most aggressive"].below_line, "%", -27, -14, digits=1),
        Measure("links paused with these", float(steps["aggressive"].paused.max()), "at most", None, 0.1, digits=2),
    ]
    finding = find(
        "22",
        TITLE,
        "defaults fall into PFC at about 10 flows; an aggressive setting costs 10 %, the most aggressive one 20 %",
        measures,
        f"a flow joins every {_apart_ms(quick):g} ms (5 s in the paper); the paper gives no settings, so these were "
        "tuned to the figure: PFC above 100 kB per ingress; default: marks of up to 1 % between 100 kB and 1 MB; "
        "aggressive: all packets above 20 kB are marked; most aggressive: in addition the rate rises every 300 us "
        "instead of 55 us",
    )
    flows = np.arange(1, FLOWS + 1)
    rates = tuple(Line(name, flows, one.gbps, marks=True) for name, one in steps.items())
    paused = tuple(Line(name, flows, one.paused, marks=True) for name, one in steps.items())
    plots = (
        Plot("fig22", "Throughput of the incast", "flows", "Gb/s", rates),
        Plot("fig22-pauses", "Links that PFC has paused", "flows", "links, on average", paused),
    )
    return Outcome(finding, plots)


TITLE = "15:1 incast under DCQCN, flows joining one by one"
EXPERIMENTS = (Experiment("22", TITLE, _runs, _judge),)
