"""Speed of MRC between real processes, and the cost of faults, beside RC, one TCP stream and bare UDP.

    python benchmarks/live.py [--repeats 5] [--only CASE ...] [--json FILE]

Shaped cases run over the emulated fabric (four planes of 250 Mb/s); veth cases need root and are left out without it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import itemgetter
from typing import Any

from _cases import Repeat, run_cases

from openmrc.runs.bench.direct_pair import round_trips_us
from openmrc.runs.bench.rows import Row, row
from openmrc.runs.bench.stream_benchmark import bench_live
from openmrc.runs.perf.measuring_loops import percentile
from openmrc.runs.run_plan import RunPlan

SHAPED = RunPlan(planes=4, rate_bps=250_000_000, seconds=10.0, depth=24)
UNSHAPED = RunPlan(planes=1, rate_bps=0, seconds=3.0, message_bytes=1 << 20)
THREE_OF_FOUR = 0.75
PING_ITERATIONS = 20_000


def values(results: list[dict[str, Any]], of: Callable[[dict[str, Any]], float | None]) -> list[float | None]:
    """One figure of every run; None if it cannot be computed."""
    found: list[float | None] = []
    for result in results:
        try:
            found.append(of(result))
        except TypeError:  # a part of it is None: the run had no such time
            found.append(None)
    return found


def shaped(repeat: Repeat, **changes: Any) -> list[dict[str, Any]]:
    """Runs over the fabric, each with a seed of its own."""
    return repeat(lambda seed: bench_live(replace(SHAPED, seed=seed, **changes)))


def errors(result: dict[str, Any]) -> float:
    """0 for a run without an error and with the right contents."""
    return float(result["error"] is not None or not result["content_ok"])


def plain(repeat: Repeat) -> Iterator[Row]:
    mrc, rc = shaped(repeat), shaped(repeat, transport="rc")
    case = "4 x 250 Mb/s"
    yield row(f"{case}, MRC", "goodput of limit", values(mrc, lambda r: r["share_of_limit"]), "", ">= 0.97")
    yield row(f"{case}, MRC", "goodput", values(mrc, lambda r: r["goodput_gbps"]), "Gb/s")
    yield row(f"{case}, MRC", "errors", values(mrc, errors), "", "== 0")
    yield from processor_rows(f"{case}, MRC", mrc)
    yield row(f"{case}, RC", "goodput", values(rc, lambda r: r["goodput_gbps"]), "Gb/s")
    yield from processor_rows(f"{case}, RC", rc)


def processor_rows(case: str, results: list[dict[str, Any]]) -> Iterator[Row]:
    """Processor time for each GB, of a run over the fabric."""
    yield row(case, "CPU of both hosts", values(results, lambda r: r["cpu_seconds_per_gb"]), "s/GB")
    machine = values(results, lambda r: r["machine_cpu_seconds_per_gb"])
    yield row(case, "CPU of the machine, fabric included", machine, "s/GB")


def black_hole(repeat: Repeat) -> Iterator[Row]:
    results = shaped(repeat, seconds=9.0, faults=("plane 2 blackhole at 2s for 3s",))
    case = "one plane black-holed for 3 s"
    yield row(case, "errors", values(results, errors), "", "== 0")
    yield row(case, "longest stall", values(results, lambda r: r["longest_stall_ms"]), "ms", "<= 50")
    share = values(results, lambda r: r["goodput_during_fault_gbps"] / (THREE_OF_FOUR * r["limit_gbps"]))
    yield row(case, "goodput of three planes", share, "", ">= 0.95")
    after = values(results, lambda r: r["goodput_after_fault_gbps"] / r["limit_gbps"])
    yield row(case, "goodput from 1 s after repair", after, "", ">= 0.97")


def dead_t1(repeat: Repeat) -> Iterator[Row]:
    results = shaped(repeat, seconds=9.0, faults=("t1 1 blackhole at 2s for 3s",))
    case = "one T1 of four per plane black-holed"
    yield row(case, "errors", values(results, errors), "", "== 0")
    yield row(case, "longest stall", values(results, lambda r: r["longest_stall_ms"]), "ms", "<= 50")
    share = values(results, lambda r: r["goodput_during_fault_gbps"] / r["goodput_before_fault_gbps"])
    yield row(case, "goodput of before", share, "", ">= 0.95")


def loss(repeat: Repeat) -> Iterator[Row]:
    for share, target in ((0.01, ">= 0.85"), (0.05, ">= 0.60")):
        results = shaped(repeat, loss=share)
        case = f"{share:.0%} random loss on every plane"
        yield row(case, "errors", values(results, errors), "", "== 0")
        yield row(case, "goodput of limit", values(results, lambda r: r["share_of_limit"]), "", target)
    results = shaped(repeat, loss=0.01, transport="rc")
    yield row("1% random loss, RC", "goodput", values(results, lambda r: r["goodput_gbps"]), "Gb/s")


def against_tcp(repeat: Repeat, case: str, target: str, mtu: int | None, plan: RunPlan) -> Iterator[Row]:
    results = repeat(
        lambda seed: bench_live(replace(plan, seed=seed), namespaces_mtu=mtu, compare_tcp=True, compare_udp=True)
    )
    ratio = values(results, lambda r: r["goodput_gbps"] / r["tcp_goodput_gbps"])
    yield row(case, "of one TCP stream", ratio, "x", target)
    yield row(case, "MRC goodput", values(results, lambda r: r["goodput_gbps"]), "Gb/s")
    yield row(case, "TCP goodput", values(results, lambda r: r["tcp_goodput_gbps"]), "Gb/s")
    bare = values(results, lambda r: r["goodput_gbps"] / r["udp_goodput_gbps"])
    yield row(case, "of a bare UDP stream", bare, "x")
    yield row(case, "bare UDP goodput", values(results, lambda r: r["udp_goodput_gbps"]), "Gb/s")
    cost = values(results, lambda r: r["machine_cpu_seconds_per_gb"] / r["tcp_machine_cpu_seconds_per_gb"])
    yield row(case, "CPU of the machine over TCP's", cost, "x", "" if mtu is None else "<= 1.0")
    for key, what in (("cpu_seconds_per_gb", "both ends"), ("machine_cpu_seconds_per_gb", "the machine")):
        for prefix, name in (("", "MRC"), ("tcp_", "TCP"), ("udp_", "bare UDP")):
            seconds = values(results, itemgetter(prefix + key))
            yield row(case, f"CPU of {what}, {name}", seconds, "s/GB")
    yield row(case, "errors", values(results, errors), "", "== 0")


def loopback(repeat: Repeat) -> Iterator[Row]:
    yield from against_tcp(repeat, "unshaped, loopback", ">= 1.0", None, UNSHAPED)


def veth(repeat: Repeat) -> Iterator[Row]:
    yield from against_tcp(repeat, "unshaped, veth, MTU 1,500", ">= 1.5", 1500, replace(UNSHAPED, burst_packets=44))
    jumbo = replace(UNSHAPED, burst_packets=7, payload_mtu=8192)
    yield from against_tcp(repeat, "unshaped, veth, MTU 9,000", ">= 2.0", 9000, jumbo)


def latency(repeat: Repeat, mtu: int | None, case: str) -> Iterator[Row]:
    def run(seed: int) -> dict[str, Any]:
        trips = round_trips_us(replace(UNSHAPED, seed=seed), namespaces_mtu=mtu, iterations=PING_ITERATIONS)
        return {name: percentile(times, 0.5) for name, times in trips.items()}

    results = repeat(run)
    yield row(case, "of bare UDP", values(results, lambda r: r["mrc"] / r["udp"]), "x", "<= 1.3")
    yield row(case, "MRC round trip", values(results, lambda r: r["mrc"]), "us")
    yield row(case, "UDP round trip", values(results, lambda r: r["udp"]), "us")


CASES: dict[str, Callable[[Repeat], Iterator[Row]]] = {
    "plain": plain,
    "blackhole": black_hole,
    "t1": dead_t1,
    "loss": loss,
    "loopback": loopback,
    "veth": veth,
    "latency": lambda repeat: latency(repeat, None, "64-byte WRITE and answer, loopback"),
    "latency-veth": lambda repeat: latency(repeat, 1500, "64-byte WRITE and answer, veth"),
}
ROOT_CASES = {"veth", "latency-veth"}


if __name__ == "__main__":
    try:
        sys.exit(run_cases("live", "Benchmarks of live runs.", CASES, as_root=ROOT_CASES, repeats=5))
    except KeyboardInterrupt:
        sys.exit(130)
