"""Byte counters sampled over time, and the figures derived from them.

Rules of this module: pure functions over frozen values; times are seconds since the start of the run; a counter never
goes backwards; an interval without samples has no goodput rather than a guessed one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
RECOVERY_WINDOW_S = 0.25  # duration of recovered goodput before a recovery counts


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A cumulative byte counter: `bytes_total[i]` bytes had arrived at `times_s[i]`.

    Raises ValueError if the lengths differ, a time repeats an earlier one, or the counter goes backwards.
    """

    times_s: FloatArray
    bytes_total: FloatArray

    def __post_init__(self) -> None:
        if self.times_s.shape != self.bytes_total.shape or self.times_s.ndim != 1:
            raise ValueError(
                f"series: {self.times_s.shape} times and {self.bytes_total.shape} values; both must be one row"
            )
        if np.any(np.diff(self.times_s) < 0):
            raise ValueError("series: times must not decrease")
        if np.any(np.diff(self.bytes_total) < 0):
            raise ValueError("series: a byte counter must not decrease")

    @classmethod
    def of(cls, times_s: Sequence[float] | FloatArray, bytes_total: Sequence[float] | FloatArray) -> Series:
        """The series of two plain sequences."""
        return cls(np.asarray(times_s, dtype=np.float64), np.asarray(bytes_total, dtype=np.float64))

    @property
    def empty(self) -> bool:
        """True if fewer than two samples exist, so that no rate can be computed."""
        return self.times_s.size < 2

    @property
    def start_s(self) -> float:
        """Time of the first sample; 0 if there is none."""
        return float(self.times_s[0]) if self.times_s.size else 0.0

    @property
    def end_s(self) -> float:
        """Time of the last sample; 0 if there is none."""
        return float(self.times_s[-1]) if self.times_s.size else 0.0

    @property
    def total(self) -> float:
        """Bytes between the first and the last sample."""
        return float(self.bytes_total[-1] - self.bytes_total[0]) if self.times_s.size else 0.0

    def at(self, time_s: float) -> float:
        """The counter at any time: linear between samples, the end values outside them."""
        return float(self.over(np.array([time_s], dtype=np.float64))[0])

    def over(self, times_s: FloatArray) -> FloatArray:
        """`at` for many times."""
        if not self.times_s.size:
            return np.zeros_like(times_s)
        return np.asarray(np.interp(times_s, self.times_s, self.bytes_total), dtype=np.float64)

    def first_progress_s(self) -> float | None:
        """Time of the last sample before the first byte; None if no byte ever arrived."""
        moved = np.flatnonzero(np.diff(self.bytes_total) > 0)
        return float(self.times_s[moved[0]]) if moved.size else None

    def cut(self, start_s: float, end_s: float) -> Series:
        """The part between two times, with interpolated samples at both ends."""
        inside = (self.times_s > start_s) & (self.times_s < end_s)
        times = np.concatenate(([start_s], self.times_s[inside], [end_s]))
        return Series(times, self.over(times))


def add(series: Iterable[Series], step_s: float = 0.01) -> Series:
    """The sum of several counters on one grid of `step_s`, over the time that any of them covers."""
    parts = [one for one in series if one.times_s.size]
    if not parts:
        return Series.of([], [])
    start, end = min(one.start_s for one in parts), max(one.end_s for one in parts)
    grid = np.append(np.arange(start, end, step_s), end)
    return Series(grid, np.sum([one.over(grid) for one in parts], axis=0, dtype=np.float64))


def goodput_gbps(series: Series, start_s: float | None = None, end_s: float | None = None) -> float | None:
    """Mean goodput between two times in Gb/s; None if the samples do not cover any of that interval."""
    start = series.start_s if start_s is None else max(start_s, series.start_s)
    end = series.end_s if end_s is None else min(end_s, series.end_s)
    if series.empty or end <= start:
        return None
    return (series.at(end) - series.at(start)) * 8 / (end - start) / 1e9


def goodput_over_gbps(series: Series, spans: Iterable[tuple[float, float]]) -> float | None:
    """Mean goodput over several intervals taken together; overlapping ones count once. None: no samples in them."""
    covered_bytes, covered_s = 0.0, 0.0
    for start, end in merge_spans(spans):
        lower, upper = max(start, series.start_s), min(end, series.end_s)
        if upper > lower:
            covered_bytes += series.at(upper) - series.at(lower)
            covered_s += upper - lower
    return covered_bytes * 8 / covered_s / 1e9 if covered_s > 0 and not series.empty else None


def merge_spans(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same time as disjoint intervals in order."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def longest_stall(series: Series, start_s: float | None = None, end_s: float | None = None) -> tuple[float, float]:
    """The longest time without a new byte, as (start, end) in seconds; (t, t) if bytes always arrived.

    Only whole gaps between samples count, so samples every 10 ms give that resolution. Silence from the last byte to
    `end_s` counts: a transfer that never recovers has stalled until the end.
    """
    if series.empty:
        return (0.0, 0.0)
    part = series.cut(
        series.start_s if start_s is None else max(start_s, series.start_s),
        series.end_s if end_s is None else min(max(end_s, series.start_s), series.end_s),
    )
    still = np.diff(part.bytes_total) <= 0
    best, since = (part.start_s, part.start_s), None
    for index, quiet in enumerate(still):
        if not quiet:
            since = None
            continue
        since = part.times_s[index] if since is None else since
        if part.times_s[index + 1] - since > best[1] - best[0]:
            best = (float(since), float(part.times_s[index + 1]))
    return best


def longest_stall_ms(series: Series, start_s: float | None = None, end_s: float | None = None) -> float:
    """Length of `longest_stall` in milliseconds."""
    start, end = longest_stall(series, start_s, end_s)
    return (end - start) * 1e3


def recovery_s(series: Series, since_s: float, level_gbps: float, window_s: float = RECOVERY_WINDOW_S) -> float | None:
    """Seconds from `since_s` until the goodput of a whole window reaches the level again; None: it never did."""
    if series.empty:
        return None
    starts = np.arange(since_s, series.end_s - window_s + 1e-9, 0.01)
    if not starts.size:
        return None
    rates = (series.over(starts + window_s) - series.over(starts)) * 8 / window_s / 1e9
    reached = np.flatnonzero(rates >= level_gbps)
    return float(starts[reached[0]] - since_s) if reached.size else None


def rates_gbps(series: Series, step_s: float, start_s: float, end_s: float) -> tuple[FloatArray, FloatArray]:
    """The goodput of every bin of `step_s` between two times: (bin starts in seconds, Gb/s)."""
    count = max(1, round((end_s - start_s) / step_s))
    edges = np.asarray(start_s + np.arange(count + 1) * step_s, dtype=np.float64)
    return edges[:-1], np.asarray(np.diff(series.over(edges)) * 8 / step_s / 1e9, dtype=np.float64)
