"""Result of a transport on the test bed under the faults of the schedule, and the figures derived from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from openmrc.runs.processes.processor_time import seconds_per_gb
from openmrc.runs.records.byte_counter import RECOVERY_WINDOW_S, Series
from openmrc.runs.records.fault_phases import Phase, goodput_phases
from openmrc.runs.records.fault_recovery import Summary, summarize
from openmrc.runs.records.run_record import FaultSpan

__all__ = ["Ending", "Outcome", "series_of", "steps_of"]

Ending = Literal["survived", "failed", "hung", "did not start", "not installed"]
_STEP_S = 1e-6
_ALIVE_S = 1.0  # with bytes this shortly before the end, the transfer counts as running


@dataclass(frozen=True, slots=True)
class Outcome:
    """One transport's run.

    Args:
        name: In `--only`.
        title: For people.
        placed: Bytes that arrived at the receiver, in samples of 10 ms, or one per all-reduce.
        faults: Active time of each fault.
        start_s: Earliest time of the first byte; figures cover the time from here
        end_s: until here.
        error: First line of an error.
        missing: Reason for the lack of a run.
        cpu_s: Processor time of the transport's processes; None: unknown.
        machine_cpu_s: Of the whole machine, the switches' forwarding and other programs included.
    """

    name: str
    title: str
    placed: Series
    faults: tuple[FaultSpan, ...]
    start_s: float = 0.0
    end_s: float = 0.0
    error: str | None = None
    missing: str | None = None
    cpu_s: float | None = None
    machine_cpu_s: float | None = None

    @property
    def cpu_seconds_per_gb(self) -> float | None:
        """Processor time of the transport's processes for each GB that arrived."""
        return seconds_per_gb(self.cpu_s, self.placed.total)

    @property
    def machine_cpu_seconds_per_gb(self) -> float | None:
        """The same of the whole machine."""
        return seconds_per_gb(self.machine_cpu_s, self.placed.total)

    @property
    def ending(self) -> Ending:
        """Kind of its end. Hung: no error, but no more arrivals."""
        if self.missing is not None:
            return "not installed"
        if self.placed.total <= 0:
            return "did not start"
        if self.error is not None:
            return "failed"
        alive = self.placed.at(self.end_s) > self.placed.at(self.end_s - _ALIVE_S)
        return "survived" if alive else "hung"

    @property
    def summary(self) -> Summary | None:
        """Goodput, longest stall and recovery over the whole run; None if nothing ran."""
        return None if self.placed.empty else summarize(self.placed, self.faults, self.start_s, self.end_s)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Goodput around each fault that began in the run; a periodic fault counts as one."""
        whole: dict[str, FaultSpan] = {}
        for span in self.faults:
            begun = whole.get(span.text, span)
            whole[span.text] = replace(begun, end_s=max(begun.end_s, span.end_s))
        return goodput_phases(self.placed, tuple(whole.values()), self.start_s, self.end_s)

    @property
    def recovery(self) -> str:
        """Time from the end of the last fault until the recovery of goodput; without a recovery, the reason."""
        summary, begun = self.summary, [fault for fault in self.faults if fault.start_s < self.end_s]
        if summary is None:
            return ""
        if not begun:
            return "no fault began"
        first, last = min(fault.start_s for fault in begun), max(fault.end_s for fault in begun)
        if not summary.goodput_before_fault_gbps or self.placed.at(self.end_s) <= self.placed.at(first - _ALIVE_S):
            return "stopped before"
        if summary.recovery_s is not None:
            return f"{summary.recovery_s:.1f} s"
        if last + RECOVERY_WINDOW_S > self.end_s:
            return "fault lasts"
        return f"not in {self.end_s - last:.1f} s"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: the numbers, and the series as times in seconds and bytes."""
        summary = self.summary
        return {
            "name": self.name,
            "title": self.title,
            "ending": self.ending,
            "error": self.error or self.missing,
            "summary": None if summary is None else asdict(summary),
            "recovery": self.recovery,
            "phases": [phase.to_dict() for phase in self.phases],
            "faults": [asdict(fault) for fault in self.faults],
            "cpu_seconds_per_gb": self.cpu_seconds_per_gb,
            "machine_cpu_seconds_per_gb": self.machine_cpu_seconds_per_gb,
            "start_s": self.start_s,
            "end_s": self.end_s,
            "times_s": [round(float(time), 4) for time in self.placed.times_s],
            "bytes": [int(count) for count in self.placed.bytes_total],
        }


def series_of(samples: Sequence[Sequence[int]], start_ns: int) -> Series:
    """The series of (monotonic ns, bytes), counted from `start_ns`."""
    return Series.of([(at - start_ns) / 1e9 for at, _ in samples], [count for _, count in samples])


def steps_of(samples: Sequence[Sequence[int]], start_ns: int, end_s: float) -> Series:
    """The series of counts that jump at completions, (monotonic ns, bytes), from `start_ns` on.

    Nothing is known between two completions, so no arrivals are assumed there, nor from the last one to the end.
    """
    times: list[float] = []
    counts: list[float] = []
    for at_ns, count in samples:
        at = (at_ns - start_ns) / 1e9
        if times and at > times[-1]:
            times.append(max(times[-1], at - _STEP_S))
            counts.append(counts[-1])
        times.append(at)
        counts.append(count)
    if times and times[-1] < end_s:
        times.append(end_s)
        counts.append(counts[-1])
    return Series.of(times, counts)
