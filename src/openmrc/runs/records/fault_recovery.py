"""Figures of a run: goodput, the longest stall, the cost of a fault and the recovery time."""

from __future__ import annotations

from dataclasses import dataclass

from openmrc.runs.records.byte_counter import (
    Series,
    goodput_gbps,
    goodput_over_gbps,
    longest_stall,
    longest_stall_ms,
    recovery_s,
)
from openmrc.runs.records.run_record import FaultSpan, Flow, Run

SETTLE_S = 1.0  # time for a repaired plane to be used again, before "after" counts
RECOVERED_SHARE = 0.97


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of one counter over one run. None if the run had no such time (no fault, or too short)."""

    goodput_gbps: float
    longest_stall_ms: float
    stalled_at_s: float
    goodput_before_fault_gbps: float | None
    goodput_during_fault_gbps: float | None
    goodput_after_fault_gbps: float | None
    recovery_s: float | None
    bytes: int


def summarize(placed: Series, faults: tuple[FaultSpan, ...], start_s: float, end_s: float) -> Summary:
    """The summary of a byte counter between two times, split by the faults that were scheduled.

    "Before" ends where the first fault starts; "after" starts SETTLE_S after the last one ends; recovery is the time
    from the end of the last fault until a window of 250 ms reaches 97 % of "before".
    """
    stall_start, stall_end = longest_stall(placed, start_s, end_s)
    seen = [fault for fault in faults if fault.start_s < end_s]
    before = during = after = recovered = None
    if seen:
        first, last = min(fault.start_s for fault in seen), max(fault.end_s for fault in seen)
        before = goodput_gbps(placed, start_s, first)
        during = goodput_over_gbps(placed, [(fault.start_s, min(fault.end_s, end_s)) for fault in seen])
        if last + SETTLE_S < end_s:
            after = goodput_gbps(placed, last + SETTLE_S, end_s)
        if before and last < end_s:
            recovered = recovery_s(placed.cut(start_s, end_s), last, RECOVERED_SHARE * before)
    return Summary(
        goodput_gbps=goodput_gbps(placed, start_s, end_s) or 0.0,
        longest_stall_ms=(stall_end - stall_start) * 1e3,
        stalled_at_s=stall_start,
        goodput_before_fault_gbps=before,
        goodput_during_fault_gbps=during,
        goodput_after_fault_gbps=after,
        recovery_s=recovered,
        bytes=int(placed.at(end_s) - placed.at(start_s)),
    )


def summarize_run(run: Run) -> Summary:
    """The summary of all flows of a run together."""
    return summarize(run.placed, run.faults, run.start_s, run.end_s)


def worst_stall_ms(run: Run) -> float:
    """The longest stall of any single flow, since a ring or a collective waits for its slowest member."""
    return max((longest_stall_ms(flow.placed, run.start_s, run.end_s) for flow in run.flows), default=0.0)


def stalls_in(run: Run, fault: FaultSpan) -> list[tuple[Flow, float]]:
    """Each flow with its longest stall (ms) during a fault and in the second after it, worst first."""
    until = min(fault.end_s + SETTLE_S, run.end_s)
    found = [(flow, longest_stall_ms(flow.placed, fault.start_s, until)) for flow in run.flows]
    return sorted(found, key=lambda pair: -pair[1])
