"""Four ranks and one backend, in a place: joined once, then trained as often as wanted, with and without faults."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from openmrc.analysis.record import FaultSpan
from openmrc.analysis.series import Series
from openmrc.fabric import parse_fault
from openmrc.live.spans import fault_spans
from openmrc.live.supervise import Child, ChildError, Family
from openmrc.training.places import Place
from openmrc.training.record import Step, TrainRun, Tried
from openmrc.training.size import ModelSize
from openmrc.training.view import TrainView

__all__ = ["Job", "Strike"]

_READY_S = 90.0  # four processes import torch at once
_JOIN_S = 60.0
_TRY_S = 120.0
_LEAVE_S = 5.0
_SAMPLE_S = 0.1
_FOREVER_S = 1e6


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault: after how many steps of all ranks, in the fault language, and what a person calls it."""

    after: int
    text: str
    words: str


@dataclass(frozen=True, slots=True)
class _Told:
    """What a rank says of a step; times of the clock that all processes of a machine share."""

    loss: float
    begin_ns: int
    own_ns: int
    complete_ns: int
    end_ns: int


@dataclass(slots=True)
class _Heard:
    """What the ranks have said so far in one run."""

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
        place: Where they live; it is up.
        backend: "mrc" or "gloo".
        size: Of the model.
        seed: Of weights and batches.
        patience_s: A run without a step for so long is given up.
        view: Where to show it.
    """

    def __init__(
        self,
        family: Family,
        place: Place,
        backend: str,
        size: ModelSize,
        seed: int,
        patience_s: float,
        view: TrainView,
    ) -> None:
        self._family, self._place, self._backend = family, place, backend
        self._size, self._seed, self._patience_s, self._view = size, seed, patience_s, view
        self._ranks: list[Child] = []

    def join(self) -> Tried:
        """Starts the ranks and connects them; what the parts of a step take.

        Raises:
            ChildError: a rank failed.
        """
        place = self._place
        self._ranks = [
            self._family.spawn(f"rank {rank}", "openmrc.training.rank", prefix=place.prefix(rank))
            for rank in range(place.ranks)
        ]
        for child in self._ranks:
            self._family.expect(child, "ready", _READY_S)
        common = {"ranks": place.ranks, "backend": self._backend, "store": place.store(), "size": asdict(self._size)}
        for rank, child in enumerate(self._ranks):
            environment = place.environment(rank, self._backend)
            child.send({"do": "join", "rank": rank, "environment": environment, "seed": self._seed, **common})
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
        """One run from the first weights on, with these faults."""
        heard = _Heard(time.monotonic_ns())
        heard.last_ns = heard.start_ns
        try:
            for child in self._ranks:
                child.send({"do": "train", "steps": steps})
            self._watch(heard, title, steps, faults, limit_s)
        except ChildError as failure:
            heard.error = str(failure)
        finally:
            self._place.end()
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
            for notice in self._place.carriers():
                self._ranks[notice.host].send({"do": "carrier", "port": notice.port, "up": notice.up})
            if not heard.planes or heard.seconds(now) - heard.planes[-1][0] >= _SAMPLE_S:
                heard.planes.append((heard.seconds(now), self._place.plane_bytes(pids)))
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
        heard.planes.append((heard.seconds(time.monotonic_ns()), self._place.plane_bytes(pids)))

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
        """Breaks something; when it will be broken, in seconds of the run."""
        self._place.strike(fault.text)
        spans = fault_spans([fault.text], [parse_fault(fault.text)], _FOREVER_S, {fault.text: fault.words})
        return [replace(span, start_s=now_s + span.start_s, end_s=now_s + span.end_s) for span in spans]

    # --- afterwards

    def _complete(self, heard: _Heard) -> list[Step]:
        """The steps that all ranks did."""
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
            planes_rx=_planes(heard.planes, self._place.planes),
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
    """A counter from 0 for each plane. Interfaces of a rank that has ended count no more: the counter then stays."""
    series = []
    for plane in range(planes):
        times: list[float] = []
        totals: list[float] = []
        for at, counted in samples:
            times.append(at)
            totals.append(max(counted[plane] - samples[0][1][plane], totals[-1] if totals else 0))
        series.append(Series.of(times, totals))
    return tuple(series)
