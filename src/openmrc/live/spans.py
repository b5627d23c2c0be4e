"""Scheduled faults as spans of time that numbers and pictures can be made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from openmrc.analysis.record import FaultSpan
from openmrc.fabric import Fabric, Fault, check_emulated_fault, parse_fault

_PS = 1e12
SPANS_MAX = 1000


def parse_faults(
    texts: Sequence[str], fabric: Fabric, check: Callable[[Fault], None] = check_emulated_fault
) -> list[Fault]:
    """The faults that a fabric has places for; `check` refuses what cannot be done there.

    Raises:
        FaultError: naming the word that is wrong and what could stand there.
    """
    faults = [parse_fault(text) for text in texts]
    for fault, text in zip(faults, texts, strict=True):
        fault.target.check(fabric, text)
        check(fault)
    return faults


def fault_spans(
    texts: Sequence[str], faults: Sequence[Fault], length_s: float, names: Mapping[str, str] | None = None
) -> tuple[FaultSpan, ...]:
    """When each fault is active within a run of `length_s`, in order; `names` gives some a friendlier text.

    A fault that comes and goes (`every`) is one span for each time it is on.
    """
    spans: list[FaultSpan] = []
    for text, fault in zip(texts, faults, strict=True):
        start = fault.start_ps / _PS
        end = length_s if fault.duration_ps is None else start + fault.duration_ps / _PS
        for on, off in _on_times(start, min(end, length_s), fault.period_ps / _PS):
            spans.append(
                FaultSpan(
                    text=(names or {}).get(text, text),
                    start_s=on,
                    end_s=off,
                    plane=fault.target.plane if isinstance(fault.target.plane, int) else None,
                    silent=fault.kind != "down",
                )
            )
    return tuple(sorted(spans, key=lambda span: span.start_s))


def _on_times(start_s: float, end_s: float, period_s: float) -> list[tuple[float, float]]:
    if period_s <= 0:
        return [(start_s, end_s)] if end_s > start_s else []
    times: list[tuple[float, float]] = []
    at = start_s
    while at < end_s and len(times) < SPANS_MAX:
        times.append((at, min(at + period_s / 2, end_s)))
        at += period_s
    return times
