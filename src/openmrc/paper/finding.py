"""Result of an experiment, beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

__all__ = ["Finding", "Measure", "Verdict", "find"]

Verdict = Literal["as in the paper", "partly", "differs"]


@dataclass(frozen=True)
class Measure:
    """One number of ours, with the bounds for agreement with the paper.

    Args:
        name: Name of the quantity.
        value: Our result; NaN if a run has no such figure, which never agrees.
        unit: Of the value and its bounds.
        low, high: The bounds; None: unbounded on that side. Without both the number is shown, not judged.
        why: Explanation for a value outside, shown only in that case.
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
        """True if the paper gives a value for it."""
        return self.low is not None or self.high is not None

    @property
    def met(self) -> bool:
        """True if the value is within the bounds, or has none."""
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
        title: Its experiment.
        paper_saw: The published result.
        we_see: Our numbers in words.
        verdict: Result of the comparison.
        why: Explanation of differences.
        setting: Differences between our experiment and theirs (size, time scale), and settings tuned to match a figure.
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
        """The finding as JSON objects; NaN becomes null."""
        numbers = []
        for each in self.numbers:
            value = None if math.isnan(each.value) else each.value
            numbers.append({**asdict(each), "value": value, "met": each.met})
        return {**asdict(self), "numbers": numbers}


def find(figure: str, title: str, paper_saw: str, measures: Sequence[Measure], setting: str) -> Finding:
    """The finding for the measures: all bounds met, some of them, or none."""
    judged = [measure for measure in measures if measure.judged]
    assert judged, "a finding compares at least one number"
    unmet = [measure for measure in judged if not measure.met]
    verdict: Verdict = "as in the paper" if not unmet else "differs" if len(unmet) == len(judged) else "partly"
    why = "; ".join(dict.fromkeys(measure.why for measure in unmet if measure.why))
    we_see = ", ".join(map(str, measures))
    return Finding(figure, title, paper_saw, we_see, verdict, why, setting, tuple(measures))
