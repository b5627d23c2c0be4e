"""What an experiment found, beside what the paper saw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

__all__ = ["Finding", "Measure", "Verdict", "find"]

Verdict = Literal["as in the paper", "partly", "differs"]


@dataclass(frozen=True)
class Measure:
    """One number of ours, and between which bounds it would agree with the paper.

    Args:
        name: What it is.
        value: What we see; not a number when a run has no such figure, which agrees with nothing.
        unit: Of the value and its bounds.
        low, high: The bounds; None: none on that side. Without both the number is shown, not judged.
        why: Why it is outside, in words; told only when it is.
        digits: Shown after the point.
    """

    name: str
    value: float
    unit: str = ""
    low: float | None = None
    high: float | None = None
    why: str = ""
    digits: int = 0

    @property
    def judged(self) -> bool:
        """Whether the paper says what it should be."""
        return self.low is not None or self.high is not None

    @property
    def met(self) -> bool:
        """Whether it lies within the bounds; a number without bounds does."""
        if not self.judged:
            return True
        above = self.low is None or self.value >= self.low
        return above and (self.high is None or self.value <= self.high)

    def __str__(self) -> str:
        gap = "" if self.unit in ("", "%") else " "
        return f"{self.name} {self.value:.{self.digits}f}{gap}{self.unit}"


@dataclass(frozen=True)
class Finding:
    """A row of the table.

    Args:
        figure: Of the paper, such as `9a`.
        title: What is done there.
        paper_saw: What was published.
        we_see: Our numbers in words.
        verdict: How the two compare.
        why: Where they differ, why.
        setting: How our experiment differs from theirs (size, time scale), and which knobs were turned to hit a figure.
        numbers: Every number with its bounds.
    """

    figure: str
    title: str
    paper_saw: str
    we_see: str
    verdict: Verdict
    why: str
    setting: str
    numbers: tuple[Measure, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """The finding as JSON's objects; what is not a number is null."""
        numbers = []
        for each in self.numbers:
            value = None if math.isnan(each.value) else each.value
            numbers.append({**asdict(each), "value": value, "met": each.met})
        return {**asdict(self), "numbers": numbers}


def find(figure: str, title: str, paper_saw: str, measures: Sequence[Measure], setting: str) -> Finding:
    """The finding that follows from the measures: all bounds met, some of them, or none."""
    judged = [measure for measure in measures if measure.judged]
    assert judged, "a finding compares at least one number"
    unmet = [measure for measure in judged if not measure.met]
    verdict: Verdict = "as in the paper" if not unmet else "differs" if len(unmet) == len(judged) else "partly"
    why = "; ".join(dict.fromkeys(measure.why for measure in unmet if measure.why))
    we_see = ", ".join(map(str, measures))
    return Finding(figure, title, paper_saw, we_see, verdict, why, setting, tuple(measures))
