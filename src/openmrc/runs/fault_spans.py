"""Scheduled faults as spans of time, for figures and pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from openmrc.fabric import Fabric, Fault, check_emulated_fault, parse_fault
from openmrc.runs.records.run_record import FaultSpan

_PS = 10**12
SPANS_MAX = 1000


def parse_faults(
    texts: Sequence[str], fabric: Fabric, check: Callable[[Fault], None] = check_emulated_fault
) -> list[Fault]:
    """The faults on a fabric; `check` refuses unsupported ones.

    Raises:
        FaultError: naming the wrong word and the allowed ones.
    """
    faults = [parse_fault(text) for text in texts]
    for fault, text in zip(faults, texts, strict=True):
        fault.target.check(fabric, text)
        check(fault)
    return faults


def fault_spans(
    texts: Sequence[str], faults: Sequence[Fault], length_s: float, names: Mapping[str, str] | None = None
) -> tuple[FaultSpan, ...]:
    """Active time of each fault within a run of `length_s`, in order; `names` gives some a friendlier text.

    A periodic fault (`every`) is one span for each active phase.
    """
    spans: list[FaultSpan] = []
    length_ps = round(length_s * _PS)
    for text, fault in zip(texts, faults, strict=True):
        end_ps = length_ps if fault.duration_ps is None else fault.start_ps + fault.duration_ps
        for on_ps, off_ps in _on_times(fault.start_ps, min(end_ps, length_ps), fault.period_ps):
            spans.append(
                FaultSpan(
                    text=(names or {}).get(text, text),
                    start_s=on_ps / _PS,
                    end_s=off_ps / _PS,
                    plane=fault.target.plane if isinstance(fault.target.plane, int) else None,
                    silent=fault.kind != "down",
                )
            )
    return tuple(sorted(spans, key=lambda span: span.start_s))


def _on_times(start_ps: int, end_ps: int, period_ps: int) -> list[tuple[int, int]]:
    """Integers: a sum of seconds would end slightly before `end_ps` and leave a further span of zero length."""
    if period_ps <= 0:
        return [(start_ps, end_ps)] if end_ps > start_ps else []
    starts = range(start_ps, end_ps, period_ps)[:SPANS_MAX]
    return [(at_ps, min(at_ps + period_ps // 2, end_ps)) for at_ps in starts]
