"""Evaluation campaigns: order, placement, hand-offs, looks, on public result files of real runs.

    python benchmarks/evals.py [--results FOLDER] [--trace FILE] [--only CASE ...] [--json FILE]

FOLDER holds result files of Terminal-Bench's leaderboard (the folder `results` of its repository: a folder for each
submission, with a results.json for each run); FILE is a Mooncake trace (conversation_trace.jsonl: timestamp in ms,
input_length). Neither is part of this repository. Cases whose files are missing are left out.

`order`      wall-clock of runs 2 to 5 of a submission on slots, longest first by its run 1, against task order.
`placement`  regret of the planned placement against the best of all, each served request by request: 20 runs of the
             submissions that report tokens. Judge, service curves and clusters are assumptions, written below.
`handoff`    KV caches from 32 prefill to 32 decode GPUs of a fat tree: lengths and arrivals of the trace, sped up.
`looks`      false alarms of looks where there is no difference: both systems drawn from a submission's task rates.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from _eval_oracle import campaign_s
from rich.console import Console

from openmrc import sim
from openmrc.cli.output_files import file_argument
from openmrc.evals.campaign_plan import make_plan, outcome_of, planned_trials
from openmrc.evals.cluster import Cluster, Model
from openmrc.evals.curve import Curve, Point
from openmrc.evals.interim import bounds_of, stops, student_bound
from openmrc.evals.logs import read_logs
from openmrc.evals.placement import placements
from openmrc.evals.trial_profile import Profile
from openmrc.evals.trial_schedule import expected_seconds, list_schedule, longest_first, wall_clock_bound_s
from openmrc.evals.work import Work
from openmrc.fabric import make_fabric
from openmrc.reports.benchmark_tables import rows_table
from openmrc.runs.bench.rows import Report, Row, row

ORDER_TARGETS = {80: "<= -20", 32: "<= -12", 16: "<= -5"}
RUNS = 5
SEEDS = (1, 2, 3)
EPOCHS = 5
DRAWS = 10_000
GIB = 2**30

# Shape of a model server's rates; not a measurement of real hardware.
AGENT = Curve(
    {
        1: (Point(1, 5000, 40), Point(8, 9000, 260), Point(32, 9500, 700)),
        2: (Point(1, 9000, 70), Point(8, 17000, 470), Point(32, 18000, 1300)),
        4: (Point(1, 15000, 110), Point(8, 30000, 780), Point(32, 33000, 2300)),
    }
)
JUDGE = Curve(
    {
        1: (Point(1, 9000, 90), Point(8, 16000, 560), Point(32, 17000, 1500)),
        2: (Point(1, 16000, 150), Point(8, 29000, 980), Point(32, 31000, 2700)),
    }
)
PREFIX_CACHED = 0.9  # share of an agent's prompt tokens, which repeat the conversation
TOOL_SHARE = 0.5
JUDGE_PROMPT_TOKENS, JUDGE_OUTPUT_TOKENS = 4000, 300
PROFILES, PROFILE_TRIALS_MIN = 20, 15
# Used by the profiles in turn: calls of the judge for a trial, loading of weights, slowdown if models share GPUs.
VARIANTS = (
    (1, 100e9, 1.5),
    (20, 100e9, 1.5),
    (1, 2e9, 1.5),
    (20, 2e9, 1.5),
    (6, 2e9, 1.02),
    (6, 20e9, 1.1),
)

HANDOFFS = 96
LOADS = (0.2, 0.5)
KV_BYTES_PER_TOKEN = 72 * 1024  # gpt-oss-120b, full attention
FAT_TREE = {"planes": 1, "hosts": 64, "hosts_per_t0": 8, "t1s": 8, "rate": "400Gbit", "delay": "500ns", "trim": "on"}
TWO_NODES = {**FAT_TREE, "hosts": 2, "hosts_per_t0": 1, "t1s": 1}
DEAD_LINK = "t0 0 t1 0 down"


def submissions(folder: Path) -> dict[str, list[Profile]]:
    """Runs of every submission, by its name; a file with several epochs of a task counts as several runs."""
    found: dict[str, list[Profile]] = {}
    for place in sorted(one for one in folder.glob("*/*") if one.is_dir()):
        logs = sorted({*place.glob("results.json"), *place.glob("*/results.json"), *place.glob("*_results.json")})
        for log in logs:
            if "results" not in json.loads(log.read_bytes()):
                continue  # a trial of its own, which the run's file also contains
            profile = read_logs([log])
            for epoch in range(1, profile.epochs + 1):
                trials = sorted((one for one in profile if one.epoch == epoch), key=lambda one: one.sample)
                found.setdefault(place.name, []).append(Profile([replace(one, epoch=1) for one in trials]))
    return found


def order_rows(runs: dict[str, list[Profile]], _trace: Path | None) -> Iterator[Row]:
    changes: dict[int, list[float]] = {slots: [] for slots in ORDER_TARGETS}
    over: dict[int, list[float]] = {slots: [] for slots in ORDER_TARGETS}
    counts = []
    for some in runs.values():
        timed = [Profile([one for one in run if one.total_s is not None]) for run in some]
        timed = [run for run in timed if len(run) > 50][:RUNS]
        if len(timed) < RUNS:
            continue
        trials = [one for run in timed[1:] for one in run]
        counts.append(float(len(trials)))
        expected_s = expected_seconds([one.key for one in trials], ((one.key, one.total_s) for one in timed[0]))
        seconds = [one.total_s or 0.0 for one in trials]
        for slots in ORDER_TARGETS:
            first = list_schedule(seconds, slots).wall_clock_s
            then = list_schedule([seconds[at] for at in longest_first(expected_s)], slots).wall_clock_s
            changes[slots].append(100 * (then / first - 1))
            over[slots].append(then / wall_clock_bound_s(seconds, slots))
    yield row("order", "trials of a submission", counts, "")
    for slots, target in ORDER_TARGETS.items():
        yield row("order", f"wall-clock, {slots} slots, median", changes[slots], "%", target)
        yield row("order", f"wall-clock, {slots} slots, mean", [statistics.fmean(changes[slots])], "%")
        yield row("order", f"over the bound, {slots} slots", over[slots], "")


def cluster_of(load_bps: float, sharing_slowdown: float) -> Cluster:
    """Two hosts with four GPUs each."""
    values = {"planes": 2, "hosts": 2, "hosts_per_t0": 2, "t1s": 1, "rate": "100Gbit", "delay": "1us"}
    return Cluster(
        name="placement",
        fabric=make_fabric(**values),
        fabric_values=values,
        gpus=(4, 4),
        gpu_memory_bytes=80 * GIB,
        weights_host=0,
        agent=Model("agent", 40 * GIB, 160 * 1024, 65_536, AGENT),
        judge=Model("judge", 30 * GIB, 72 * 1024, 32_768, JUDGE),
        load_bps=int(load_bps),
        sharing_slowdown=sharing_slowdown,
    )


def judged(profile: Profile, judge_calls: int) -> Profile:
    """The trials with tokens, each with calls of a judge that reads a part of it."""
    return Profile(
        [
            replace(
                one,
                cached_tokens=int(PREFIX_CACHED * one.prompt_tokens),
                context_tokens=60_000,
                calls=max(1, one.prompt_tokens // 40_000),
                judge_calls=judge_calls,
                judge_prompt_tokens=judge_calls * JUDGE_PROMPT_TOKENS,
                judge_output_tokens=judge_calls * JUDGE_OUTPUT_TOKENS,
            )
            for one in profile
            if one.prompt_tokens and one.output_tokens
        ]
    )


def placement_rows(runs: dict[str, list[Profile]], _trace: Path | None) -> Iterator[Row]:
    """The planner's choice beside every other placement, and beside three common rules."""
    with_tokens = [run for some in runs.values() for run in some if len(judged(run, 1)) >= PROFILE_TRIALS_MIN]
    regrets: dict[str, list[float]] = {"planned": [], "half and half": [], "one judge": [], "alternating": []}
    counts, kinds = [], []
    for number, run in enumerate(with_tokens[:PROFILES]):
        judge_calls, load_bps, sharing_slowdown = VARIANTS[number % len(VARIANTS)]
        profile, cluster = judged(run, judge_calls), cluster_of(load_bps, sharing_slowdown)
        plan = make_plan(profile, cluster, tool_share=TOOL_SHARE)
        trials = planned_trials(profile, None)
        work = Work.of(trials, TOOL_SHARE)
        times: dict[str, float] = {}
        rules: dict[str, float] = {}
        for placement in placements(cluster, work):
            time_s = campaign_s(cluster, work, outcome_of(cluster, work, trials, placement))
            times[placement.title] = time_s
            judge_gpus = sum(len(one.gpus) for one in placement.of("judge"))
            rule = "alternating" if placement.kind == "alternating" else ""
            if placement.kind == "split" and judge_gpus == sum(cluster.gpus) // 2:
                rule = "half and half"
            if placement.kind == "split" and len(placement.of("judge")) == 1:
                rule = "one judge"
            rules[rule] = min(rules.get(rule, np.inf), time_s)
        best_s = min(times.values())
        kinds.append(min(times, key=lambda title: times[title]).partition(":")[0])
        counts.append(float(len(times)))
        regrets["planned"].append(100 * (times[plan.chosen.placement.title] / best_s - 1))
        for rule in list(regrets)[1:]:
            regrets[rule].append(100 * (rules[rule] / best_s - 1))
    yield row("placement", "profiles", [float(len(kinds))], "")
    for kind in ("split", "shared", "alternating"):
        yield row("placement", f"profiles for which it is best: {kind}", [float(kinds.count(kind))], "")
    yield row("placement", "placements of each", counts, "")
    yield row("placement", "regret, median", regrets["planned"], "%", "<= 5")
    yield row("placement", "regret, largest", [max(regrets["planned"])], "%", "<= 5")
    for rule in list(regrets)[1:]:
        yield row("placement", f"regret of the rule: {rule}", regrets[rule], "%")


def handoff_flows(trace: Path, load: float, seed: int) -> list[dict[str, object]]:
    """Hand-offs of consecutive requests of the trace, at a mean load of the decode GPUs' NICs."""
    requests = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    rng = np.random.default_rng(seed)
    first = int(rng.integers(0, len(requests) - HANDOFFS))
    some = requests[first : first + HANDOFFS]
    sizes = [max(1, one["input_length"] * KV_BYTES_PER_TOKEN) for one in some]
    arrivals_ms = np.array([one["timestamp"] for one in some], dtype=float)
    arrivals_ms += rng.uniform(0, 1000, HANDOFFS)  # the trace has a resolution of seconds
    span_s = 8 * sum(sizes) / (load * 32 * 400e9)
    starts_s = (arrivals_ms - arrivals_ms.min()) / max(float(np.ptp(arrivals_ms)), 1.0) * span_s
    decodes = np.concatenate([rng.permutation(32) for _ in range(-(-HANDOFFS // 32))])
    return [
        {
            "source": int(rng.integers(0, 32)),
            "destination": 32 + int(decodes[at]),
            "bytes": sizes[at],
            "start": f"{round(starts_s[at] * 1e12)}ps",
        }
        for at in range(HANDOFFS)
    ]


def handoff_times(
    fabric: dict[str, object], transport: str, flows: list[dict[str, object]], faults: list[str], seed: int
) -> np.ndarray:
    """Seconds of every hand-off; infinite if one never ends."""
    values = {**fabric, "pfc": "on"} if transport == "roce" else fabric
    scenario = sim.make_scenario(
        fabric=values,
        workload={"name": "flows", "flows": flows},
        transports=[transport],
        faults=faults,
        seed=seed,
        duration="1h",
        watch={"series": []},
    )
    times = sim.run(scenario)[transport].flows["fct_ps"]
    return np.where(times >= 0, times / 1e12, np.inf)


def handoff_rows(_runs: dict[str, list[Profile]], trace: Path | None) -> Iterator[Row]:
    assert trace is not None
    for load in LOADS:
        flows = {seed: handoff_flows(trace, load, seed) for seed in SEEDS}
        for words, faults in (("clean", []), ("one dead link", [DEAD_LINK])):
            found = {
                name: [handoff_times(FAT_TREE, name, flows[seed], faults, seed) for seed in SEEDS]
                for name in ("mrc", "roce")
            }
            case = f"hand-off, load {load:.0%}, {words}"
            for name, label in (("mrc", "MRC"), ("roce", "ECMP")):
                yield row(case, f"{label}, mean", [1000 * float(one.mean()) for one in found[name]], "ms")
                yield row(case, f"{label}, p99", [1000 * float(np.quantile(one, 0.99)) for one in found[name]], "ms")
            pairs = list(zip(found["mrc"], found["roce"], strict=True))
            yield row(case, "MRC against ECMP, mean", [100 * float(a.mean() / b.mean() - 1) for a, b in pairs], "%")
            worst = [100 * float(np.quantile(a, 0.99) / np.quantile(b, 0.99) - 1) for a, b in pairs]
            yield row(case, "MRC against ECMP, p99", worst, "%")
    idle = [
        [{**one, "source": 0, "destination": 1, "start": f"{at}s"} for at, one in enumerate(flows[s][:8])]
        for s in SEEDS
    ]
    times = {name: [handoff_times(TWO_NODES, name, one, [], 1) for one in idle] for name in ("mrc", "roce")}
    differences = [100 * abs(float(a.mean() / b.mean() - 1)) for a, b in zip(times["mrc"], times["roce"], strict=True)]
    yield row("hand-off, two idle nodes", "difference of the means", differences, "%", "<= 1")


def looks_rows(runs: dict[str, list[Profile]], _trace: Path | None) -> Iterator[Row]:
    """Share of comparisons of a system with itself that cross a bound at any of five looks."""
    information = [(at + 1) / EPOCHS for at in range(EPOCHS)]
    bounds = bounds_of(0.05, information)
    rates: dict[str, list[float]] = {"looks": [], "with futility": [], "peeking": []}
    for number, some in enumerate(runs.values()):
        scores: dict[str, list[float]] = {}
        for run in some:
            for one in run:
                if one.score is not None:
                    scores.setdefault(one.sample, []).append(one.score)
        true = np.array([(sum(values) + 0.5) / (len(values) + 1) for values in scores.values()])
        rng = np.random.default_rng([1, number])
        drawn = rng.random((2, DRAWS, len(true), EPOCHS)) < true[None, None, :, None]
        gap = np.cumsum(drawn[0].astype(float) - drawn[1], axis=2) / np.arange(1, EPOCHS + 1)
        z = gap.mean(axis=1) / np.maximum(gap.std(axis=1, ddof=1) / np.sqrt(len(true)), 1e-12)
        limits = [student_bound(bound, len(true) - 1) for bound in bounds]
        rates["looks"].append(100 * float((np.abs(z) >= limits).any(axis=1).mean()))
        alarms = [stops([float(one) for one in line], information, limits)[1] for line in z]
        rates["with futility"].append(100 * statistics.fmean(alarms))
        rates["peeking"].append(100 * float((np.abs(z) >= 1.96).any(axis=1).mean()))
    yield row("looks", "systems", [float(len(rates["looks"]))], "")
    yield row("looks", "false alarms, a system", rates["with futility"], "%", "<= 5")
    yield row("looks", "false alarms, all systems", [statistics.fmean(rates["with futility"])], "%", "<= 5")
    yield row("looks", "the same without futility stops", [statistics.fmean(rates["looks"])], "%")
    yield row("looks", "z above 1.96 at any look", rates["peeking"], "%")


Rows = Callable[[dict[str, list[Profile]], Path | None], Iterator[Row]]
CASES: dict[str, Rows] = {
    "order": order_rows,
    "placement": placement_rows,
    "looks": looks_rows,
    "handoff": handoff_rows,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Evaluation campaigns, on public result files of real runs.")
    parser.add_argument("--results", type=Path, help="folder of Terminal-Bench results")
    parser.add_argument("--trace", type=Path, help="Mooncake trace, JSON lines")
    parser.add_argument("--only", nargs="+", choices=sorted(CASES), help="only these cases")
    parser.add_argument("--json", type=file_argument, help="write the rows to this file")
    options = parser.parse_args()
    if options.results is not None and not options.results.is_dir():
        parser.error(f"--results: {options.results} is not a folder")
    if options.trace is not None and not options.trace.is_file():
        parser.error(f"--trace: {options.trace} is no file")
    errors = Console(stderr=True)
    runs = submissions(options.results) if options.results is not None else {}
    report = Report()
    for case in options.only or CASES:
        if (options.trace if case == "handoff" else runs or None) is None:
            errors.print(f"left out: {case} ({'--trace' if case == 'handoff' else '--results'} is missing)")
            continue
        errors.print(f"  {case} ...", style="dim", highlight=False)
        report.add(CASES[case](runs, options.trace))
    title = f"evals, commit {report.commit}"
    Console(width=None if sys.stdout.isatty() else 150).print(rows_table(report.rows, title=title))
    if options.json:
        report.write(options.json)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
