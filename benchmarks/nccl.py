"""NCCL between GPUs over openmrc's plugin and over NCCL's own sockets, on ordinary networks between namespaces.

    python benchmarks/nccl.py [--repeats 5] [--only CASE ...] [--json FILE]

Needs root, for network namespaces, PyTorch with NCCL, and at least one GPU, which the ranks share: every namespace is a
host to NCCL. Ranks that share a GPU take turns on it, which costs both networks the same. Without GPUs all cases are
left out. openmrc runs with nothing configured but its ports. Rounds of a repeat follow each other in one process.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from _cases import Case, Repeat, every_seed, run_cases
from _collective_hosts import Hosts, Measured, Round, on_bridge, on_plain_bed, run_ranks, stall_ms
from _ordinary_runs import MRC_HEADER_BYTES

from openmrc.programs import nccl_plugin_path
from openmrc.runs.bench.rows import Row, row
from openmrc.runs.processes.processor_time import seconds_per_gb
from openmrc.runs.processes.supervisor import ChildError
from openmrc.runs.processes.veth_pairs import VethBridge
from openmrc.testbed.plain import PlainBed, PlainNetwork

MBIT, KIB, MIB = 1_000_000, 1 << 10, 1 << 20
WHOLE_BYTES, PART_BYTES = 64 * MIB, 4 * MIB
CONTENTS_BYTES = (4, 4 * 1021, 64 * KIB, 4 * MIB)  # of each rank
FAULT_S = 1.5
PATIENCE_S = 20.0  # from the outage on
OUTAGE_ROUNDS = 150
SOCKETS = "NCCL's sockets"


def planes_of(*mbit: int, hosts: int = 2) -> PlainNetwork:
    """An ordinary network with a FIFO of 256 KiB in front of every host."""
    rates = tuple(rate * MBIT for rate in mbit)
    return PlainNetwork.of_rates(rates, hosts=hosts, fifo_bytes=256 * KIB, mtu_bytes=1500)


def tried(hosts: Hosts, net: str, works: list[dict[str, Any]], started: Callable[[], float] | None = None) -> Measured:
    """Rounds of each work over the network of this name in NCCL; none, and a printed line, if it failed."""
    environment = []
    if net == "openmrc":
        folders = [str(nccl_plugin_path().parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        environment = ["NCCL_NET_PLUGIN=openmrc", f"LD_LIBRARY_PATH={':'.join(folders)}"]
    try:
        return run_ranks(hosts, "nccl", works, started, environment, nccl_net=net)
    except ChildError as error:
        print(f"{net} failed: {error}", file=sys.stderr)
        return []


def contents(_repeat: Repeat) -> Iterator[Row]:
    works = [{"name": "contents", "bytes": size, "warm": 0, "rounds": 3} for size in CONTENTS_BYTES]
    for ranks in (2, 4):
        with PlainBed(planes_of(250, 250, 250, 250, hosts=ranks), offloads=True) as bed:
            bed.lose(1, 0.001)
            found = tried(on_plain_bed(bed, 1), "openmrc", works)
        case = f"every collective, {ranks} ranks, 4 planes, one loses 0.1 %"
        yield row(case, "openmrc: failed, or wrong contents", [float(not found)], "", "== 0")


def bus_gbps(rounds: list[Round]) -> list[float]:
    """Rates at which a rank of two sends and receives."""
    return [WHOLE_BYTES * 8 / one.seconds / 1e9 for one in rounds if one.seconds]


def rates(
    case: str, ways: dict[str, tuple[str, Hosts]], repeat: Repeat, limit_gbps: float | None = None
) -> Iterator[Row]:
    """Rows of every way, openmrc first, then its rate over the limit and over the others."""
    work = {"name": "all_reduce", "bytes": WHOLE_BYTES, "warm": 0, "rounds": 1}
    works = [work, *repeat(every_seed(work))]
    found: dict[str, list[float]] = {}
    for name, (net, hosts) in ways.items():
        rounds = [one[0] for one in tried(hosts, net, works)[1:]]
        found[name] = bus_gbps(rounds)
        yield row(case, f"{name}: bus bandwidth", found[name], "Gb/s")
        yield row(case, f"{name}: CPU of a rank", [seconds_per_gb(one.cpu_s, WHOLE_BYTES) for one in rounds], "s/GB")
        machine = [seconds_per_gb(one.machine_cpu_s, 2 * WHOLE_BYTES) for one in rounds]
        yield row(case, f"{name}: CPU of the machine, for what both ranks send", machine, "s/GB")
    own, *others = found.values()
    if limit_gbps is not None:
        yield row(case, "openmrc: share of limit", [one / limit_gbps for one in own], "")
    for name, values in zip(list(found)[1:], others, strict=True):
        ratios = [mine / theirs for mine, theirs in zip(own, values, strict=False)]
        yield row(case, f"openmrc over {name}", ratios, "x", ">= 1")


def over_planes(*mbit: int) -> Case:
    """A case of the all-reduce over planes of these rates."""
    network = planes_of(*mbit)
    limit_gbps = network.limit_bps(MRC_HEADER_BYTES) / 1e9
    case = f"NCCL all-reduce of 64 MiB, 2 ranks, planes of {'+'.join(map(str, mbit))} Mb/s"

    def rows(repeat: Repeat) -> Iterator[Row]:
        with PlainBed(network, offloads=True) as bed:
            ways = {
                "openmrc": ("openmrc", on_plain_bed(bed, len(mbit))),
                f"{SOCKETS}, 1 interface": ("Socket", on_plain_bed(bed, 1)),
                f"{SOCKETS}, {len(mbit)} interfaces": ("Socket", on_plain_bed(bed, len(mbit))),
            }
            yield from rates(case, ways, repeat, limit_gbps)

    return rows


def unshaped(repeat: Repeat) -> Iterator[Row]:
    with VethBridge(2, 9000) as bridge:
        hosts = on_bridge(bridge)
        ways = {"openmrc": ("openmrc", hosts), SOCKETS: ("Socket", hosts)}
        yield from rates("NCCL all-reduce of 64 MiB, 2 ranks, unshaped veth", ways, repeat)


def dead_plane(repeat: Repeat) -> Iterator[Row]:
    """A plane that is not the one of the set-up falls silent for good; sockets run once, since they take long."""
    case = "NCCL all-reduces of 4 MiB, 2 ranks, one plane of four silent"
    work = {"name": "all_reduce", "bytes": PART_BYTES, "warm": 0, "rounds": OUTAGE_ROUNDS}

    def once(net: str) -> tuple[list[tuple[float, float]], float]:
        struck_s = 0.0

        def silence() -> float:
            nonlocal struck_s
            time.sleep(FAULT_S)
            struck_s = time.monotonic()
            bed.silence(1)
            return PATIENCE_S

        with PlainBed(planes_of(250, 250, 250, 250), offloads=True) as bed:
            found = tried(on_plain_bed(bed, 4), net, [work | {"rounds": 5}, work], silence)
        return [(one.begun_s, one.seconds) for one in (found[1] if found else []) if one.seconds], struck_s

    for net, runs in (("openmrc", repeat(lambda _seed: once("openmrc"))), ("Socket", [once("Socket")])):
        ours = net == "openmrc"
        name = net if ours else f"{SOCKETS}, 4 interfaces"
        failed = [float(not rounds) for rounds, _ in runs]
        yield row(case, f"{name}: failed, or not done after {PATIENCE_S:.0f} s", failed, "", "== 0" if ours else "")
        yield row(case, f"{name}: stall", [stall_ms(*run) for run in runs], "ms", "<= 50" if ours else "")


def missing() -> str | None:
    """The reason why NCCL does not run here."""
    if importlib.util.find_spec("torch") is None:
        return "no PyTorch"
    import torch

    if not torch.distributed.is_nccl_available():
        return "PyTorch has no NCCL"
    return None if torch.cuda.is_available() else "no GPU"


CASES: dict[str, Case] = {
    "contents": contents,
    "planes": over_planes(250, 250, 250, 250),
    "unequal": over_planes(500, 500, 250, 100),
    "unshaped": unshaped,
    "dead-plane": dead_plane,
}


if __name__ == "__main__":
    try:
        title = "NCCL over openmrc's plugin and over its own sockets."
        sys.exit(run_cases("nccl", title, CASES, as_root=CASES, missing=missing(), repeats=5))
    except KeyboardInterrupt:
        sys.exit(130)
