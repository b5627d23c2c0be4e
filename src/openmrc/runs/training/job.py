"""Ranks with one backend in an environment: connected once, then trained several times, with and without faults."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from openmrc.fabric import parse_fault
from openmrc.runs.environment import FabricEnvironment
from openmrc.runs.fault_spans import fault_spans
from openmrc.runs.processes.supervisor import Child, ChildError, Family
from openmrc.runs.records.byte_counter import Series
from openmrc.runs.records.run_record import FaultSpan
from openmrc.runs.training.environments import rank_variables, store_address
from openmrc.runs.training.model_size import ModelSize
from openmrc.runs.training.progress_view import TrainView
from openmrc.runs.training.training_record import Step, TrainRun, Tried

__all__ = ["Job", "Strike"]

_READY_S = 90.0  # four processes import torch at once
_JOIN_S = 60.0
_TRY_S = 120.0
_LEAVE_S = 5.0
_SAMPLE_S = 0.1
_FOREVER_S = 1e6


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault: the number of steps of all ranks before it, its text in the fault language, and its name for people."""

    after: int
    text: str
    words: str


@dataclass(frozen=True, slots=True)
class _Told:
    """A rank's report of a step; times of the machine's common clock."""

    loss: float
    begin_ns: int
    own_ns: int
    complete_ns: int
    end_ns: int


@dataclass(slots=True)
class _Heard:
    """Reports of the ranks so far in one run."""

    start_ns: int
    steps: list[dict[str, _Told]] = field(default_factory=list)
    trained: dict[str, dict[str, str]] = field(default_factory=dict)
    error: str | None = None
    last_ns: int = 0
    planes: list[tuple[float, list[int]]] = field(default_factory=list)
    spans: list[FaultSpan] = field(default_factory=list)

    def seconds(self, time_ns: int) -> float:
        """Of the run."""
        return (time_ns - self.start_ns) / 1e9


class Job:
    """The ranks' processes.

    Args:
        family: Owns them.
        environment: Network between their hosts; it is up.
        backend: "mrc" or "gloo".
        size: Of the model.
        seed: Of weights and batches.
        patience_s: A run without a step for this long is given up.
        view: Where to show it.
        gloo_interfaces: Number of interfaces that Gloo uses.
    """

    def __init__(
        self,
        family: Family,
        environment: FabricEnvironment,
        backend: str,
        size: ModelSize,
        seed: int,
        patience_s: float,
        view: TrainView,
        gloo_interfaces: int = 1,
    ) -> None:
        self._family, self._environment, self._backend = family, environment, backend
        self._gloo_interfaces = gloo_interfaces
        self._size, self._seed, self._patience_s, self._view = size, seed, patience_s, view
        self._ranks: list[Child] = []

    def join(self) -> Tried:
        """Starts the ranks and connects them; returns the times of the parts of a step.

        Raises:
            ChildError: a rank failed.
        """
        environment, ranks = self._environment, self._environment.fabric.hosts
        module = "openmrc.runs.training.rank_process"
        self._ranks = [
            self._family.spawn(f"rank {rank}", module, prefix=environment.prefix(rank)) for rank in range(ranks)
        ]
        for child in self._ranks:
            self._family.expect(child, "ready", _READY_S)
        store = store_address(environment)
        common = {"ranks": ranks, "backend": self._backend, "store": store, "size": asdict(self._size)}
        with tempfile.TemporaryDirectory(prefix="openmrc-train-") as folder:
            for rank, child in enumerate(self._ranks):
                variables = rank_variables(
                    environment, rank, self._backend, Path(folder), gloo_interfaces=self._gloo_interfaces
                )
                child.send({"do": "join", "rank": rank, "environment": variables, "seed": self._seed, **common})
            self._all("joined", _JOIN_S)
        for child in self._ranks:
            child.send({"do": "try"})
        tried = self._all("tried", _TRY_S)
        return Tried(**{key: max(one["tried"][key] for one in tried) for key in tried[0]["tried"]})

    def _all(self, key: str, timeout_s: float) -> list[dict[str, Any]]:
        return [self._family.expect(child, key, timeout_s) for child in self._ranks]

    def train(
        self,
        name: str,
        title: str,
        tried: Tried,
        steps: int,
        faults: Sequence[Strike],
        limit_s: float = _FOREVER_S,
    ) -> TrainRun:
        """One run from the initial weights on, with these faults."""
        heard = _Heard(time.monotonic_ns())
        heard.last_ns = heard.start_ns
        try:
            for child in self._ranks:
                child.send({"do": "train", "steps": steps})
            self._watch(heard, title, steps, faults, limit_s)
        except ChildError as failure:
            heard.error = str(failure)
        finally:
            self._environment.repair()
        return self._record(heard, name, title, tried, steps)

    def leave(self) -> None:
        """Ends the process group in order, as far as the ranks still can.

        Raises:
            ChildError: a rank could not.
        """
        for child in self._ranks:
            child.send({"do": "leave"})
        self._all("left", _LEAVE_S)

    # --- while it runs

    def _watch(self, heard: _Heard, title: str, steps: int, faults: Sequence[Strike], limit_s: float) -> None:
        announced: set[tuple[str, float]] = set()
        coming = list(faults)
        pids = [child.pid for child in self._ranks]
        while len(heard.trained) < len(self._ranks) and heard.error is None:
            for child, message in self._family.messages(_SAMPLE_S):
                self._hear(heard, child, message)
            now = time.monotonic_ns()
            for notice in self._environment.carriers():
                self._ranks[notice.host].send({"do": "carrier", "port": notice.port, "up": notice.up})
            if not heard.planes or heard.seconds(now) - heard.planes[-1][0] >= _SAMPLE_S:
                heard.planes.append((heard.seconds(now), self._environment.plane_bytes(pids)))
            done = self._complete(heard)
            if coming and len(done) >= coming[0].after:
                heard.spans += self._strike(coming.pop(0), heard.seconds(now))
            self._announce(heard.seconds(now), heard.spans, announced)
            if done:
                self._view.show(title, len(done), steps, done[-1].loss, done[-1].step_s)
            if now - heard.last_ns > self._patience_s * 1e9:
                heard.error = f"no step for {self._patience_s:g} s, given up"
            elif heard.seconds(now) > limit_s:
                heard.error = f"not done after {limit_s:.0f} s, given up"
        heard.planes.append((heard.seconds(time.monotonic_ns()), self._environment.plane_bytes(pids)))

    def _hear(self, heard: _Heard, child: Child, message: dict[str, Any]) -> None:
        if "step" in message:
            number, *told = message["step"]
            while len(heard.steps) <= number:
                heard.steps.append({})
            heard.steps[number][child.name] = step = _Told(*told)
            heard.last_ns = max(heard.last_ns, step.end_ns)
        elif "trained" in message:
            heard.trained[child.name] = message["trained"]
        elif "failed" in message:
            heard.error = heard.error or f"{child.name}: {message['failed']}"

    def _announce(self, now_s: float, spans: Sequence[FaultSpan], announced: set[tuple[str, float]]) -> None:
        for span in spans:
            for at, words in ((span.start_s, "begins"), (span.end_s, "is over")):
                if at <= now_s and (span.text, at) not in announced:
                    announced.add((span.text, at))
                    self._view.event(at, f"{span.text}: {words}")

    def _strike(self, fault: Strike, now_s: float) -> list[FaultSpan]:
        """Injects a fault; returns its spans, in seconds of the run."""
        self._environment.strike((fault.text,))
        spans = fault_spans([fault.text], [parse_fault(fault.text)], _FOREVER_S, {fault.text: fault.words})
        return [replace(span, start_s=now_s + span.start_s, end_s=now_s + span.end_s) for span in spans]

    # --- afterwards

    def _complete(self, heard: _Heard) -> list[Step]:
        """The steps completed by all ranks."""
        ranks = len(self._ranks)
        return [_step(heard, list(told.values())) for told in heard.steps if len(told) == ranks]

    def _record(self, heard: _Heard, name: str, title: str, tried: Tried, steps: int) -> TrainRun:
        done = self._complete(heard)
        digests = {told["digest"] for told in heard.trained.values()}
        error = heard.error
        if error is None and len(digests) > 1:
            error = "the ranks hold different weights"
        length_s = done[-1].end_s if error is None and done else heard.seconds(time.monotonic_ns())
        return TrainRun(
            name=name,
            title=title,
            backend=self._backend,
            wanted=steps,
            tried=tried,
            steps=tuple(done),
            length_s=length_s,
            faults=tuple(
                replace(span, end_s=min(span.end_s, length_s)) for span in heard.spans if span.start_s < length_s
            ),
            planes_rx=_planes(heard.planes, self._environment.fabric.planes),
            digest=digests.pop() if error is None and len(digests) == 1 else None,
            error=error,
            sample=next((told["sample"] for told in heard.trained.values() if told["sample"]), ""),
        )


def _step(heard: _Heard, told: Sequence[_Told]) -> Step:
    ranks = len(told)
    return Step(
        end_s=heard.seconds(max(one.end_ns for one in told)),
        step_s=sum(one.end_ns - one.begin_ns for one in told) / ranks / 1e9,
        exposed_s=(max(one.complete_ns for one in told) - max(one.own_ns for one in told)) / 1e9,
        loss=sum(one.loss for one in told) / ranks,
    )


def _planes(samples: Sequence[tuple[float, list[int]]], planes: int) -> tuple[Series, ...]:
    """A counter from 0 for each plane. Interfaces of an ended rank no longer count, so the counter stays."""
    series = []
    for plane in range(planes):
        times: list[float] = []
        totals: list[float] = []
        for at, counted in samples:
            times.append(at)
            totals.append(max(counted[plane] - samples[0][1][plane], totals[-1] if totals else 0))
        series.append(Series.of(times, totals))
    return tuple(series)
