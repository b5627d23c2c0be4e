"""Collectives of openmrc beside Gloo and Open MPI: without limits over veth and on one host, and over four slow planes.

    python benchmarks/collectives.py [--repeats 5] [--only CASE ...] [--json FILE]

Needs root, for network namespaces, except for ranks on one host. A backend that is not installed is left out and
named. Other programs on the machine cost more than they do elsewhere: all ranks share its processors. Rounds of a
repeat follow each other in one process. In the cases without planes every repeat starts all backends anew, by turns.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from _cases import Repeat, every_seed, run_cases
from _collective_hosts import (
    LIMIT_S,
    PLANE_MBIT,
    PLANES,
    Hosts,
    Measured,
    Round,
    SlowPlanes,
    on_bridge,
    on_this_host,
    run_ranks,
    slow_planes,
    stall_ms,
)
from rich.console import Console

from openmrc.runs.bench.rows import Row, row
from openmrc.runs.compare.contenders import CONTENDERS
from openmrc.runs.processes.processor_time import seconds_per_gb
from openmrc.runs.processes.supervisor import ChildError, Family
from openmrc.runs.processes.veth_pairs import VethBridge
from openmrc.runs.training.environments import own_test_bed, training_fabric
from openmrc.runs.training.job import Job
from openmrc.runs.training.model_size import ModelSize
from openmrc.runs.training.progress_view import TrainView
from openmrc.runs.training.training_record import TrainRun

MIB = 1 << 20
TITLES = {"mrc": "openmrc", "gloo": "Gloo", "mpi": "Open MPI"}
MISSING = {one.name: why for one in CONTENDERS if one.name in TITLES and (why := one.missing()) is not None}
FAULT_S, OUTAGE_S = 1.5, 5.0
FAULT = f"plane 0 blackhole at {FAULT_S * 1e3:.0f}ms for {OUTAGE_S:.0f}s"  # the plane that TCP uses
# TCP doubles the time between retries, so it may resume only after another outage; some rounds are left then.
DONE_S = FAULT_S + 2 * OUTAGE_S + 8.0
OUTAGE_ROUNDS = {"mrc": 100, "gloo": 25, "mpi": 25}  # about six seconds without faults

CRITICAL_ROUNDS, BULK_ROUNDS = 10, 1  # one of the bulk class waits for the whole all-gather

STEPS = 20
TRAIN_S, PATIENCE_S = 20.0, 10.0  # a run that takes longer is given up

Values = list[float | None]


def run(hosts: Hosts, backend: str, works: list[dict[str, Any]], **changes: Any) -> Measured | None:
    """Measurements of `run_ranks`; None, and a printed line, if the backend failed."""
    try:
        return run_ranks(hosts, backend, works, **changes)
    except ChildError as error:
        print(f"{TITLES[backend]} failed: {error}", file=sys.stderr)
        return None


def here() -> list[str]:
    """The available backends, openmrc first."""
    return [backend for backend in TITLES if backend not in MISSING]


def median(values: Values) -> float | None:
    """Of the known values; None if there are none."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def medians(measured: Measured | None, count: int) -> Values:
    """The median round of each of `count` works."""
    return [None] * count if measured is None else [median([it.seconds for it in one]) for one in measured]


def each(one: Values, other: Values, operation: Callable[[float, float], float]) -> Values:
    """Applied to two lists, element by element; None if one element is unknown."""
    return [None if a is None or b is None else operation(a, b) for a, b in zip(one, other, strict=True)]


def over(a: float, b: float) -> float:
    """A ratio."""
    return a / b


def times(values: Values, factor: float) -> Values:
    """In another unit."""
    return [None if value is None else value * factor for value in values]


SMALL = {"all_reduce": "all-reduce of 8 bytes", "barrier": "barrier"}


def small_works() -> list[dict[str, Any]]:
    return [{"name": name, "bytes": 8, "warm": 50, "rounds": 400} for name in SMALL]


Start = Callable[[], Measured | None]


def by_turns(repeat: Repeat, starts: dict[str, Start], works: int) -> dict[str, list[list[list[Round]]]]:
    """For each name and work, its rounds in each repeat; none for a start that failed.

    Every repeat starts new processes, those of each name in turn: a job keeps the placement of its ranks on
    processors that it got at its start, and that matters more than anything between two rounds.
    """
    turns = repeat(lambda _seed: {name: start() or [[] for _ in range(works)] for name, start in starts.items()})
    return {name: [[turn[name][work] for turn in turns] for work in range(works)] for name in starts}


def seconds(rounds: list[list[Round]]) -> Values:
    """The median round of each repeat."""
    return [median([it.seconds for it in one]) for one in rounds]


def latency(repeat: Repeat) -> Iterator[Row]:
    works = small_works()
    with VethBridge(4, 9000) as bridge:
        hosts = on_bridge(bridge)
        starts: dict[str, Start] = {backend: partial(run, hosts, backend, works) for backend in here()}
        found = by_turns(repeat, starts, len(works))
    for number, (name, title) in enumerate(SMALL.items()):
        part = {backend: seconds(one[number]) for backend, one in found.items()}
        case = f"{title}, 4 ranks, unshaped veth"
        for backend, values in part.items():
            yield row(case, TITLES[backend], times(values, 1e6), "us")
        for other, target in (("gloo", "<= 0.25"), ("mpi", "<= 1.1" if name == "barrier" else "<= 1")):
            if other in part:
                yield row(case, f"of {TITLES[other]}", each(part["mrc"], part[other], over), "x", target)


def one_host(repeat: Repeat) -> Iterator[Row]:
    """Ranks that share memory, the same ranks over QPs, and the other backends with their own choice."""
    sizes = {64 << 10: "all-reduce of 64 KiB", 4 * MIB: "all-reduce of 4 MiB", 64 * MIB: "all-reduce of 64 MiB"}
    works = small_works()
    for size in sizes:
        rounds = max(3, min(100, (32 * MIB) // size))
        works.append({"name": "all_reduce", "bytes": size, "warm": 2, "rounds": rounds})
    hosts = on_this_host(4)
    starts: dict[str, Start] = {"openmrc": partial(run, hosts, "mrc", works)}
    starts["openmrc over QPs"] = partial(run, hosts, "mrc", works, world={"shared_memory": False})
    starts |= {TITLES[one]: partial(run, hosts, one, works) for one in here()[1:]}
    found = by_turns(repeat, starts, len(works))
    for number, title in enumerate([*SMALL.values(), *sizes.values()]):
        case = f"{title}, 4 ranks, one host"
        part = {name: seconds(one[number]) for name, one in found.items()}
        for name, values in part.items():
            yield row(case, name, times(values, 1e6), "us")
        for name, values in list(part.items())[1:]:
            target = "<= 1" if name != TITLES["gloo"] else ""
            yield row(case, f"of {name}", each(part["openmrc"], values, over), "x", target)


def bus_gbps(ranks: int, size: int, seconds: Values) -> Values:
    """Bytes sent by a rank of a ring, as a rate."""
    bits = 2 * (ranks - 1) / ranks * size * 8
    return [None if one is None else bits / one / 1e9 for one in seconds]


def processor_rows(case: str, name: str, rounds: list[list[Round]], ranks: int, size: int) -> Iterator[Row]:
    """Processor time for each GB that a rank of a ring sends, and of the machine for the data of all ranks."""
    if not any(rounds):
        return
    sent_bytes = 2 * (ranks - 1) / ranks * size
    own = [median([seconds_per_gb(it.cpu_s, sent_bytes) for it in one]) for one in rounds]
    machine = [median([seconds_per_gb(it.machine_cpu_s, ranks * sent_bytes) for it in one]) for one in rounds]
    yield row(case, f"{name}: CPU of a rank", own, "s/GB")
    yield row(case, f"{name}: CPU of the machine", machine, "s/GB")


def bandwidth(repeat: Repeat) -> Iterator[Row]:
    size = 64 * MIB
    works = [{"name": "all_reduce", "bytes": size, "warm": 1, "rounds": 3, "in_flight": flight} for flight in (1, 4)]
    for ranks in (2, 4):
        case = f"all-reduce of 64 MiB, {ranks} ranks, unshaped veth"
        with VethBridge(ranks, 9000) as bridge:
            hosts = on_bridge(bridge)
            starts: dict[str, Start] = {backend: partial(run, hosts, backend, works) for backend in here()}
            found = by_turns(repeat, starts, len(works))
        best: dict[str, Values] = {}
        for backend, measured in found.items():
            rates = [bus_gbps(ranks, size, seconds(rounds)) for rounds in measured]
            for work, rounds, values in zip(works, measured, rates, strict=True):
                name = f"{TITLES[backend]}, {work['in_flight']} in flight"
                yield row(case, name, values, "Gb/s")
                yield from processor_rows(case, name, rounds, ranks, size)
            best[backend] = max(rates, key=lambda values: median(values) or 0.0)
        for other in here()[1:]:
            yield row(case, f"of {TITLES[other]}, both at best", each(best["mrc"], best[other], over), "x", ">= 1.3")


def planes(repeat: Repeat) -> Iterator[Row]:
    size, case = 64 * MIB, f"all-reduce of 64 MiB, 4 ranks, {PLANES} planes of {PLANE_MBIT} Mb/s"
    found: dict[str, Values] = {}
    with slow_planes() as planes:
        # An operation of Gloo uses one interface.
        for backend, interfaces, flight in (
            ("mrc", PLANES, 1),
            ("gloo", 1, 1),
            ("gloo", PLANES, 4),
            ("mpi", PLANES, 1),
        ):
            if backend in MISSING:
                continue
            work = {"name": "all_reduce", "bytes": size, "warm": 0, "rounds": 1, "in_flight": flight}
            works = [work, *repeat(every_seed(work))]
            measured = run(planes.hosts(interfaces), backend, works)
            seconds = medians(measured, len(works))[1:]
            name = f"{TITLES[backend]}, {interfaces} interface{'s' * (interfaces > 1)}, {flight} in flight"
            found[name] = bus_gbps(4, size, seconds)
            yield row(case, name, found[name], "Gb/s")
            yield from processor_rows(case, name, measured[1:] if measured else [], 4, size)
        limit = planes.limit_gbps
    own, *others = found.values()
    yield row(case, "openmrc of the planes less headers", times(own, 1 / limit), "", ">= 0.95")
    if others and "gloo" not in MISSING:
        yield row(case, "of Gloo, 1 interface", each(own, others[0], over), "x", ">= 3.7")


def outage(planes: SlowPlanes, backend: str, size: int, rounds: int) -> tuple[list[tuple[float, float]] | None, float]:
    """Begin and seconds of each round, None for an error; and the start of the outage."""
    work = {"name": "all_reduce", "bytes": size, "warm": 0, "rounds": rounds}
    struck_s = 0.0

    def start() -> float:
        nonlocal struck_s
        struck_s = time.monotonic() + FAULT_S
        planes.environment.strike((FAULT,))
        return LIMIT_S if backend == "mrc" else DONE_S

    try:
        measured = run(
            planes.hosts(PLANES if backend == "mrc" else 1),
            backend,
            [work | {"rounds": 2}, work],
            started=start,
        )
    finally:
        planes.environment.repair()
    return (None if measured is None else [(at, took) for at, took, *_ in measured[-1] if took is not None]), struck_s


def struck(rounds: list[tuple[float, float]] | None, struck_s: float) -> tuple[float | None, float | None]:
    """Of rounds so long that few fit into the outage: (ms lost by the affected one, seconds of those after it).

    The loss is its duration beyond its first part at the earlier rate and the rest of it at the later rate.
    """
    before = [took for at, took in rounds or [] if at + took < struck_s]
    after = [took for at, took in rounds or [] if at > struck_s and at + took < struck_s + OUTAGE_S]
    hit = [(struck_s - at, took) for at, took in rounds or [] if at <= struck_s < at + took]
    if not (before and after and hit):
        return None, None
    [(first_s, took)], left_s = hit, statistics.median(after)
    share = first_s / statistics.median(before)
    return (took - first_s - (1 - share) * left_s) * 1e3, left_s


def black_hole(repeat: Repeat) -> Iterator[Row]:
    """TCP's backends run once each, since they take long and have no target."""
    plane = f"one plane of four silently black-holed for {OUTAGE_S:.0f} s"
    whole, case = 64 * MIB, f"all-reduce of 64 MiB, {plane}"
    with slow_planes() as planes:
        runs = repeat(lambda _seed: outage(planes, "mrc", whole, 10))
        lost, left = zip(*(struck(*one) for one in runs), strict=True)
        yield row(case, "openmrc: errors", [float(rounds is None) for rounds, _ in runs], "", "== 0")
        yield row(case, "openmrc: lost by the one that is struck", lost, "ms", "<= 100")
        share = times(bus_gbps(4, whole, list(left)), PLANES / (PLANES - 1) / planes.limit_gbps)
        yield row(case, "openmrc: bus bandwidth of three planes", share, "", ">= 0.95")
        size, case = 4 * MIB, f"all-reduces of 4 MiB, {plane}"
        after = DONE_S - FAULT_S - OUTAGE_S
        for backend in here():
            own = backend == "mrc"
            work = every_seed((backend, size, OUTAGE_ROUNDS[backend]))
            found = [outage(planes, *one) for one in (repeat(work) if own else [work(1)])]
            failed = f"{TITLES[backend]}: failed, or not done {after:.0f} s after the outage"
            yield row(case, failed, [float(rounds is None) for rounds, _ in found], "")
            stall = f"{TITLES[backend]}: stall, longest round less the median"
            yield row(case, stall, [stall_ms(*one) for one in found], "ms", "<= 50" if own else "")


def classes(repeat: Repeat) -> Iterator[Row]:
    case, total = f"all-reduce of 64 KiB beside an all-gather of 1 GiB, {PLANES} planes", 1024 * MIB
    alone = {"name": "all_reduce", "bytes": 65536, "warm": 3, "classes": ["critical"] * CRITICAL_ROUNDS}
    busy = alone | {"classes": ["critical"] * CRITICAL_ROUNDS + ["bulk"] * BULK_ROUNDS, "beside": total}
    works = repeat(every_seed(alone)) + repeat(every_seed(busy))
    repeats = len(works) // 2
    with slow_planes() as planes:
        measured = run(planes.hosts(), "mrc", works)
    rounds = [[]] * len(works) if measured is None else [[it.seconds for it in one] for one in measured]
    quiet = [median(one) for one in rounds[:repeats]]
    critical = [median(one[:CRITICAL_ROUNDS]) for one in rounds[repeats:]]
    bulk = [median(one[CRITICAL_ROUNDS:]) for one in rounds[repeats:]]
    for name, values, target in (("alone", quiet, ""), ("critical class", critical, "<= 5"), ("bulk class", bulk, "")):
        yield row(case, name, times(values, 1e3), "ms", target)
    yield row(case, "bulk class of critical class", each(bulk, critical, over), "x", ">= 2")


def train(planes: int, rate_bps: int, backend: str, interfaces: int, repeat: Repeat) -> list[TrainRun | None]:
    """The model of the demo, trained as in the demo, without faults; None for an unfinished run."""
    fabric = training_fabric(4, planes, rate_bps, 1, {"t1s": 4, "delay": "100us", "framing": "ipv6"})
    with own_test_bed(fabric) as environment, Family() as family:
        view = TrainView(Console(quiet=True))
        try:
            job = Job(family, environment, backend, ModelSize(), 1, PATIENCE_S, view, interfaces)
            tried = job.join()
        except ChildError as error:
            print(f"{TITLES[backend]} failed: {error}", file=sys.stderr)
            return repeat(lambda _seed: None)
        gone = False

        def once(_seed: int) -> TrainRun | None:
            nonlocal gone
            if gone:
                return None
            done = job.train(backend, TITLES[backend], tried, STEPS, (), TRAIN_S)
            gone = not done.finished
            if gone:
                print(f"{TITLES[backend]} failed: {done.error}", file=sys.stderr)
            return None if gone else done

        return repeat(once)


def training(repeat: Repeat) -> Iterator[Row]:
    if "gloo" in MISSING:
        return  # the model requires torch, too
    case = f"DDP of the demo's model, 4 ranks, {PLANES * PLANE_MBIT / 1e3:g} Gb/s in all"
    whole, part = PLANES * PLANE_MBIT * 1_000_000, PLANE_MBIT * 1_000_000
    jobs = [
        (f"openmrc, {PLANES} planes", "mrc", PLANES, part),
        ("Gloo, 1 interface", "gloo", 1, whole),
        (f"Gloo, {PLANES} interfaces", "gloo", PLANES, part),
    ]
    exposed: dict[str, Values] = {}
    steps: dict[str, Values] = {}
    for name, backend, planes, rate_bps in jobs:
        runs = train(planes, rate_bps, backend, planes, repeat)
        exposed[name] = [None if one is None else one.exposed_ms for one in runs]
        yield row(case, f"{name}: exposed communication", exposed[name], "ms/step")
        steps[name] = [None if one is None else one.step_ms for one in runs]
        yield row(case, f"{name}: step", steps[name], "ms/step")
    for what, found, target in (("exposed communication", exposed, "<= 0.6"), ("step", steps, "<= 1")):
        own = found.pop(jobs[0][0])
        for name, values in found.items():
            yield row(case, f"{what} of {name}", each(own, values, over), "x", target)


CASES: dict[str, Callable[[Repeat], Iterator[Row]]] = {
    "latency": latency,
    "one-host": one_host,
    "bandwidth": bandwidth,
    "planes": planes,
    "blackhole": black_hole,
    "classes": classes,
    "training": training,
}


if __name__ == "__main__":
    left_out = [f"{TITLES[name]}: {why}" for name, why in MISSING.items()]
    try:
        title = "Benchmarks of collectives."
        as_root = set(CASES) - {"one-host"}
        sys.exit(run_cases("collectives", title, CASES, as_root=as_root, left_out=left_out, repeats=5))
    except KeyboardInterrupt:
        sys.exit(130)
