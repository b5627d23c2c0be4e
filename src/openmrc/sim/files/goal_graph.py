"""GOAL schedules as graphs of ops: recvs matched with sends, and starts distinguished from ends.

A send becomes a send, a calc a computation. A recv becomes a computation without duration that waits for the receipt of
its send; so does the mark of an op's start, which exists if an `irequires` waits for it.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np

from openmrc.errors import did_you_mean
from openmrc.sim.files.goal import Op, Schedule, read_schedule
from openmrc.sim.ops import COMPLETED, Array, OpGraph
from openmrc.sim.workloads.builder import Builder

__all__ = ["load_goal"]

DURATION_PS_MAX = 2**62

_Row = tuple[int, Op]  # an operation and its rank


def load_goal(path: str | Path, unit_ps: int = 1000) -> tuple[OpGraph, int]:
    """The graph of a GOAL file, and its number of ranks.

    Args:
        path: The file.
        unit_ps: Duration of `calc 1`; 1 ns in GOAL.

    Raises:
        ConfigError: with file and line, for anything invalid or unsupported.
    """
    schedule = read_schedule(path)
    rows = [(rank, op) for rank, part in sorted(schedule.by_rank.items()) for op in part.ops]
    builder = Builder()
    numbers = _add_ops(builder, rows, unit_ps)
    _match(builder, rows, numbers)
    _add_requirements(builder, schedule, rows, numbers)
    graph = builder.build()
    order = _order(graph, rows, numbers)
    _check_cpus(graph, rows, numbers, order)
    return graph, schedule.ranks


def _add_ops(builder: Builder, rows: list[_Row], unit_ps: int) -> Array:
    """Adds an op for each row; returns the ops' numbers by row."""
    for rank, op in rows:
        if op.kind == "calc" and op.size * unit_ps > DURATION_PS_MAX:
            raise op.line.error("calc", op.size, "a computation of at most 53 days")
        if op.kind != "calc" and op.peer == rank:
            raise op.line.error("rank", op.peer, "another rank than its own")
    job = builder.group("goal")
    host = np.array([rank for rank, _ in rows])
    sends = np.array([op.kind == "send" for _, op in rows])
    size = np.array([op.size for _, op in rows])
    peer = np.array([op.peer for _, op in rows])
    computes = np.array([op.kind == "calc" for _, op in rows])
    numbers = np.empty(len(rows), dtype=np.int64)
    numbers[sends] = builder.sends(host[sends], peer[sends], size[sends], job=job)
    numbers[~sends] = builder.computes(host[~sends], np.where(computes, size * unit_ps, 0)[~sends], job=job)
    return numbers


def _match(builder: Builder, rows: list[_Row], numbers: Array) -> None:
    """Matches the k-th send between two ranks with a tag with the k-th recv."""
    ends: dict[str, dict[tuple[int, int, int], list[int]]] = {"send": defaultdict(list), "recv": defaultdict(list)}
    for at, (rank, op) in enumerate(rows):
        if op.kind != "calc":
            source, destination = (rank, op.peer) if op.kind == "send" else (op.peer, rank)
            ends[op.kind][source, destination, op.tag].append(at)
    for key in ends["send"].keys() | ends["recv"].keys():
        sends, recvs = ends["send"].get(key, []), ends["recv"].get(key, [])
        if len(sends) != len(recvs):
            more, kind, other = (sends, "send", "recv") if len(sends) > len(recvs) else (recvs, "recv", "send")
            op = rows[more[min(len(sends), len(recvs))]][1]
            allowed = f"as many recvs as sends from rank {key[0]} to rank {key[1]} with tag {key[2]}"
            raise op.line.error(kind, op.line.text.strip(), f"{allowed}; this {kind} has no {other}")
        for send, recv in zip(sends, recvs, strict=True):
            sent, expected = rows[send][1], rows[recv][1]
            if sent.size > expected.size:
                allowed = f"at least {sent.size}b, which line {sent.line.number} sends"
                raise expected.line.error("recv", f"{expected.size}b", allowed)
        builder.after_receipt(numbers[recvs], numbers[sends])


def _requirements(schedule: Schedule, rows: list[_Row]) -> list[tuple[int, int, bool]]:
    """Rows (waiting, awaited, for its start only), from the labels."""
    first: dict[int, int] = {}
    for at, (rank, _) in enumerate(rows):
        first.setdefault(rank, at)
    found = []
    for rank, part in schedule.by_rank.items():
        for waiting, awaited, immediate, line in part.requires:
            for label in (waiting, awaited):
                if label not in part.labels:
                    hint = did_you_mean(label, part.labels)
                    raise line.error("label", label, f"a label of an operation of rank {rank}", hint)
            found.append((first[rank] + part.labels[waiting], first[rank] + part.labels[awaited], immediate))
    return found


def _add_requirements(builder: Builder, schedule: Schedule, rows: list[_Row], numbers: Array) -> None:
    requirements = _requirements(schedule, rows)
    marked = sorted({awaited for _, awaited, immediate in requirements if immediate})
    job = builder.group("goal")
    starts = dict(zip(marked, builder.computes([rows[at][0] for at in marked], 0, job=job), strict=True))
    pairs = [(numbers[at], start) for at, start in starts.items()]
    for waiting, awaited, immediate in requirements:
        pairs.append((starts.get(waiting, numbers[waiting]), starts[awaited] if immediate else numbers[awaited]))
    if pairs:
        ops, on = np.array(pairs).T
        builder.after(ops, on)


def _order(graph: OpGraph, rows: list[_Row], numbers: Array) -> list[int]:
    """The ops of the graph in topological order."""
    order = [op for wave in graph.levels() for op in wave.tolist()]
    if len(order) < len(graph):
        stuck = np.ones(len(graph), dtype=bool)
        stuck[order] = False
        line = rows[int(np.flatnonzero(stuck[numbers])[0])][1].line
        raise line.error("requires", line.text.strip(), "requirements without a cycle; this can never start")
    return order


def _check_cpus(graph: OpGraph, rows: list[_Row], numbers: Array, order: list[int]) -> None:
    """Checks that the computations of every cpu follow one another, by requirements of their own rank.

    Walks the ops in order; for every op, the latest preceding computation of each cpu, as a running number, is known.
    The next computation of a cpu must come after the last one.
    """
    calcs = {int(numbers[at]): row for at, row in enumerate(rows) if row[1].kind == "calc" and row[1].size}
    if len({(rank, op.cpu) for rank, op in calcs.values()}) == len(calcs):
        return
    local = graph.dep_event == COMPLETED
    behind: dict[int, list[int]] = defaultdict(list)
    for op, on in zip(graph.dep_op[local].tolist(), graph.dep_on[local].tolist(), strict=True):
        behind[op].append(on)
    last: dict[tuple[int, int], int] = {}
    known: dict[int, dict[int, int]] = {}
    place = {op: at for at, op in enumerate(order)}
    for op in order:
        before = [known[on] for on in behind[op]]
        mine = before[0] if before and all(one is before[0] for one in before) else _latest(before, place)
        if op in calcs:
            rank, calc = calcs[op]
            previous = last.get((rank, calc.cpu))
            if previous is not None and mine.get(calc.cpu) != previous:
                other = calcs[previous][1].line.number
                allowed = f"an order by `requires` with the computation of line {other}, on the same cpu {calc.cpu}"
                raise calc.line.error("calc", calc.line.text.strip(), allowed, "or give it another cpu")
            last[rank, calc.cpu] = op
            mine = mine | {calc.cpu: op}
        known[op] = mine


def _latest(before: list[dict[int, int]], place: dict[int, int]) -> dict[int, int]:
    """For every cpu, the latest computation that any of these ops follows."""
    merged: dict[int, int] = {}
    for one in before:
        for cpu, op in one.items():
            if cpu not in merged or place[op] > place[merged[cpu]]:
                merged[cpu] = op
    return merged
