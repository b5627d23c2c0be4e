"""Speed and memory of the simulator, and MRC's distance from the ideal in it.

    python benchmarks/sim.py [--quick] [--only CASE ...] [--json FILE]

Every case is a scenario in scenarios/bench, which `openmrc sim run scenarios/bench/CASE.yaml --check` repeats. Each run
has a process of its own, so that its peak memory is its own. Cases of speed: median of three runs with the same seed,
one thread; the largest runs once, on as many threads as there are processors, up to four. Other cases: median over
three seeds. `--quick`: one run of each, without the largest.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from openmrc import sim
from openmrc.cli.output_files import file_argument
from openmrc.reports.benchmark_tables import rows_table
from openmrc.runs.bench.rows import Report, Row, row
from openmrc.sim.run import build_graph, ideals_of

SCENARIOS = Path(__file__).resolve().parent.parent / "scenarios" / "bench"
REPEATS = 3
THREADS_MAX = 4
LARGEST = "speed_131072"

Measured = dict[str, Any]
Measure = Callable[[str, int, int], Measured]


@dataclass(frozen=True)
class Speed:
    """Targets of a case of speed, which may be empty."""

    title: str
    packets: str = ""
    seconds: str = ""
    memory: str = ""
    speedup: str = ""


@dataclass(frozen=True)
class Quality:
    """Targets of a case of quality. `capacity` is the remaining share of the busiest place under permanent faults."""

    title: str
    slowest: str
    jain: str = ""
    capacity: float = 1.0
    by_steps: bool = False


SPEED = {
    "speed_1024": Speed("permutation, 1,024 NICs x 8 MiB", packets=">= 2", speedup=">= 1.6"),
    "speed_8192": Speed("permutation, 8,192 NICs x 1 MiB", packets=">= 1.2", memory="<= 4"),
    LARGEST: Speed("permutation, 131,072 NICs x 1 MiB", seconds="<= 90", memory="<= 16"),
}
QUALITY = {
    "permutation_100g": Quality("permutation 2 MB, 128 NICs, 100G", "<= 1.05"),
    "permutation_400g": Quality("permutation 2 MB, 128 NICs, 400G", "<= 1.06"),
    "permutation_1024": Quality("permutation 2 MB, 1,024 NICs, 100G", "<= 1.07"),
    "permutation_8_planes": Quality("permutation 2 MB, 128 NICs, 8 x 100G", "<= 1.10"),
    "slow_spine": Quality("one of eight T1s at a quarter of its speed", "<= 1.10", capacity=7.25 / 8),
    "cut_cable": Quality("one T0-T1 cable cut at 10 us", "<= 1.15"),
    "incast_32": Quality("32:1 incast of 1 MB, 100G", "<= 1.005", jain=">= 0.98"),
    "incast_32_told": Quality("the same, incast degree and last-hop marks told", "<= 1.005", jain=">= 0.98"),
    "all_to_all": Quality("all-to-all of 100 KB, 128 NICs, 100G", "<= 1.03"),
    "ring_100g": Quality("ring all-reduce 16 MiB, 128 NICs, 100G", "<= 1.03", by_steps=True),
    "ring_400g": Quality("ring all-reduce 16 MiB, 128 NICs, 400G", "<= 1.08", by_steps=True),
}


def simulate(case: str, seed: int, threads: int) -> Measured:
    """Runs a case in this process: its summary, its times and memory, and both ideals."""
    scenario = sim.load_scenario(SCENARIOS / f"{case}.yaml").with_seed(seed)
    before = os.times()
    began = time.monotonic()
    result = sim.run(scenario, threads=threads)
    seconds, after = time.monotonic() - began, os.times()
    (transport,) = result
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    ideal_ps = plain_ideal_ps(scenario, QUALITY[case].capacity) if case in QUALITY else None
    return {
        "summary": dict(transport.summary),
        "unmet": [str(failure) for failure in result.unmet()],
        "seconds": seconds,
        "cpu_s": after.user + after.system - before.user - before.system,
        "peak_bytes": peak_bytes,
        "plain_ideal_ps": ideal_ps,
    }


def plain_ideal_ps(scenario: sim.Scenario, capacity: float) -> float:
    """The bytes of the busiest NIC with headers at its line rate, plus the base RTT: until the last acknowledgement."""
    graph = build_graph(scenario)
    fabric = scenario.fabric
    wire = ideals_of(scenario, scenario.transports[0], graph).wire_bytes
    busiest = max(np.bincount(ends, weights=wire).max() for ends in (graph.host, graph.peer))
    rate_bps = fabric.rate_bps * fabric.planes * capacity
    return float(busiest * 8e12 / rate_bps + scenario.base_rtt_ps)


def in_child(case: str, seed: int, threads: int) -> Measured:
    """The same in a separate process."""
    command = [sys.executable, __file__, "--case", case, str(seed), str(threads)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"benchmarks/sim.py: {case} failed with exit code {done.returncode}")
    measured: Measured = json.loads(done.stdout)
    return measured


def rate_m(run: Measured) -> float:
    """Millions of data packets per second of simulation, without set-up."""
    return float(run["summary"]["packets_per_second"] / 1e6)


def packets_m_per_cpu_s(run: Measured) -> float:
    """The same in processor time, with set-up: the figure that a busy machine affects least."""
    return float(run["summary"]["counters"]["data_packets"] / run["cpu_s"] / 1e6)


def speed_rows(case: str, repeats: int, measure: Measure) -> Iterator[Row]:
    """Speed of a case on one thread, and on two if that has a target."""
    wanted = SPEED[case]
    threads = min(os.cpu_count() or 1, THREADS_MAX) if case == LARGEST else 1
    runs = [measure(case, 1, threads) for _ in range(1 if case == LARGEST else repeats)]
    title = wanted.title if threads == 1 else f"{wanted.title}, {threads} threads"
    yield row(title, "data packets", [rate_m(run) for run in runs], "M/s", wanted.packets)
    yield row(title, "data packets per CPU time", [packets_m_per_cpu_s(run) for run in runs], "M/s")
    yield row(title, "time, building included", [run["seconds"] for run in runs], "s", wanted.seconds)
    yield row(title, "peak memory", [run["peak_bytes"] / 1e9 for run in runs], "GB", wanted.memory)
    yield row(title, "slowest flow / bound", [run["summary"]["slowest_over_ideal"] for run in runs], "")
    if wanted.speedup:
        both = [measure(case, 1, 2) for _ in range(repeats)]
        speedups = [rate_m(two) / rate_m(one) for one, two in zip(runs, both, strict=True)]
        same = [float(two["summary"]["trace"] == runs[0]["summary"]["trace"]) for two in both]
        yield row(f"{wanted.title}, 2 threads", "speed of one thread", speedups, "x", wanted.speedup)
        yield row(f"{wanted.title}, 2 threads", "identical trace", same, "", "== 1")


def quality_rows(case: str, repeats: int, measure: Measure) -> Iterator[Row]:
    """Distance of a case from its ideal, over seeds."""
    wanted = QUALITY[case]
    runs = [measure(case, seed, 1) for seed in range(1, repeats + 1)]
    summaries = [run["summary"] for run in runs]
    over_bound = [summary["slowest_over_ideal"] for summary in summaries]
    if wanted.by_steps:
        # Dependencies of a step are part of the ideal, so that only the simulator's own bound is one.
        yield row(wanted.title, "slowest flow / ideal", over_bound, "", wanted.slowest)
    else:
        over_plain = [over(run["summary"]["acked_p100_ps"], run["plain_ideal_ps"]) for run in runs]
        yield row(wanted.title, "slowest flow / ideal", over_plain, "", wanted.slowest)
        yield row(wanted.title, "slowest flow / bound", over_bound, "")
    yield row(wanted.title, "Jain's index", [summary["jain"] for summary in summaries], "", wanted.jain)
    yield row(
        wanted.title, "packets retransmitted", [100 * summary["retransmitted_share"] for summary in summaries], "%"
    )


def over(time_ps: int | None, ideal_ps: float) -> float | None:
    """A time over an ideal; None if there is no such time."""
    return None if time_ps is None else time_ps / ideal_ps


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Speed and quality of simulations.")
    parser.add_argument("--quick", action="store_true", help="one run of each case, without the largest")
    parser.add_argument("--only", nargs="+", choices=[*SPEED, *QUALITY], metavar="CASE", help="only these cases")
    parser.add_argument("--json", type=file_argument, help="write the rows to this file")
    parser.add_argument("--case", nargs=3, metavar=("CASE", "SEED", "THREADS"), help="one run, printed as JSON")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.case:
        case, seed, threads = options.case
        json.dump(simulate(case, int(seed), int(threads)), sys.stdout)
        return 0
    wanted = options.only or [case for case in (*SPEED, *QUALITY) if not (options.quick and case == LARGEST)]
    repeats = 1 if options.quick else REPEATS
    report, errors = Report(), Console(stderr=True)
    for case in wanted:
        errors.print(f"  {case} ...", style="dim", highlight=False)
        rows_of = speed_rows if case in SPEED else quality_rows
        report.add(rows_of(case, repeats, in_child))
    Console(width=None if sys.stdout.isatty() else 150).print(
        rows_table(report.rows, title=f"sim, commit {report.commit}")
    )
    if options.json:
        report.write(options.json)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
