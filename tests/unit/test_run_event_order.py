"""A run's events are shown in the order of time, for any order of reports."""

from __future__ import annotations

import math
from typing import Any

from openmrc.runs.run_plan import RunPlan
from openmrc.runs.run_view import Snapshot
from openmrc.runs.session import Session


class Shown:
    """A view that records its input."""

    def __init__(self) -> None:
        self.times_s: list[float] = []

    def event(self, time_s: float, text: str) -> None:
        assert text
        self.times_s.append(time_s)

    def show(self, snapshot: Snapshot) -> None:
        self.times_s.append(snapshot.time_s)


def test_a_cause_that_is_reported_late_is_shown_before_its_effects():
    view: Any = Shown()
    nothing: Any = None
    session = Session(RunPlan(rate_bps=0), nothing, nothing, view, {})
    session._note(1.03, "host0: 2 paths of plane 1 assumed bad")
    session._untold.append(Snapshot("mrc", 1.2, 10.0, 0.1, 0.1, (0.05,), ()))
    session._note(1.0, "A link flaps: begins")
    session._note(1.9, "A link flaps: is over")
    session._tell(1.5)
    assert view.times_s == [1.0, 1.03, 1.2]
    session._tell(math.inf)
    assert view.times_s == [1.0, 1.03, 1.2, 1.9]
