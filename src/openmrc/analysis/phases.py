"""What each fault of a run cost: goodput before it, while it lasted, and after it, flow by flow or of all together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from openmrc.analysis.metrics import SETTLE_S
from openmrc.analysis.record import Run
from openmrc.analysis.series import Series, goodput_gbps

__all__ = ["Phase", "phases"]


@dataclass(frozen=True, slots=True)
class Phase:
    """One fault and the goodput around it in Gb/s; None where the run had no such time.

    "Before" begins SETTLE_S after the fault before it ended, "after" begins SETTLE_S after this one ends and lasts
    until the next one begins.
    """

    fault: str
    start_s: float
    end_s: float
    before_gbps: float | None
    during_gbps: float | None
    after_gbps: float | None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)


def phases(run: Run, placed: Series | None = None) -> tuple[Phase, ...]:
    """The faults of a run in order, with the goodput of `placed`, by default of all flows together."""
    series = run.placed if placed is None else placed
    found: list[Phase] = []
    for index, fault in enumerate(run.faults):
        settled = run.faults[index - 1].end_s + SETTLE_S if index else run.start_s
        until = run.faults[index + 1].start_s if index + 1 < len(run.faults) else run.end_s
        found.append(
            Phase(
                fault.text,
                fault.start_s,
                fault.end_s,
                goodput_gbps(series, settled, fault.start_s),
                goodput_gbps(series, fault.start_s, min(fault.end_s, run.end_s)),
                goodput_gbps(series, fault.end_s + SETTLE_S, until),
            )
        )
    return tuple(found)
