"""What one training run leaves behind, as plain values."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import asdict, dataclass
from typing import Any

from openmrc.analysis.record import FaultSpan
from openmrc.analysis.series import Series

__all__ = ["Step", "TrainRun", "Tried"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the job.

    Args:
        end_s: When the last rank was done with it, since the run began.
        step_s: How long it took a rank; the mean.
        exposed_s: From the last own gradient of the last rank until all ranks had the gradients of all.
        loss: Cross entropy in nats per character; the mean over ranks.
    """

    end_s: float
    step_s: float
    exposed_s: float
    loss: float


@dataclass(frozen=True, slots=True)
class Tried:
    """Medians of a few trials before the run, in seconds: a step, computing alone, adding up the gradients alone."""

    step_s: float
    compute_s: float
    communicate_s: float
    gradient_bytes: int


@dataclass(frozen=True, slots=True)
class TrainRun:
    """One run.

    Args:
        name: "mrc-whole" (without faults), "mrc", "gloo-whole" (without faults) or "gloo".
        title: For people.
        backend: Of the process group.
        wanted: Steps that it was to do.
        tried: What its parts take when nothing is broken.
        steps: Those that all ranks did.
        length_s: From the first step to the last, or to the end of patience.
        faults: When what was broken, in seconds of the run.
        planes_rx: Bytes that arrived at all ranks, by plane.
        digest: Of the final weights, the same at all ranks; None: there are none, or ranks disagree.
        error: Why it did not get to the end; None: it did.
        sample: What the model writes at the end.
    """

    name: str
    title: str
    backend: str
    wanted: int
    tried: Tried
    steps: tuple[Step, ...]
    length_s: float
    faults: tuple[FaultSpan, ...]
    planes_rx: tuple[Series, ...]
    digest: str | None
    error: str | None = None
    sample: str = ""

    @property
    def finished(self) -> bool:
        """Whether all steps were done and all ranks hold the same weights."""
        return self.error is None and len(self.steps) == self.wanted and self.digest is not None

    @property
    def step_ms(self) -> float | None:
        """Median time of a step; None: there were none."""
        return 1e3 * statistics.median(step.step_s for step in self.steps) if self.steps else None

    @property
    def exposed_ms(self) -> float | None:
        """Median exposed communication of a step; None: there were no steps."""
        return 1e3 * statistics.median(step.exposed_s for step in self.steps) if self.steps else None

    @property
    def longest_gap_s(self) -> float:
        """The longest time without a finished step, until the end of the run."""
        ends = [0.0, *(step.end_s for step in self.steps), *([] if self.finished else [self.length_s])]
        return max((after - before for before, after in itertools.pairwise(ends)), default=0.0)

    @property
    def overlap(self) -> float | None:
        """Share of the communication that is hidden behind computing when nothing is broken; None: not known."""
        quiet = [step.exposed_s for step in self.steps if not self.faults or step.end_s < self.faults[0].start_s]
        if not quiet or self.tried.communicate_s <= 0:
            return None
        return max(0.0, 1.0 - statistics.median(quiet) / self.tried.communicate_s)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        plain = {name: getattr(self, name) for name in ("name", "title", "backend", "wanted", "length_s", "digest")}
        found = ("error", "sample", "finished", "step_ms", "exposed_ms", "longest_gap_s", "overlap")
        return {
            **plain,
            **{name: getattr(self, name) for name in found},
            "tried": asdict(self.tried),
            "steps": [[step.end_s, step.step_s, step.exposed_s, step.loss] for step in self.steps],
            "faults": [asdict(fault) for fault in self.faults],
            "planes_rx": [
                {"times_s": series.times_s.tolist(), "bytes": series.bytes_total.tolist()} for series in self.planes_rx
            ],
        }
