"""A campaign on a placement, request by request, with processor sharing at every replica: a check of the planner.

The planner predicts a campaign from means. Here every call of every trial is served: a replica divides its measured
rates equally among its current requests, up to its capacity; further ones wait in line. A trial goes to the replica
with the fewest requests at each call, spends the time of its tools between calls, and ends with the judge.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from openmrc.evals.campaign_plan import Outcome, stages_of
from openmrc.evals.cluster import Cluster
from openmrc.evals.work import Stage, Work

CALLS_MAX = 6  # limit: more calls of a trial are merged into this many

Numbers = npt.NDArray[np.float64] | npt.NDArray[np.int64]


@dataclass
class Server:
    """A replica: remaining work of its current requests, in seconds of an otherwise idle replica."""

    capacity: int
    stage: Stage
    serving: dict[int, float] = field(default_factory=dict)
    waiting: deque[tuple[int, float, float]] = field(default_factory=deque)
    updated_s: float = 0.0
    version: int = 0
    shapes: dict[int, tuple[float, float]] = field(default_factory=dict)

    def seconds(self, trial: int) -> float:
        """Remaining time of the trial's request at the current load."""
        prefill, decode = self.shapes[trial]
        rates = self.stage.model.curve.rates(self.stage.gpus, float(len(self.serving)))
        return self.stage.slowdown * (prefill / rates[0] + decode / rates[1]) * len(self.serving)

    def advance(self, now_s: float) -> None:
        """Serves until now: `serving` holds the remaining share of each request."""
        elapsed_s = now_s - self.updated_s
        for trial in self.serving:
            self.serving[trial] -= elapsed_s / max(self.seconds(trial), 1e-12)
        self.updated_s = now_s

    def start(self, now_s: float, trial: int, prefill: float, decode: float) -> None:
        self.advance(now_s)
        if len(self.serving) < self.capacity:
            self.shapes[trial] = (prefill, decode)
            self.serving[trial] = 1.0
        else:
            self.waiting.append((trial, prefill, decode))
        self.version += 1

    def end(self, now_s: float, trial: int) -> None:
        self.advance(now_s)
        del self.serving[trial], self.shapes[trial]
        self.version += 1
        if self.waiting:
            self.start(now_s, *self.waiting.popleft())

    def next_end(self) -> tuple[float, int] | None:
        """Time and trial of the request that ends first."""
        ends = [(self.updated_s + max(left, 0.0) * self.seconds(trial), trial) for trial, left in self.serving.items()]
        return min(ends, default=None)


def campaign_s(cluster: Cluster, work: Work, outcome: Outcome) -> float:
    """Time of a campaign, loading and swapping included."""
    placement = outcome.placement
    stages = stages_of(cluster, work, placement, np.zeros(len(work.calls)))
    apart = placement.kind == "alternating"
    first = [stage for stage in stages if not (apart and stage.name == "judge")]
    seconds = _run(first, work.tools_s, work.calls, outcome.order, placement.slots)
    if apart:
        seconds += _run(
            stages[-1:], np.zeros(len(work.calls)), np.ones(len(work.calls)), outcome.order, placement.slots
        )
    return outcome.load_s + outcome.swap_s + seconds


def _steps(stages: Sequence[Stage], trial: int, tools_s: float, calls: float) -> list[tuple[int, float, float]]:
    """Stage (-1: tools), and tokens or seconds, one after another."""
    pieces = int(min(max(calls, 1), CALLS_MAX))
    steps: list[tuple[int, float, float]] = []
    agents = [at for at, stage in enumerate(stages) if stage.name != "judge"]
    for _ in range(pieces if agents else 0):
        steps += [
            (at, float(stages[at].prefill[trial]) / pieces, float(stages[at].decode[trial]) / pieces) for at in agents
        ]
        steps.append((-1, tools_s / pieces, 0.0))
    for at, stage in enumerate(stages):
        if stage.name == "judge":
            steps.append((at, float(stage.prefill[trial]), float(stage.decode[trial])))
    return [step for step in steps if step[1] + step[2] > 0]


def _run(stages: Sequence[Stage], tools_s: Numbers, calls: Numbers, order: Sequence[int], slots: int) -> float:
    servers = [[Server(stage.capacity, stage) for _ in range(stage.replicas)] for stage in stages]
    queue = deque(order)
    left = {trial: deque(_steps(stages, trial, float(tools_s[trial]), float(calls[trial]))) for trial in order}
    events: list[tuple[float, int, int, int, int]] = []  # time, stage or -1, server, version, trial
    now_s = 0.0

    def watch(at: int, number: int) -> None:
        server = servers[at][number]
        soonest = server.next_end()
        if soonest is not None:
            heapq.heappush(events, (soonest[0], at, number, server.version, soonest[1]))

    def go_on(trial: int) -> None:
        while not left[trial]:
            if not queue:
                return
            trial = queue.popleft()
        at, amount, more = left[trial].popleft()
        if at < 0:
            heapq.heappush(events, (now_s + amount, -1, 0, 0, trial))
            return
        number = min(
            range(len(servers[at])), key=lambda one: len(servers[at][one].serving) + len(servers[at][one].waiting)
        )
        servers[at][number].start(now_s, trial, amount, more)
        watch(at, number)

    for _ in range(min(slots, len(queue))):
        go_on(queue.popleft())
    while events:
        at_s, at, number, version, trial = heapq.heappop(events)
        if at >= 0:
            server = servers[at][number]
            if version != server.version:
                continue
            now_s = at_s
            server.end(now_s, trial)
            watch(at, number)
        now_s = at_s
        go_on(trial)
    return now_s
