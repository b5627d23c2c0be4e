"""Training on a failing fabric (Figures 5 to 8): T0-T1 flaps, a transceiver that flaps, a T1 that reboots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from openmrc.paper.clusters import NIC_B, cluster_b
from openmrc.paper.experiment import Experiment, Floats, Outcome, Results, Runs
from openmrc.paper.finding import Measure, find
from openmrc.paper.plot import Line, Plot
from openmrc.sim import TransportResult

__all__ = ["EXPERIMENTS"]

MRC: Mapping[str, Any] = {"mrc": {"active_per_port": 4, "universe_per_port": 8}}
LOOP_SETTING = (
    "{hosts} hosts, ring all-reduce of 16 MB of gradients in 4 buckets after 0.6 ms of computation; the order of the "
    "ranks is random, so that most links of the ring cross T0s"
)


def _loop(quick: bool, steps: int, faults: Sequence[Any]) -> Mapping[str, Any]:
    hosts, per_t0 = (16, 4) if quick else (32, 8)
    return {
        "fabric": cluster_b(hosts=hosts, hosts_per_t0=per_t0, t1s=8),
        "nic": NIC_B,
        "transports": MRC,
        "workload": {
            "name": "training",
            "steps": steps,
            "bytes": "4MB" if quick else "16MB",
            "forward": "200us",
            "backward": "400us",
            "buckets": 4,
            "order": "random",
        },
        "faults": list(faults),
        "duration": "500ms",
        "watch": {"series": []},
    }


def _hosts(quick: bool) -> int:
    return 16 if quick else 32


def step_times_ms(result: TransportResult) -> Floats:
    """Duration of each step, from the last acknowledgement of one to that of the next."""
    flows = result.flows
    steps = int(flows["step"].max()) + 1
    ends = [float(flows["completed_ps"][flows["step"] == step].max()) / 1e9 for step in range(steps)]
    return np.diff([0.0, *ends])


def _plot(figure: str, title: str, series: Mapping[str, Floats]) -> Plot:
    lines = tuple(Line(name, np.arange(1, len(times) + 1), times, marks=True) for name, times in series.items())
    return Plot(f"fig{figure}", title, "step", "ms per step", lines)


FLAP_MS, FLAPS_PER_MINUTE, TIME_SCALE = 1.0, 14.0, 1000


def _flaps(times_faster: float) -> list[Any]:
    rate = FLAPS_PER_MINUTE * TIME_SCALE * times_faster
    return [{"random": {"links": "t0-t1", "flaps_per_minute": rate, "down_for": f"{FLAP_MS}ms"}}]


def _runs_5(quick: bool) -> Runs:
    steps = 6 if quick else 8
    return {
        "no faults": _loop(quick, steps, []),
        "14 flaps in 60 ms": _loop(quick, steps, _flaps(1)),
        "140 flaps in 60 ms": _loop(quick, steps, _flaps(10)),
    }


def _judge_5(results: Results, quick: bool) -> Outcome:
    times = {name: step_times_ms(result) for name, result in results.items()}
    base, often = times["no faults"], times["140 flaps in 60 ms"]
    slower = {name: 100 * (float(each.sum() / base.sum()) - 1) for name, each in times.items()}
    # Cost of a flap, measured with many of them, and hence that of 14 flaps in a minute.
    flaps = FLAPS_PER_MINUTE * 10 * float(often.sum()) / 60
    cost_us = 1000 * float(often.sum() - base.sum()) / flaps
    share = 100 * FLAPS_PER_MINUTE * cost_us / 60e6
    measures = [
        Measure("step time at 14 flaps in 60 ms", slower["14 flaps in 60 ms"], "%", digits=2),
        Measure("at 140 flaps in 60 ms", slower["140 flaps in 60 ms"], "%", digits=1),
        Measure("a flap costs about", cost_us, "us"),
        Measure("hence 14 in a real minute cost", share, "%", None, 0.1, digits=4),
    ]
    finding = find(
        "5",
        TITLE_5,
        "up to 14 flaps per minute over 250 minutes without a visible effect on the job",
        measures,
        f"{LOOP_SETTING.format(hosts=_hosts(quick))}; time scaled by 1,000: 14 flaps in 60 ms, each of {FLAP_MS:g} ms, "
        "while MRC's timers are not scaled, so a flap costs a thousand times more than in a real minute",
    )
    return Outcome(finding, (_plot("5", TITLE_5, times),))


LINKS = 4  # of one transceiver at a T0: a link to each of four hosts
DOWN_FROM_MS, DOWN_MS = 1.0, 2.5
RUN_67_MS = 5.0


def _runs_67(quick: bool) -> Runs:
    hosts = 8 if quick else 16
    fabric = {**cluster_b(hosts=hosts, hosts_per_t0=hosts // 2, t1s=8, planes=4), "rate": "200Gbit"}
    reduce = {"name": "all_reduce", "bytes": "16MB", "chunks": 4, "repeat": 40, "order": "random"}
    settings = {"fabric": fabric, "nic": NIC_B, "transports": MRC, "workload": reduce, "duration": f"{RUN_67_MS}ms"}
    watch = {"series": ["planes", "queues"]}
    place = f"host 0..{LINKS - 1} plane 1 down at {DOWN_FROM_MS}ms for {DOWN_MS}ms"
    common = {**settings, "sample": "100us", "watch": watch}
    return {
        "no faults": common,
        "links down": {**common, "faults": [place]},
        "links flap": {**common, "faults": [f"{place} every 500us"]},
    }


def _judge_67(results: Results, quick: bool) -> Outcome:
    shares, lines = {}, []
    for name, result in results.items():
        table = result.tables["series_goodput"]
        x, y = table["time_ps"] / 1e9, table["goodput_bps"] / 1e9
        lines.append(Line(name, x, y))
        inside = (x > DOWN_FROM_MS + 0.2) & (x <= DOWN_FROM_MS + DOWN_MS)
        after = (x > DOWN_FROM_MS + DOWN_MS + 0.2) & (x < x[-1] - 0.2)
        shares[name] = float(y[inside].mean()), float(y[after].mean())
    healthy = shares["no faults"][0]
    drop = {name: 100 * (1 - during / healthy) for name, (during, _) in shares.items()}
    recovered = 100 * shares["links down"][1] / shares["no faults"][0]
    measures = [
        Measure("throughput while down", -drop["links down"], "%", -30, -20, digits=1),
        Measure("while flapping, down half of the time", -drop["links flap"], "%", digits=1),
        Measure("afterwards", recovered, "% of before", 98, 102, digits=1),
        Measure(
            "packets lost while flapping", sum(cast("dict[str, int]", results["links flap"].summary["drops"]).values())
        ),
    ]
    finding = find(
        "6/7",
        TITLE_67,
        "about 25 % less throughput during that minute, then full speed",
        measures,
        f"{8 if quick else 16} hosts with 4 x 200G (cluster A), ring all-reduces of 16 MB without a pause; the "
        "transceiver joins one plane's T0 to 4 hosts; 2.5 ms stand for the minute",
    )
    events = ((DOWN_FROM_MS, "4 links"), (DOWN_FROM_MS + DOWN_MS, "back"))
    plot = Plot("fig6", TITLE_67, "ms", "Gb/s, all hosts", tuple(lines), events=events)
    return Outcome(finding, (plot,))


REBOOT_AT_MS, REBOOT_MS = 3.0, 6.0


def _runs_8(quick: bool) -> Runs:
    steps = 10 if quick else 8
    reboot = f"t1 2 plane 1 reboot at {REBOOT_AT_MS}ms for {REBOOT_MS}ms"
    return {"no faults": _loop(quick, steps, []), "a T1 reboots": _loop(quick, steps, [reboot])}


def _judge_8(results: Results, quick: bool) -> Outcome:
    times = {name: step_times_ms(result) for name, result in results.items()}
    base, broken = times["no faults"], times["a T1 reboots"]
    ends = np.cumsum(broken)
    change = 100 * (broken / base - 1)
    at_failure = int(np.searchsorted(ends, REBOOT_AT_MS))
    at_return = int(np.searchsorted(ends, REBOOT_AT_MS + REBOOT_MS))
    while_away = change[at_failure + 1 : at_return]
    short = "a lost path costs more if steps are short and EVs are few"
    lost = results["a T1 reboots"].summary["drops"]["blackhole"]
    measures = [
        Measure("step with the failure", float(change[at_failure]), "%", 0, 25, digits=1),
        Measure("mean of the steps without the T1", float(while_away.mean()), "%", -3, 1, why=short, digits=2),
        Measure("steps after its return", float(change[at_return:].mean()), "%", -1, 1, digits=2),
        Measure("packets lost", lost),
        Measure("whole loop", 100 * float(broken.sum() / base.sum() - 1), "%", None, 1.0, why=short, digits=2),
    ]
    finding = find(
        "8",
        TITLE_8,
        "a dip when the T1 fails, nothing when it returns; about 580,000 packets lost on 75,000 GPUs",
        measures,
        f"{LOOP_SETTING.format(hosts=_hosts(quick))}; one of 64 T1s silently drops everything for {REBOOT_MS:g} ms; "
        "the reboot in the paper took 2 minutes",
    )
    return Outcome(finding, (_plot("8", TITLE_8, times),))


TITLE_5 = "training while T0-T1 links flap at random"
TITLE_67 = "a T0 transceiver flaps: 4 NIC-T0 links"
TITLE_8 = "training while a T1 fails and reboots"
EXPERIMENTS = (
    Experiment("5", TITLE_5, _runs_5, _judge_5),
    Experiment("6/7", TITLE_67, _runs_67, _judge_67),
    Experiment("8", TITLE_8, _runs_8, _judge_8),
)
