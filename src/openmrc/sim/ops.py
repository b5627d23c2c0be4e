"""The work on a simulated fabric, as arrays: sends, computations, and their dependencies.

An op is a send (host -> peer) or a computation (a host is busy for a while). It starts when all its dependencies have
happened at its own host, and not before its earliest time. Two events can be dependencies: an op of the same host
completed (a send: acknowledged), or a send to this host was received. A host can observe nothing else, so a dependency
on an event elsewhere is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from openmrc.errors import ConfigError

__all__ = ["COMPLETED", "COMPUTE", "OPS_MAX", "RECEIVED", "SEND", "Array", "OpGraph", "join_graphs"]

Array = npt.NDArray[Any]

SEND, COMPUTE = 0, 1
COMPLETED, RECEIVED = 0, 1
OPS_MAX = 2**28
JOBS_MAX = 2**16
SEND_BYTES_MAX = 2**38  # 256 WRITEs of the standard's largest size, the capacity of a send queue
TIME_PS_MAX = 2**61  # 26 days: sums of times stay within 64 bits

_TYPES = {
    "kind": np.uint8,
    "host": np.uint32,
    "peer": np.uint32,
    "bytes": np.uint64,
    "duration_ps": np.int64,
    "earliest_ps": np.int64,
    "dep_op": np.uint32,
    "dep_on": np.uint32,
    "dep_event": np.uint8,
    "job": np.uint16,
    "step": np.int32,
}
_DEPENDENCY = ("dep_op", "dep_on", "dep_event")


@dataclass(frozen=True, eq=False)
class OpGraph:
    """Ops and their dependencies. Per op: `kind` (SEND, COMPUTE), `host`, `peer` (of a computation: the host itself),
    `bytes` (0 of a computation), `duration_ps` (0 of a send), `earliest_ps`, `job` (index into `groups`) and `step` (a
    label: the round of a collective, the step of a training loop). Per dependency: `dep_op` waits until `dep_event`
    (COMPLETED, RECEIVED) of `dep_on` has happened.
    """

    kind: Array
    host: Array
    peer: Array
    bytes: Array
    duration_ps: Array
    earliest_ps: Array
    dep_op: Array
    dep_on: Array
    dep_event: Array
    job: Array
    step: Array
    groups: tuple[str, ...] = field(default=("all",))

    def __post_init__(self) -> None:
        for name, kind in _TYPES.items():
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=kind))
        per_op = {len(getattr(self, name)) for name in _TYPES if name not in _DEPENDENCY}
        per_dependency = {len(getattr(self, name)) for name in _DEPENDENCY}
        assert len(per_op) == 1, f"arrays per op differ in length: {sorted(per_op)}"
        assert len(per_dependency) == 1, f"arrays per dependency differ in length: {sorted(per_dependency)}"

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def sends(self) -> Array:
        """Indices of the sends, ascending."""
        return np.flatnonzero(self.kind == SEND)

    def native(self) -> tuple[Array, ...]:
        """The arguments of the native simulation's `add_ops`, in its order."""
        return tuple(getattr(self, name) for name in _TYPES if name not in ("job", "step"))

    def placed(self, hosts: Array | None = None, start_ps: int = 0, name: str | None = None) -> OpGraph:
        """The same graph with host i at `hosts[i]`, `start_ps` later, its groups named `name` or `name/group`."""
        groups = self.groups
        if name is not None:
            groups = (name,) if len(groups) == 1 else tuple(f"{name}/{group}" for group in groups)
        moved = {"earliest_ps": self.earliest_ps + start_ps}
        if hosts is not None:
            moved |= {"host": hosts[self.host], "peer": hosts[self.peer]}
        return replace(self, groups=groups, **moved)

    def levels(self) -> Iterator[Array]:
        """Ops in waves: each op's wave comes after the waves of all its dependencies. Ops on a cycle are in no wave."""
        waits = np.bincount(self.dep_op, minlength=len(self)).astype(np.int64)
        by_source = np.argsort(self.dep_on, kind="stable")
        followers = self.dep_op[by_source].astype(np.int64)
        ends = np.cumsum(np.bincount(self.dep_on, minlength=len(self)))
        starts = np.concatenate(([0], ends[:-1])) if len(self) else ends
        wave = np.flatnonzero(waits == 0)
        while len(wave):
            yield wave
            counts = ends[wave] - starts[wave]
            offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            reached = followers[np.repeat(starts[wave], counts) + offsets]
            np.subtract.at(waits, reached, 1)
            wave = np.unique(reached[waits[reached] == 0])

    def describe(self, op: int) -> str:
        """An op in words, for error messages: `op 12 (send 3 -> 4, 4096 B, step 2)`."""
        host, step = int(self.host[op]), int(self.step[op])
        if self.kind[op] == COMPUTE:
            return f"op {op} (computation at host {host}, step {step})"
        return f"op {op} (send {host} -> {int(self.peer[op])}, {int(self.bytes[op])} B, step {step})"

    def validate(self, hosts: int, where: str = "workload") -> None:
        """Checks that a fabric of `hosts` hosts can run this graph.

        Raises:
            ConfigError: naming the first impossible op, as field `where`, and the reason.
        """
        self._check_ops(hosts, where)
        self._check_dependencies(where)
        if np.any(self.dep_on >= self.dep_op):  # otherwise the order of the ops is itself a proof
            self._check_cycles(where)

    def _check_ops(self, hosts: int, where: str) -> None:
        sends = self.kind == SEND
        rules = (
            (self.kind <= COMPUTE, f"a send ({SEND}) or a computation ({COMPUTE})"),
            ((self.host < hosts) & (self.peer < hosts), f"hosts 0 to {hosts - 1}"),
            (~sends | (self.host != self.peer), "a send to another host, not to itself"),
            (~sends | (self.bytes > 0), "a send of at least 1 byte"),
            (~sends | (self.bytes <= SEND_BYTES_MAX), "a send of at most 256 GiB"),
            (self.duration_ps >= 0, "a computation of 0 ps or more"),
            (self.earliest_ps >= 0, "a start at 0 ps or later"),
            ((self.duration_ps <= TIME_PS_MAX) & (self.earliest_ps <= TIME_PS_MAX), "times up to 26 days"),
            (self.job < len(self.groups), f"one of {len(self.groups)} jobs"),
        )
        for holds, allowed in rules:
            if not np.all(holds):
                raise ConfigError(where, self.describe(int(np.argmin(holds))), allowed)

    def _check_dependencies(self, where: str) -> None:
        in_range = (self.dep_op < len(self)) & (self.dep_on < len(self)) & (self.dep_event <= RECEIVED)
        if not np.all(in_range):
            at = int(np.argmin(in_range))
            words = f"op {self.dep_op[at]} waits for event {self.dep_event[at]} of op {self.dep_on[at]}"
            raise ConfigError(where, words, f"ops 0 to {len(self) - 1}, events {COMPLETED} and {RECEIVED}")
        received = self.dep_event == RECEIVED
        if np.any(received & (self.kind[self.dep_on] != SEND)):
            at = int(np.argmax(received & (self.kind[self.dep_on] != SEND)))
            raise ConfigError(where, self._waits(at), "only a send can be received")
        at_host = np.where(received, self.peer[self.dep_on], self.host[self.dep_on])
        local = at_host == self.host[self.dep_op]
        if not np.all(local):
            at = int(np.argmin(local))
            allowed = f"events at host {int(self.host[self.dep_op[at]])}; this one happens at host {int(at_host[at])}"
            raise ConfigError(where, self._waits(at), allowed, hint="send a message to notify the other host")

    def _waits(self, at: int) -> str:
        event = "receipt" if self.dep_event[at] == RECEIVED else "completion"
        return f"{self.describe(int(self.dep_op[at]))} waits for the {event} of {self.describe(int(self.dep_on[at]))}"

    def _check_cycles(self, where: str) -> None:
        free = np.zeros(len(self), dtype=bool)
        for wave in self.levels():
            free[wave] = True
        if not np.all(free):
            cycle = " <- ".join(self.describe(op) for op in self._cycle(free))
            raise ConfigError(where, cycle, "dependencies without a cycle; none of these ops could ever start")

    def _cycle(self, free: Array, shown: int = 6) -> list[int]:
        """Ops of one cycle, each waiting for the one after it; `free` are the ops neither on cycles nor behind them."""
        stuck = ~free[self.dep_on] & ~free[self.dep_op]
        waits_for = dict(zip(self.dep_op[stuck].tolist(), self.dep_on[stuck].tolist(), strict=True))
        path: dict[int, int] = {}
        op = next(iter(waits_for))
        while op not in path:
            path[op] = len(path)
            op = waits_for[op]
        cycle = list(path)[path[op] :]
        return [*cycle[:shown], op] if len(cycle) <= shown else cycle[:shown]


def join_graphs(graphs: Sequence[OpGraph]) -> OpGraph:
    """One graph in which all of these run side by side, with consecutive numbers of ops, jobs and groups.

    Raises:
        ConfigError: if there are more ops or jobs than a simulation can number.
    """
    ops, jobs = sum(map(len, graphs)), sum(len(graph.groups) for graph in graphs)
    if ops > OPS_MAX or jobs > JOBS_MAX:
        raise ConfigError("workload", f"{ops} ops in {jobs} groups", f"at most {OPS_MAX} ops in {JOBS_MAX} groups")
    arrays: dict[str, list[Array]] = {name: [np.empty(0, kind)] for name, kind in _TYPES.items()}
    first_op = first_job = 0
    for graph in graphs:
        shifts = {"dep_op": first_op, "dep_on": first_op, "job": first_job}
        for name, kind in _TYPES.items():
            arrays[name].append((getattr(graph, name) + shifts.get(name, 0)).astype(kind, copy=False))
        first_op += len(graph)
        first_job += len(graph.groups)
    merged = {name: np.concatenate(parts) for name, parts in arrays.items()}
    return OpGraph(**merged, groups=tuple(group for graph in graphs for group in graph.groups))
