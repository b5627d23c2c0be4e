"""Ring all-reduce and all-to-all under random loss, MRC and RoCE (Figures 16 and 17; cluster C)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openmrc.paper.clusters import NIC_D, cluster_c
from openmrc.paper.experiment import Experiment, Outcome, Results, Runs
from openmrc.paper.finding import Measure, find
from openmrc.paper.plot import Line, Plot
from openmrc.sim import TransportResult

__all__ = ["EXPERIMENTS"]

KIB, MIB = 2**10, 2**20
LOSSES = ("0", "0.1", "1")  # percent
LIMIT_MS = 150
MRC, MRC_PROBES = "MRC, 1 QP", "MRC, 1 QP, EV probes every 1 ms"
ONE_PLANE, ONE_PLANE_ORDERED = "RoCE, 1 QP, one 400G plane", "RoCE, 1 QP, one 400G plane, ranks in order"


@dataclass(frozen=True)
class _Contender:
    kind: str
    lanes: int
    settings: Mapping[str, Any]
    fabric: Mapping[str, Any] = field(default_factory=dict)


# 256 EVs, as the paper's MRC has here; two hashed EVs may share a path.
_EVS: Mapping[str, Any] = {"active_per_port": 64}
CONTENDERS: Mapping[str, _Contender] = {
    MRC: _Contender("mrc", 1, _EVS),
    MRC_PROBES: _Contender("mrc", 1, {**_EVS, "probe_interval": "1ms"}),
    "RoCE, 1 QP": _Contender("roce", 1, {}),
    "RoCE, 8 QPs": _Contender("roce", 8, {}),
    "RoCE, 16 QPs": _Contender("roce", 16, {}),
    ONE_PLANE: _Contender("roce", 1, {}, {"planes": 1, "rate": "400Gbit"}),
    ONE_PLANE_ORDERED: _Contender("roce", 1, {}, {"planes": 1, "rate": "400Gbit"}),
}
ROCE = ("RoCE, 1 QP", "RoCE, 8 QPs", "RoCE, 16 QPs")
QUEUE = "4MB"  # of a switch port for RoCE, which cannot rely on trimming; not published

Workload = Callable[[int], Mapping[str, Any]]


def _run(name: str, loss: str, workload: Mapping[str, Any], hosts: int) -> Mapping[str, Any]:
    contender = CONTENDERS[name]
    mrc = contender.kind == "mrc"
    fabric = cluster_c(hosts=hosts, trim=mrc)
    return {
        "fabric": fabric if mrc else {**fabric, "queue_bytes": QUEUE, **contender.fabric},
        "nic": {**NIC_D, "lanes": contender.lanes},
        "transports": {contender.kind: contender.settings},
        "workload": workload,
        # On the last link before every NIC, all planes, data and answers alike.
        "faults": [] if loss == "0" else [f"all loss {loss}%"],
        "duration": f"{LIMIT_MS}ms",
        "watch": {"series": []},
    }


def _runs(workload: Workload, sizes: Mapping[str, Sequence[int]], hosts: int, names: Sequence[str]) -> Runs:
    return {
        _run_name(name, loss, size): _run(name, loss, workload(size), hosts)
        for loss in LOSSES
        for name in names
        for size in sizes[loss]
    }


def _run_name(name: str, loss: str, size: int) -> str:
    return f"{name}/{loss}/{size}"


class _Rates:
    """Bus bandwidth of every run: the mean rate of each NIC until the last message has arrived."""

    def __init__(self, results: Results, moved: Callable[[int], float]) -> None:
        self.gbps: dict[str, dict[str, dict[int, float]]] = {}
        for run, result in results.items():
            name, loss, size = run.split("/")
            rate = _rate_gbps(result, moved(int(size)))
            self.gbps.setdefault(loss, {}).setdefault(name, {})[int(size)] = rate

    def at(self, name: str, loss: str, size: int) -> float:
        return self.gbps[loss][name][size]

    def largest(self, loss: str) -> int:
        return max(self.gbps[loss][MRC])

    def plots(self, figure: str, x: str) -> tuple[Plot, ...]:
        return tuple(
            Plot(
                f"fig{figure}-loss{loss.replace('.', '_')}",
                f"{loss} % loss",
                x,
                "bus bandwidth, Gb/s",
                tuple(
                    Line(name, list(rates), list(rates.values()), marks=True)
                    for name, rates in by_name.items()
                    if name in (MRC, MRC_PROBES, *ROCE)
                ),
                log="x",
            )
            for loss, by_name in self.gbps.items()
        )


def _rate_gbps(result: TransportResult, moved_bytes: float) -> float:
    """For an unfinished run, the upper bound given by an end at the limit."""
    finish_ps = result.summary["finish_ps"] or LIMIT_MS * 10**9
    return moved_bytes * 8e3 / finish_ps


def _hosts(quick: bool) -> int:
    return 32 if quick else 64


RING_SIZES: Mapping[bool, Mapping[str, Sequence[int]]] = {
    False: {
        "0": (1 * MIB, 4 * MIB, 16 * MIB, 64 * MIB, 128 * MIB),
        "0.1": (1 * MIB, 4 * MIB, 16 * MIB, 64 * MIB, 128 * MIB),
        "1": (4 * MIB, 16 * MIB, 64 * MIB),
    },
    True: {"0": (8 * MIB,), "0.1": (8 * MIB,), "1": (8 * MIB,)},
}
CHUNKS = 4


def _ring(size: int) -> Mapping[str, Any]:
    return {"name": "all_reduce", "bytes": size, "chunks": CHUNKS, "order": "random"}


def _runs_16(quick: bool) -> Runs:
    if quick:
        return _runs(_ring, RING_SIZES[quick], _hosts(quick), (MRC, "RoCE, 1 QP", "RoCE, 16 QPs"))
    runs = dict(_runs(_ring, RING_SIZES[quick], _hosts(quick), (MRC, *ROCE)))
    big = max(RING_SIZES[quick]["0"])
    # Long enough that every EV of a QP has lost a packet.
    for name in (MRC, MRC_PROBES):
        runs[_run_name(name, "1", big)] = _run(name, "1", _ring(big), _hosts(quick))
    runs[_run_name(ONE_PLANE, "0", big)] = _run(ONE_PLANE, "0", _ring(big), _hosts(quick))
    ordered = {**_ring(big), "order": "t0"}
    runs[_run_name(ONE_PLANE_ORDERED, "0", big)] = _run(ONE_PLANE_ORDERED, "0", ordered, _hosts(quick))
    return runs


def _judge_16(results: Results, quick: bool) -> Outcome:
    hosts = _hosts(quick)
    rates = _Rates(results, lambda size: 2 * (hosts - 1) / hosts * size)
    big = rates.largest("0")
    mrc = rates.at(MRC, "0", big)
    one, many = (rates.at(name, "0", big) for name in ("RoCE, 1 QP", "RoCE, 16 QPs"))
    kept = {loss: 100 * rates.at(MRC, loss, big) / mrc for loss in LOSSES}
    roce_lossy = max(max(by_size.values()) for name, by_size in rates.gbps["1"].items() if name in ROCE)
    measures = [
        Measure("MRC", mrc, "Gb/s"),
        Measure("MRC over RoCE 16 QPs", mrc / many, "", 1.0, digits=2),
        Measure("RoCE 1 QP over MRC", 100 * one / mrc, "%", 40, 60, why=ONE_PORT),
        *_one_plane(rates, big, mrc),
        *_gain(rates, big),
        Measure("MRC at 0.1 % loss", kept["0.1"], "% of without", 90, why=WAITS),
        Measure("at 1 %", kept["1"], "% of without", 25, 42, why=WAITS),
        *_probes(rates, big, mrc),
        Measure("best RoCE at 1 %", 100 * roce_lossy / mrc, "% of MRC without", None, 10, digits=1),
    ]
    finding = find(
        "16",
        TITLE_16,
        "RoCE 1 QP about half of MRC, little gain beyond 8 QPs, MRC 1 QP above RoCE 16 QPs; 0.1 % loss: little effect "
        "at large sizes; 1 %: MRC about one third, RoCE unusable",
        measures,
        f"{hosts} NICs, up to {big // MIB} MiB (the paper: 16 GB); {CHUNKS} chunks in a pipeline, ranks on hosts at "
        "random; RoCE has DCQCN with the values of its paper, its QPs take the planes in turn, its switch ports have "
        f"{QUEUE} each, and a lost tail is sent again after 4.2 ms. MRC at 1 % loss: an EV is disabled at its first "
        "loss and returns after three answered probes, 10 ms apart, so a long transfer runs out of EVs; shorter ones "
        "are faster",
    )
    return Outcome(finding, rates.plots("16", "bytes"))


ONE_PORT = (
    "one QP uses one of four ports, which limits it to a quarter, and DCQCN recovers slowly after each collision on a "
    "hashed uplink; the paper does not say how its RoCE used four planes, or how its ranks were placed; with one plane "
    "of 400G the result depends on collisions only"
)
WAITS = (
    "every loss delays the next step of the ring until it is repaired; the effect is larger with small messages and "
    "with few EVs left"
)


def _one_plane(rates: _Rates, size: int, intact: float) -> list[Measure]:
    """Rate of one QP that can use the whole NIC: with collisions, and nearly without, if simulated."""
    names = {ONE_PLANE: "on one 400G plane", ONE_PLANE_ORDERED: "there with ranks in the order of the T0s"}
    return [
        Measure(words, 100 * rates.at(name, "0", size) / intact, "%")
        for name, words in names.items()
        if name in rates.gbps["0"]
    ]


def _probes(rates: _Rates, size: int, intact: float) -> list[Measure]:
    """Gain from more frequent EV probes at 1 % loss, if simulated."""
    if MRC_PROBES not in rates.gbps["1"]:
        return []
    share = 100 * rates.at(MRC_PROBES, "1", size) / intact
    return [Measure("with EV probes every 1 ms, an option,", share, "% of without")]


def _gain(rates: _Rates, size: int) -> list[Measure]:
    """Gain from more than 8 QPs, if 8 were simulated."""
    if "RoCE, 8 QPs" not in rates.gbps["0"]:
        return []
    gain = rates.at("RoCE, 16 QPs", "0", size) / rates.at("RoCE, 8 QPs", "0", size)
    why = "each QP's DCQCN starts at the rate of its port and recovers slowly, so more QPs keep a higher sum"
    return [Measure("RoCE 16 over 8 QPs", gain, "", None, 1.15, why=why, digits=2)]


EXCHANGE_SIZES: Mapping[bool, Mapping[str, Sequence[int]]] = {
    False: {
        "0": (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB),
        "0.1": (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB),
        "1": (16 * KIB, 256 * KIB),
    },
    True: {"0": (16 * KIB, 128 * KIB), "0.1": (16 * KIB, 128 * KIB), "1": (128 * KIB,)},
}


def _exchange(size: int) -> Mapping[str, Any]:
    return {"name": "all_to_all", "bytes": size, "order": "random"}


def _runs_17(quick: bool) -> Runs:
    return _runs(_exchange, EXCHANGE_SIZES[quick], _hosts(quick), (MRC, "RoCE, 1 QP", "RoCE, 16 QPs"))


def _judge_17(results: Results, quick: bool) -> Outcome:
    hosts = _hosts(quick)
    rates = _Rates(results, lambda size: (hosts - 1) * size)
    sizes = sorted(rates.gbps["0"][MRC])
    small, big = sizes[0], sizes[-1]

    def over(name: str) -> float:
        return min(rates.at(MRC, "0", size) / rates.at(name, "0", size) for size in sizes)

    def kept(name: str, size: int) -> float:
        return 100 * rates.at(name, "0.1", size) / rates.at(name, "0", size)

    tail = "a lost tail of a message waits 4.2 ms for its timeout, longer than these all-to-alls take"
    measures = [
        Measure(
            "MRC over RoCE 1 QP, least of all sizes",
            over("RoCE, 1 QP"),
            "",
            1.0,
            why="the smallest messages are one packet, and the planes of the 63 packets to a receiver are random: "
            "its busiest port gets 1.5 times its share; RoCE's QPs take the planes in turn",
            digits=2,
        ),
        Measure(
            "over RoCE 16 QPs",
            over("RoCE, 16 QPs"),
            "",
            1.0,
            why="with 63 peers, 16 QPs for each and deep queues RoCE's hashes spread the load evenly, without loss",
            digits=2,
        ),
        Measure(
            "RoCE 16 over 1 QP at the largest",
            rates.at("RoCE, 16 QPs", "0", big) / rates.at("RoCE, 1 QP", "0", big),
            "",
            0.8,
            1.02,
            why="1 QP per peer sends each message over one port, and DCQCN keeps its rate low after a collision",
            digits=2,
        ),
        Measure("RoCE 1 QP at 0.1 % loss, largest", kept("RoCE, 1 QP", big), "% of without", 80, why=tail),
        Measure("smallest", kept("RoCE, 1 QP", small), "% of without", None, 30),
        Measure("MRC at 0.1 %, largest", kept(MRC, big), "% of without"),
        Measure("smallest", kept(MRC, small), "% of without"),
    ]
    finding = find(
        "17",
        TITLE_17,
        "MRC above RoCE at every size; 16 QPs slightly worse than 1; at 0.1 % loss RoCE hardly degrades for large and "
        "very badly for small messages",
        measures,
        f"{hosts} NICs, {small // KIB} KiB to {big // KIB} KiB to every peer, all at once; otherwise as Figure 16",
    )
    return Outcome(finding, rates.plots("17", "bytes per peer"))


TITLE_16 = "ring all-reduce with random loss"
TITLE_17 = "all-to-all with random loss"
EXPERIMENTS = (Experiment("16", TITLE_16, _runs_16, _judge_16), Experiment("17", TITLE_17, _runs_17, _judge_17))
