"""Schedules: trials start in a given order, each in the first free slot."""

from __future__ import annotations

import heapq
import statistics
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openmrc.errors import ConfigError

__all__ = ["Schedule", "expected_seconds", "list_schedule", "longest_first", "shared_schedule", "wall_clock_bound_s"]

Seconds = npt.NDArray[np.float64]
Key = tuple[str, str]
UNKNOWN_QUANTILE = 0.75


@dataclass(frozen=True)
class Schedule:
    """Slot and start of every trial, in the order in which they start; all times in seconds."""

    slots: tuple[int, ...]
    starts_s: tuple[float, ...]
    ends_s: tuple[float, ...]

    @property
    def wall_clock_s(self) -> float:
        """Time until the last trial ends."""
        return max(self.ends_s, default=0.0)


def list_schedule(seconds: Sequence[float], slots: int) -> Schedule:
    """The schedule of trials that last `seconds` each, in this order, on a number of slots."""
    assert slots >= 1, slots
    free = [(0.0, slot) for slot in range(slots)]
    placed = []
    for duration in seconds:
        start, slot = heapq.heappop(free)
        placed.append((slot, start, start + duration))
        heapq.heappush(free, (start + duration, slot))
    columns = tuple(zip(*placed, strict=True)) or ((), (), ())
    return Schedule(columns[0], columns[1], columns[2])


def shared_schedule(order: Sequence[int], seconds: Mapping[int, Seconds], slots: int) -> Schedule:
    """The schedule of trials whose speed depends on the number of concurrent ones, as they share the replicas.

    Args:
        order: Indices of the trials, in the order of their start; so are the columns of the result.
        seconds: Time of every trial by the number of concurrent ones, for 1, `slots`, and numbers between;
        interpolated.
        slots: Limit on concurrent trials.
    """
    counts = sorted(seconds)
    table = np.array([seconds[count] for count in counts])
    slot_of, starts_s, ends_s = (np.zeros(len(order)) for _ in range(3))
    active: list[int] = []  # places in the order
    left = np.zeros(0)
    now_s, begun = 0.0, 0
    free = list(range(slots))
    while begun < len(order) or active:
        while free and begun < len(order):
            slot_of[begun], starts_s[begun] = heapq.heappop(free), now_s
            active.append(begun)
            left = np.append(left, 1.0)
            begun += 1
        high = min(bisect_left(counts, len(active)), len(counts) - 1)
        low = high if counts[high] <= len(active) else max(high - 1, 0)
        share = (len(active) - counts[low]) / max(counts[high] - counts[low], 1)
        trials = [order[place] for place in active]
        speed = np.maximum(table[low, trials] + share * (table[high, trials] - table[low, trials]), 1e-9)
        first = int(np.argmin(left * speed))
        step_s = float(left[first] * speed[first])
        now_s += step_s
        left = np.delete(np.maximum(left - step_s / speed, 0.0), first)
        place = active.pop(first)
        ends_s[place] = now_s
        heapq.heappush(free, int(slot_of[place]))
    return Schedule(tuple(slot_of.astype(int).tolist()), tuple(starts_s.tolist()), tuple(ends_s.tolist()))


def wall_clock_bound_s(seconds: Sequence[float], slots: int) -> float:
    """Lower bound of the wall-clock time for any order: all work on all slots, or the longest trial."""
    return max(sum(seconds) / slots, max(seconds, default=0.0))


def expected_seconds(keys: Sequence[Key], earlier: Iterable[tuple[Key, float | None]]) -> list[float]:
    """Expected time of each trial: the median of its sample in earlier trials.

    A sample without an earlier time gets the third quartile of the others, because a long trial that starts late costs
    more than a short one that starts early.

    Raises:
        ConfigError: no earlier trial has a time.
    """
    times: dict[Key, list[float]] = {}
    for key, seconds in earlier:
        if seconds is not None:
            times.setdefault(key, []).append(seconds)
    medians = {key: statistics.median(some) for key, some in times.items()}
    if not medians:
        raise ConfigError("profile", "no trial with a time", "trials with total_s, for the order by earlier runs")
    ranked = sorted(medians.values())
    unknown_s = ranked[min(int(UNKNOWN_QUANTILE * len(ranked)), len(ranked) - 1)]
    return [medians.get(key, unknown_s) for key in keys]


def longest_first(expected_s: Sequence[float]) -> list[int]:
    """Indices of trials, longest expected time first; the order of equal ones is kept."""
    return sorted(range(len(expected_s)), key=lambda at: -expected_s[at])
