"""MRC over third-party switches: the kernel's fabric, its faults, and other transports on it.

    python benchmarks/testbed.py [--repeats 3] [--only CASE ...] [--json FILE]

All but the plan needs root, and is left out without it. Other programs on the machine cost goodput.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from _cases import Repeat, run_cases

from openmrc.fabric import Fabric, make_fabric
from openmrc.runs.bench.rows import Row, row
from openmrc.runs.processes.processor_time import seconds_per_gb
from openmrc.runs.records.fault_recovery import Summary, summarize_run
from openmrc.runs.records.run_record import Run
from openmrc.runs.run_plan import RunPlan
from openmrc.runs.session import execute

ROOT = Path(__file__).resolve().parents[1]
DESIGN = ROOT / "fabrics" / "design-131072.yaml"
# Costs outside the fabric must not take the fabric's processor: large packets and messages, few acknowledgements.
STREAM = {"message_bytes": 1 << 20, "depth": 8, "payload_mtu": 8192, "connection": {"sack_bytes": 65536}}
THREE_OF_FOUR = 0.75
T1_FAULT = "t1 1 blackhole at 2s for 5s"
PORT_FAULT = "host 1 plane 0 blackhole at 2s for 5s"
INCAST_SENDERS, INCAST_BYTES = 8, 16 << 20


def fabric_of(rate: str = "500Mbit", **changes: Any) -> Fabric:
    """Two hosts behind T0s of their own, four planes, four T1s in each.

    The delay models the time of the kernel at each hop, on which windows and queues depend.
    """
    shape = {"planes": 4, "hosts": 2, "hosts_per_t0": 1, "t1s": 4, "delay": "200us", "framing": "ipv6"}
    return make_fabric(name="benchmark", rate=rate, **shape | changes)


def over_bed(fabric: Fabric, plan: RunPlan) -> Run:
    """A run in SRv6 mode over a test bed of its own."""
    from openmrc.runs.environment import TestBedEnvironment
    from openmrc.testbed import TestBed

    with TestBed.up(fabric, f"bench-{os.getpid()}") as bed:
        return execute(plan, environment=TestBedEnvironment(bed)).run


def pair(repeat: Repeat, seconds: float, *faults: str) -> tuple[list[Run], list[Summary]]:
    """Runs of one QP from host to host."""
    fabric = fabric_of()

    def run(seed: int) -> Run:
        plan = RunPlan.over(fabric, [(0, 1)], seconds=seconds, faults=faults, seed=seed, **STREAM)
        return over_bed(fabric, plan)

    runs = repeat(run)
    return runs, [summarize_run(one) for one in runs]


def share(value: float | None, whole: float | None) -> float | None:
    """Share of a whole; None if one of them is unknown."""
    return None if value is None or not whole else value / whole


def failures(runs: list[Run]) -> list[float | None]:
    """0 for a run without an error and with the right contents."""
    return [float(any(flow.error for flow in run.flows) or not run.content_ok) for run in runs]


def plain(repeat: Repeat) -> Iterator[Row]:
    runs, found = pair(repeat, 8.0)
    case = "4 planes x 4 T1s x 500 Mb/s, SRv6, one QP"
    shares = [share(one.goodput_gbps, run.limit_gbps) for run, one in zip(runs, found, strict=True)]
    yield row(case, "goodput of limit", shares, "", ">= 0.95")
    yield row(case, "goodput", [one.goodput_gbps for one in found], "Gb/s")
    yield row(case, "errors", failures(runs), "", "== 0")
    cpu = [seconds_per_gb(run.cpu_s, one.bytes) for run, one in zip(runs, found, strict=True)]
    yield row(case, "CPU of both hosts", cpu, "s/GB")
    machine = [seconds_per_gb(run.machine_cpu_s, one.bytes) for run, one in zip(runs, found, strict=True)]
    yield row(case, "CPU of the machine, switches included", machine, "s/GB")


def dead_t1(repeat: Repeat) -> Iterator[Row]:
    runs, found = pair(repeat, 11.0, T1_FAULT)
    case = "a T1 of each plane stops forwarding, 5 s"
    yield row(case, "longest stall", [one.longest_stall_ms for one in found], "ms", "<= 50")
    kept = [share(one.goodput_during_fault_gbps, one.goodput_before_fault_gbps) for one in found]
    yield row(case, "goodput of before", kept, "", ">= 0.95")
    yield row(case, "errors", failures(runs), "", "== 0")


def dead_port(repeat: Repeat) -> Iterator[Row]:
    runs, found = pair(repeat, 11.0, PORT_FAULT)
    case = "link of a host port black-holed, 5 s"
    yield row(case, "longest stall", [one.longest_stall_ms for one in found], "ms", "<= 50")
    kept = [
        share(one.goodput_during_fault_gbps, THREE_OF_FOUR * run.limit_gbps)
        for run, one in zip(runs, found, strict=True)
    ]
    yield row(case, "goodput of three planes", kept, "", ">= 0.95")
    yield row(case, "full rate after repair", [one.recovery_s for one in found], "s", "<= 1")
    yield row(case, "errors", failures(runs), "", "== 0")


def others(_repeat: Repeat) -> Iterator[Row]:
    """The other transports with both faults; one run each, since a run takes a minute and has no target."""
    from openmrc.runs.compare.comparison import compare
    from openmrc.runs.compare.contenders import CONTENDERS
    from openmrc.testbed import TestBed

    names = [contender.name for contender in CONTENDERS if not contender.name.startswith("mrc")]
    for words, fault in (("dead T1s, 5 s", T1_FAULT), ("dead host port, 5 s", PORT_FAULT)):
        with TestBed.up(fabric_of(), f"bench-{os.getpid()}") as bed:
            outcomes = compare(bed, faults=(fault,), only=names).outcomes
        for outcome in outcomes:
            case = f"{outcome.title}, {words}: {outcome.ending}"
            summary = outcome.summary
            if summary is None:
                continue
            yield row(case, "longest stall", [summary.longest_stall_ms], "ms")
            yield row(case, "goodput before", [summary.goodput_before_fault_gbps], "Gb/s")
            yield row(case, "goodput during", [summary.goodput_during_fault_gbps], "Gb/s")
            yield row(case, "goodput of before again after", [summary.recovery_s], "s")
            yield row(case, "CPU of both hosts", [outcome.cpu_seconds_per_gb], "s/GB")
            yield row(case, "CPU of the machine, switches included", [outcome.machine_cpu_seconds_per_gb], "s/GB")


def incast(repeat: Repeat) -> Iterator[Row]:
    for trim, target in (("on", "<= 1.1"), ("off", "")):
        shape = {"hosts": INCAST_SENDERS + 1, "hosts_per_t0": 3}
        fabric = fabric_of(rate="100Mbit", trim=trim, **shape)
        flows = [(host, 0) for host in range(INCAST_SENDERS, 0, -1)]

        def run(seed: int, fabric: Fabric = fabric, flows: list[tuple[int, int]] = flows) -> Run:
            connection = {"trimming": fabric.trim is not None}
            settings = {"message_bytes": 64 * 1024, "depth": 16, "seed": seed, "connection": connection}
            sizes = (INCAST_BYTES,) * len(flows)
            return over_bed(fabric, RunPlan.over(fabric, flows, flow_bytes=sizes, seconds=60.0, **settings))

        runs = repeat(run)
        case = f"{INCAST_SENDERS}:1 incast, trimming {trim}"
        yield row(case, "last completion over ideal", [completion(one) for one in runs], "x", target)
        yield row(case, "errors", failures(runs), "", "== 0")


def completion(run: Run) -> float | None:
    """Arrival time of the last byte over the minimum for the receiver's links; None: some bytes did not arrive."""
    total = sum(flow.placed.at(run.end_s) for flow in run.flows)
    if total < len(run.flows) * INCAST_BYTES:
        return None
    last = max(float(flow.placed.times_s[flow.placed.bytes_total >= INCAST_BYTES][0]) for flow in run.flows)
    return (last - run.start_s) / (total * 8 / 1e9 / run.limit_gbps)


def plan_131072(repeat: Repeat) -> Iterator[Row]:
    def run(_seed: int) -> tuple[float, float]:
        command = [sys.executable, "-m", "openmrc.cli.main", "plan", str(DESIGN)]
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(command)} ended with exit code {process.returncode}")
        return time.monotonic() - began, usage.ru_maxrss / 2**20

    runs = repeat(run)
    yield row("plan of 131,072 NICs", "time", [seconds for seconds, _ in runs], "s", "<= 5")
    yield row("plan of 131,072 NICs", "memory", [gib for _, gib in runs], "GiB", "<= 0.93")


CASES: dict[str, Callable[[Repeat], Iterator[Row]]] = {
    "plain": plain,
    "t1": dead_t1,
    "port": dead_port,
    "incast": incast,
    "others": others,
    "plan": plan_131072,
}
ROOT_CASES = set(CASES) - {"plan"}


if __name__ == "__main__":
    try:
        title = "Benchmarks of the test bed and of the plan."
        sys.exit(run_cases("testbed", title, CASES, as_root=ROOT_CASES, repeats=3))
    except KeyboardInterrupt:
        sys.exit(130)
