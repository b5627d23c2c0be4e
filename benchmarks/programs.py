"""Unmodified RDMA programs over openmrc's libibverbs, beside `openmrc perf` and UCX over TCP on the same links.

    python benchmarks/programs.py [--repeats 5] [--only CASE ...] [--json FILE]

Needs root, for network namespaces, and the distribution's perftest (Debian: perftest, ucx-utils). A program that is not
installed is left out and named. Both ends and their I/O threads share the processors of this machine, so other programs
on it cost more than they do elsewhere. The programs compared in a row run one after the other in every repeat.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

import _nccl_pairs
from _cases import Repeat, run_cases
from _ordinary_runs import MRC_HEADER_BYTES
from _program_pairs import During, Hosts, missing, perf, perftest, received_bytes, ucx
from _program_status import PROGRAMS

from openmrc.errors import DeviceError
from openmrc.programs import library_path
from openmrc.runs.bench.rows import Row, row
from openmrc.runs.processes.supervisor import ChildError
from openmrc.runs.processes.veth_pairs import VethPair
from openmrc.testbed.plain import PlainBed, PlainNetwork

NCCL_BYTES, NCCL_DEPTH = 4 << 20, 8
NCCL_CASES = {
    "sizes": "0 bytes to 16 MiB",
    "gibibyte": "1 GiB",
    "groups": "groups of 1 to 8 receives",
    "connections": "64 connections each way",
}
Values = list[float | None]
Measure = Callable[[], float]

SIZE_BYTES = 64 << 10
STREAM_S = 3
PINGS = 10_000
UCX_WARM_UP = 1_000
PLANES, PLANE_BPS = 4, 250_000_000
# perftest counts the time between the margins only; the plane fails before.
FAULT_AFTER_S, MARGIN_S, FAULT_STREAM_S = 1.0, 3, 9
_TRAFFIC_BYTES = 1_000_000
_TRAFFIC_S = 15.0


def on_veth(pair: VethPair) -> Hosts:
    """The two hosts of a veth pair."""
    return Hosts([pair.prefix(host) for host in range(2)], [[address] for address in pair.addresses])


def on_planes(bed: PlainBed) -> Hosts:
    """The two hosts of a bed, each with all planes."""
    return Hosts([bed.prefix(host) for host in range(2)], [bed.addresses(host) for host in range(2)])


def attempt(measure: Measure) -> float | None:
    """A result; None, and a printed line, if a program failed."""
    try:
        return measure()
    except ChildError as error:
        print(error, file=sys.stderr)
        return None


def over(ours: Values, others: Values) -> Values:
    """Ratio of two programs in the same repeat."""
    return [None if a is None or not b else a / b for a, b in zip(ours, others, strict=True)]


def in_turn(repeat: Repeat, *measures: Measure) -> list[Values]:
    """The results of each program, run one after the other in every repeat, in the opposite order in every second."""

    def once(seed: int) -> list[float | None]:
        found: list[float | None] = [None] * len(measures)
        for index in range(len(measures)) if seed % 2 else reversed(range(len(measures))):
            found[index] = attempt(measures[index])
        return found

    return [list(values) for values in zip(*repeat(once), strict=True)]


# --- exit status and contents


def status(repeat: Repeat) -> Iterator[Row]:
    """A program that fails has a row without a value."""
    with VethPair(9000) as pair:
        hosts = on_veth(pair)
        for program in PROGRAMS:
            if why := program.missing():
                print(f"left out: {program.name}: {why}", file=sys.stderr)
                continue
            (found,) = in_turn(repeat, lambda program=program: program.run(hosts))  # type: ignore[misc]
            yield row("programs, one veth pair, MTU 9,000", f"{program.name}: exit status", found, "", "== 0")


def nccl(repeat: Repeat) -> Iterator[Row]:
    """The plugin for NCCL; the ranks check contents."""
    case = "plugin for NCCL, one veth pair, MTU 9,000"
    with VethPair(9000) as pair, _nccl_pairs.compiled() as harness:
        hosts = on_veth(pair)
        for name, what in NCCL_CASES.items():
            (found,) = in_turn(repeat, lambda name=name: harness.succeeds(hosts, name))  # type: ignore[misc]
            yield row(case, f"{what}, contents checked: exit status", found, "", "== 0")
        ours, apart, ring, perf_ours = in_turn(
            repeat,
            lambda: harness.gbps(hosts),
            lambda: harness.gbps(hosts, "bandwidth_apart"),
            lambda: harness.gbps(hosts, "ring"),
            lambda: perf_write_gbps(hosts, NCCL_BYTES, NCCL_DEPTH),
        )
    yield row(case, "messages of 4 MiB", ours, "Gb/s")
    yield row(case, "messages of 4 MiB, each in memory of its own", apart, "Gb/s")
    yield row(case, "messages of 512 KiB both ways, as in a ring of two, each way", ring, "Gb/s")
    yield row(case, "openmrc perf write, 4 MiB", perf_ours, "Gb/s")
    yield row(case, "messages of 4 MiB, of openmrc perf write", over(ours, perf_ours), "", ">= 0.9")


# --- bandwidth


def write_gbps(hosts: Hosts, seconds: int = STREAM_S, *options: str, during: During | None = None) -> float:
    """Goodput of `ib_write_bw` in Gb/s."""
    words = ["ib_write_bw", "-s", str(SIZE_BYTES), "-D", str(seconds), "--report_gbits", *options]
    return perftest(hosts, words, during)["BW_average"]


def perf_write_gbps(hosts: Hosts, size_bytes: int = SIZE_BYTES, depth: int = 128) -> float:
    """Goodput of `openmrc perf write` in Gb/s; by default with as many writes outstanding as perftest has."""
    words = ["write", "--size", str(size_bytes), "--duration", str(STREAM_S), "--depth", str(depth)]
    return float(perf(hosts, words)["average_gbps"])


def bandwidth(repeat: Repeat) -> Iterator[Row]:
    case = "64 KiB writes, one veth pair, MTU 9,000"
    with VethPair(9000) as pair:
        hosts = on_veth(pair)
        program, ours = in_turn(repeat, lambda: write_gbps(hosts), lambda: perf_write_gbps(hosts))
    yield row(case, "ib_write_bw", program, "Gb/s")
    yield row(case, "openmrc perf write", ours, "Gb/s")
    yield row(case, "ib_write_bw of openmrc perf write", over(program, ours), "", ">= 0.95")


def planes(repeat: Repeat) -> Iterator[Row]:
    for mtu_bytes in (1500, 9000):
        yield from over_planes(repeat, mtu_bytes)


def over_planes(repeat: Repeat, mtu_bytes: int) -> Iterator[Row]:
    """All planes, then one of them silent from a second after the first data on."""
    network = PlainNetwork.of_rates((PLANE_BPS,) * PLANES, fifo_bytes=256 << 10, mtu_bytes=mtu_bytes)
    limit_gbps = network.limit_bps(MRC_HEADER_BYTES) / 1e9

    def whole() -> float:
        with PlainBed(network) as bed:
            return write_gbps(on_planes(bed)) / limit_gbps

    def struck() -> float:
        with PlainBed(network) as bed:
            hosts = on_planes(bed)
            margin = ("-f", str(MARGIN_S))
            gbps = write_gbps(hosts, FAULT_STREAM_S, *margin, during=lambda pid: silence_under_load(bed, pid))
            return gbps / (limit_gbps * (PLANES - 1) / PLANES)

    shares, left = in_turn(repeat, whole, struck)
    case = f"64 KiB writes by ib_write_bw, {PLANES} planes of {PLANE_BPS // 1_000_000} Mb/s, MTU {mtu_bytes:,}"
    yield row(case, "goodput of limit", shares, "", ">= 0.95")
    yield row(case, "one plane silent: goodput of the limit of the others", left, "", ">= 0.95")
    yield row(case, "one plane silent: errors", [float(one is None) for one in left], "", "== 0")


def silence_under_load(bed: PlainBed, server: int) -> None:
    """Silences the second plane a while after data has arrived over it at the server, a process."""
    deadline = time.monotonic() + _TRAFFIC_S
    while received_bytes(server, "eth1") < _TRAFFIC_BYTES and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(FAULT_AFTER_S)
    bed.silence(1)


# --- latency


def program_latency(hosts: Hosts, program: str) -> dict[str, float]:
    """Times of a latency program of perftest, by its own names."""
    return perftest(hosts, [program, "-s", "8", "-n", str(PINGS)])


def ucx_latency_us(hosts: Hosts, test: str) -> float:
    """Median of a latency test of UCX over TCP; for a ping-pong half of a round trip, as in perftest."""
    words = ["-t", test, "-s", "8", "-n", str(PINGS), "-w", str(UCX_WARM_UP)]
    return ucx(hosts, words)["50.0_percentile_lat"]


def write_latency(repeat: Repeat) -> Iterator[Row]:
    case = "8-byte writes, one veth pair, MTU 9,000"
    tails: Values = []
    with VethPair(9000) as pair:
        hosts = on_veth(pair)

        def program_us() -> float:
            found = program_latency(hosts, "ib_write_lat")
            tails.append(found["percentile_99"])
            return found["t_typical"]

        def ours_us() -> float:
            return float(perf(hosts, ["latency", "--size", "8", "--iterations", str(PINGS)])["t_typical_us"])

        program, ours = in_turn(repeat, program_us, ours_us)
    yield row(case, "ib_write_lat: half round trip, median", program, "us")
    yield row(case, "openmrc perf latency: half round trip, median", ours, "us")
    yield row(case, "ib_write_lat of openmrc perf latency", over(program, ours), "x", "<= 1.1")
    tails += [None] * (len(program) - len(tails))
    yield row(case, "ib_write_lat: half round trip, 99th percentile", tails, "us", "<= 500")


def rc_latency(repeat: Repeat) -> Iterator[Row]:
    """SEND and READ, which one path carries, beside the same exchange over TCP."""
    has_ucx = missing("ucx_perftest") is None
    pairs = (("ib_send_lat", "tag_lat", "8-byte sends"), ("ib_read_lat", "ucp_get", "8-byte reads"))
    with VethPair(9000) as pair:
        hosts = on_veth(pair)
        for program, test, what in pairs:
            measures: list[Measure] = [lambda program=program: program_latency(hosts, program)["t_typical"]]  # type: ignore[misc]
            measures += [lambda test=test: ucx_latency_us(hosts, test)] if has_ucx else []  # type: ignore[misc]
            found, *others = in_turn(repeat, *measures)
            case = f"{what}, one veth pair, MTU 9,000"
            yield row(case, f"{program}: median", found, "us")
            for other in others:
                yield row(case, f"UCX over TCP, {test}: median", other, "us")
                yield row(case, f"{program} of UCX over TCP", over(found, other), "x", "<= 1.5")


NEEDS: dict[str, tuple[str, ...]] = {
    "status": ("ibv_devinfo",),
    "nccl": ("c++",),
    "bandwidth": ("ib_write_bw",),
    "planes": ("ib_write_bw",),
    "write-latency": ("ib_write_lat",),
    "rc-latency": ("ib_send_lat", "ib_read_lat"),
}
_ALL: dict[str, Callable[[Repeat], Iterator[Row]]] = {
    "status": status,
    "nccl": nccl,
    "bandwidth": bandwidth,
    "planes": planes,
    "write-latency": write_latency,
    "rc-latency": rc_latency,
}
CASES = {name: case for name, case in _ALL.items() if missing(*NEEDS[name]) is None}


def left_out() -> Iterator[str]:
    """Cases and comparisons that this machine does not support, each with the reason."""
    for name, programs in NEEDS.items():
        if why := missing(*programs):
            yield f"{name}: {why}"
    if why := missing("ucx_perftest"):
        yield f"UCX over TCP: {why}"


def main() -> int:
    """Exit code of the benchmark."""
    try:
        library_path()
    except DeviceError as error:
        print(f"left out: {error}", file=sys.stderr)
        CASES.clear()
    title = "Benchmarks of unmodified RDMA programs."
    return run_cases("programs", title, CASES, as_root=set(CASES), left_out=left_out(), repeats=5)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
