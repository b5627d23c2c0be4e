"""Collectives of openmrc beside Gloo and Open MPI: latency and bandwidth without limits, and over four slow planes.

    python benchmarks/collectives.py [--repeats 5] [--only CASE ...] [--json FILE]

Needs root, for network namespaces. A backend that is not installed is left out and named. Other programs on the machine
cost more than they do elsewhere: all ranks share its processors. Rounds of a repeat follow each other in one process.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from _bridge import Bridge
from _collective_places import Hosts, run_ranks
from rich.console import Console

from openmrc.analysis.rows import Report, Row, row
from openmrc.analysis.tables import rows_table
from openmrc.fabric import make_fabric, parse_fault
from openmrc.fabric.cabling import Node
from openmrc.live.netns import namespaces_allowed
from openmrc.srv6.nic_paths import nic_paths
from openmrc.srv6.path_file import render_nic_paths

MIB = 1 << 20
TITLES = {"mrc": "openmrc", "gloo": "Gloo", "mpi": "Open MPI"}
JUMBO = {"qp": {"payload_mtu": 8192}, "device": {"burst_packets": 7}}
STREAM = {"qp": {"payload_mtu": 8192, "sack_bytes": 16384}}
PLANES, PLANE_MBIT = 4, 250
FAULT = "plane 2 blackhole at 1500ms for 30s"
FAULT_S = 1.5
SETTLED_S = 1.0  # after the fault: the stall has its own row

Values = list[float | None]


def missing(backend: str) -> str | None:
    """Why a backend cannot run here; None: it can."""
    if backend == "gloo" and importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    if backend == "mpi" and shutil.which("mpirun") is None:
        return "mpirun is not installed"
    return None


def run(hosts: Hosts, backend: str, works: list[dict[str, Any]], **changes: Any) -> list[Any] | None:
    """What `run_ranks` measured; None, and a line, when the backend failed."""
    try:
        return run_ranks(hosts, backend, works, **changes)
    except subprocess.SubprocessError as error:
        told = str(getattr(error, "stderr", "") or error).strip().splitlines()
        print(f"{TITLES[backend]} failed: {told[-1] if told else error}", file=sys.stderr)
        return None


def here() -> list[str]:
    """The backends that can run."""
    return [backend for backend in TITLES if missing(backend) is None]


def medians(rounds: list[Any] | None, count: int) -> Values:
    """The median round of each repeat."""
    return [None] * count if rounds is None else [statistics.median(s for _, s in one) for one in rounds]


def each(one: Values, other: Values, operation: Callable[[float, float], float]) -> Values:
    """Of two lists, element by element; None where one of them is not known."""
    return [None if a is None or b is None else operation(a, b) for a, b in zip(one, other, strict=True)]


def over(a: float, b: float) -> float:
    """A ratio."""
    return a / b


def on_bridge(bridge: Bridge) -> Hosts:
    """The hosts of a bridge."""
    count = range(bridge.hosts)
    return Hosts(
        [bridge.prefix(host) for host in count],
        [bridge.address(host) for host in count],
        [bridge.interface],
        bridge.interface,
        [{"ports": [bridge.address(host)]} for host in count],
    )


def latency(repeats: int) -> Iterator[Row]:
    names = {"all_reduce": "all-reduce of 8 bytes", "barrier": "barrier"}
    works = [{"name": name, "bytes": 8, "warm": 50, "rounds": 400} for name in names for _ in range(repeats)]
    with Bridge(4, 9000) as bridge:
        found = {backend: medians(run(on_bridge(bridge), backend, works), len(works)) for backend in here()}
    for number, title in enumerate(names.values()):
        part = {backend: values[number * repeats : (number + 1) * repeats] for backend, values in found.items()}
        case = f"{title}, 4 ranks, unshaped veth"
        for backend, values in part.items():
            yield row(case, TITLES[backend], [None if v is None else v * 1e6 for v in values], "us")
        for other, target in (("gloo", "<= 0.25"), ("mpi", "<= 1.5")):
            if other in part:
                yield row(case, f"of {TITLES[other]}", each(part["mrc"], part[other], over), "x", target)


def bus_gbps(ranks: int, size: int, seconds: Values) -> Values:
    """What a rank of a ring sends, as a rate."""
    bits = 2 * (ranks - 1) / ranks * size * 8
    return [None if one is None else bits / one / 1e9 for one in seconds]


def bandwidth(repeats: int) -> Iterator[Row]:
    size = 64 * MIB
    works = [
        {"name": "all_reduce", "bytes": size, "warm": 1, "rounds": 3, "in_flight": flight}
        for flight in (1, 4)
        for _ in range(repeats)
    ]
    for ranks in (2, 4):
        case = f"all-reduce of 64 MiB, {ranks} ranks, unshaped veth"
        best: dict[str, Values] = {}
        with Bridge(ranks, 9000) as bridge:
            for backend in here():
                changes = JUMBO if backend == "mrc" else {}
                times = medians(run(on_bridge(bridge), backend, works, **changes), len(works))
                rates = bus_gbps(ranks, size, times)
                halves = rates[:repeats], rates[repeats:]
                for flight, values in zip((1, 4), halves, strict=True):
                    yield row(case, f"{TITLES[backend]}, {flight} in flight", values, "Gb/s")
                best[backend] = max(halves, key=lambda values: statistics.median(v or 0.0 for v in values))
        for other in set(best) - {"mrc"}:
            yield row(case, f"of {TITLES[other]}, both at best", each(best["mrc"], best[other], over), "x", ">= 1")


class Planes:
    """Four hosts over four slow planes of the test bed; a context manager."""

    def __init__(self) -> None:
        from openmrc.testbed import TestBed

        shape = {"planes": PLANES, "hosts": 4, "hosts_per_t0": 1, "t1s": 2, "delay": "200us", "framing": "ipv6"}
        self.fabric = make_fabric(name="collectives", rate=f"{PLANE_MBIT}Mbit", **shape)
        self._bed = TestBed.up(self.fabric, f"bench-{os.getpid()}")

    def __enter__(self) -> Self:
        self.bed = self._bed.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._bed.__exit__(*error)

    def hosts(self, interfaces: int = PLANES) -> Hosts:
        """With so many interfaces for the TCP backends."""
        nodes = [Node("host", number) for number in range(4)]
        layout = self.bed.layout
        names = [[one.name for one in layout.interfaces(node)] for node in nodes]
        paths = [
            render_nic_paths(nic_paths(layout.paths, node.index, mine)) for node, mine in zip(nodes, names, strict=True)
        ]
        return Hosts(
            [list(self.bed.prefix(node)) for node in nodes],
            [str(layout.management_address(node).ip) for node in nodes],
            names[0][:interfaces],
            "mgmt0",
            [{"paths": text} for text in paths],
        )

    @property
    def limit_gbps(self) -> float:
        """Payload that all planes carry, without headers."""
        payload = 8192
        headers = 44 + 8 + 40 + self.fabric.framing_bytes
        return PLANES * PLANE_MBIT / 1e3 * payload / (payload + headers)


def planes(repeats: int) -> Iterator[Row]:
    size, case = 64 * MIB, f"all-reduce of 64 MiB, 4 ranks, {PLANES} planes of {PLANE_MBIT} Mbit/s"
    works = [{"name": "all_reduce", "bytes": size, "warm": 0, "rounds": 1} for _ in range(repeats + 1)]
    found: dict[str, Values] = {}
    with Planes() as place:
        for backend, interfaces in (("mrc", PLANES), ("gloo", 1), ("gloo", PLANES), ("mpi", 1)):
            if missing(backend) is None:
                changes = STREAM if backend == "mrc" else {}
                times = medians(run(place.hosts(interfaces), backend, works, **changes), len(works))[1:]
                name = f"{TITLES[backend]}, {interfaces} interface{'s' * (interfaces > 1)}"
                found[name] = bus_gbps(4, size, times)
        limit = place.limit_gbps
    own = found[f"openmrc, {PLANES} interfaces"]
    for name, values in found.items():
        yield row(case, name, values, "Gb/s")
    yield row(case, "openmrc of the planes less headers", each(own, [limit] * repeats, over), "", ">= 0.95")
    if "Gloo, 1 interface" in found:
        yield row(case, "of Gloo, 1 interface", each(own, found["Gloo, 1 interface"], over), "x", ">= 3.7")


def black_hole(repeats: int) -> Iterator[Row]:
    from openmrc.testbed.faults import FaultPlayer

    size = 4 * MIB
    works = [{"name": "all_reduce", "bytes": size, "warm": 2, "rounds": 100}]
    stalls: Values = []
    shares: Values = []
    errors: Values = []
    for _ in range(repeats):
        with Planes() as place:
            player = FaultPlayer(place.bed, [parse_fault(FAULT)])
            begun: list[float] = []

            def start(player: Any = player, begun: list[float] = begun) -> None:
                begun.append(time.monotonic())
                player.start()

            try:
                found = run(place.hosts(), "mrc", works, started=start, **STREAM)
            finally:
                player.stop()
            limit = place.limit_gbps
        errors.append(float(found is None))
        if found is None:
            stalls.append(None)
            shares.append(None)
            continue
        struck = begun[0] + FAULT_S
        after = [took for at, took in found[0] if at > struck + SETTLED_S]
        normal = statistics.median(after) if after else None
        around = [took for at, took in found[0] if at + took > struck]
        stalls.append(None if normal is None or not around else (max(around) - normal) * 1e3)
        three = (PLANES - 1) / PLANES * limit
        shares.append(None if normal is None else 2 * 3 / 4 * size * 8 / statistics.mean(after) / 1e9 / three)
    case = "all-reduces of 4 MiB, one plane of four silently black-holed"
    yield row(case, "errors", errors, "", "== 0")
    yield row(case, "stall: longest less the median after it", stalls, "ms", "<= 100")
    yield row(case, "bus bandwidth of three planes", shares, "", ">= 0.95")


def classes(repeats: int) -> Iterator[Row]:
    case, total = "all-reduce of 64 KiB beside an all-gather of 128 MiB, 4 planes", 128 * MIB
    alone = {"name": "all_reduce", "bytes": 65536, "warm": 3, "rounds": 20, "traffic_class": "critical"}
    critical = alone | {"rounds": 20, "beside": total}
    bulk = alone | {"rounds": 2, "beside": total, "traffic_class": "bulk"}
    with Planes() as place:
        works = [alone] * repeats + [critical] * repeats + [bulk] * repeats
        times = medians(run(place.hosts(), "mrc", works, **STREAM), len(works))
    parts = [times[number * repeats : (number + 1) * repeats] for number in range(3)]
    for name, values in zip(("alone", "critical class", "bulk class"), parts, strict=True):
        yield row(case, name, [None if v is None else v * 1e3 for v in values], "ms")
    yield row(case, "bulk class of critical class", each(parts[2], parts[1], over), "x", ">= 2")


CASES: dict[str, Callable[[int], Iterator[Row]]] = {
    "latency": latency,
    "bandwidth": bandwidth,
    "planes": planes,
    "blackhole": black_hole,
    "classes": classes,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Benchmarks of collectives.")
    parser.add_argument("--repeats", type=int, default=5, help="runs per number; the median counts")
    parser.add_argument("--only", nargs="+", choices=sorted(CASES), help="only these cases")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error("--repeats: at least 1")
    console = Console(width=None if sys.stdout.isatty() else 150)
    report = Report()
    wanted = options.only or list(CASES)
    if not namespaces_allowed():
        console.print("[yellow]no network namespaces here (they need root): nothing is measured[/]")
        wanted = []
    for backend, title in TITLES.items():
        if (why := missing(backend)) is not None:
            console.print(f"[yellow]{title} is left out: {why}[/]")
    for name in wanted:
        console.print(f"  {name} ...", style="dim")
        report.add(CASES[name](options.repeats))
    console.print(rows_table(report.rows, title=f"collectives, commit {report.commit}"))
    if options.json:
        report.write(options.json)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
