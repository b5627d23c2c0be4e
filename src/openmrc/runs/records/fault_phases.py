"""Cost of each fault of a run: goodput before, during and after it, per flow or of all together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from openmrc.runs.records.byte_counter import Series, goodput_gbps
from openmrc.runs.records.fault_recovery import SETTLE_S
from openmrc.runs.records.run_record import FaultSpan, Run

__all__ = ["Phase", "goodput_phases", "phases"]


@dataclass(frozen=True, slots=True)
class Phase:
    """One fault and the goodput around it in Gb/s; None if the run had no such time.

    "Before" begins SETTLE_S after the end of the previous fault, "after" begins SETTLE_S after the end of this one and
    lasts until the next one begins.
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
    return goodput_phases(run.placed if placed is None else placed, run.faults, run.start_s, run.end_s)


def goodput_phases(placed: Series, faults: Sequence[FaultSpan], start_s: float, end_s: float) -> tuple[Phase, ...]:
    """The faults in order, with the goodput of a counter around each."""
    found: list[Phase] = []
    for index, fault in enumerate(faults):
        settled = faults[index - 1].end_s + SETTLE_S if index else start_s
        until = faults[index + 1].start_s if index + 1 < len(faults) else end_s
        found.append(
            Phase(
                fault.text,
                fault.start_s,
                fault.end_s,
                goodput_gbps(placed, settled, fault.start_s),
                goodput_gbps(placed, fault.start_s, min(fault.end_s, end_s)),
                goodput_gbps(placed, fault.end_s + SETTLE_S, until),
            )
        )
    return tuple(found)
