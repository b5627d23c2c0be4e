"""Counters to figures: rates, stalls and recovery of hand-made series with known results."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmrc.runs.records.byte_counter import (
    Series,
    add,
    goodput_gbps,
    goodput_over_gbps,
    longest_stall,
    longest_stall_ms,
    merge_spans,
    rates_gbps,
    recovery_s,
)

GBPS = 1e9 / 8  # bytes a second


def piecewise(*pieces: tuple[float, float], step_s: float = 0.01) -> Series:
    """A counter that runs at each (seconds, Gb/s) in turn, sampled every `step_s`."""
    rates = np.concatenate([np.full(round(seconds / step_s), gbps * GBPS * step_s) for seconds, gbps in pieces])
    times = np.arange(len(rates) + 1) * step_s
    return Series.of(times, np.concatenate(([0.0], np.cumsum(rates))))


def test_goodput_is_bytes_over_time_inside_the_interval():
    series = piecewise((1, 1.0), (1, 3.0))
    assert goodput_gbps(series) == pytest.approx(2.0)
    assert goodput_gbps(series, 0, 1) == pytest.approx(1.0)
    assert goodput_gbps(series, 1.25, 1.5) == pytest.approx(3.0)
    assert goodput_gbps(series, 5, 6) is None


def test_goodput_over_several_intervals_counts_an_overlap_once():
    series = piecewise((1, 1.0), (1, 3.0))
    assert goodput_over_gbps(series, [(0.5, 1.0), (0.75, 1.0), (1.0, 1.5)]) == pytest.approx(2.0)
    assert goodput_over_gbps(series, []) is None


def test_the_longest_stall_is_the_longest_time_without_a_byte():
    series = piecewise((1, 1.0), (0.04, 0.0), (1, 1.0), (0.12, 0.0), (1, 1.0))
    start, end = longest_stall(series)
    assert start == pytest.approx(2.04)
    assert end - start == pytest.approx(0.12)
    assert longest_stall_ms(series, 0, 2) == pytest.approx(40)


def test_silence_to_the_end_is_a_stall():
    series = piecewise((1, 1.0), (3, 0.0))
    assert longest_stall_ms(series) == pytest.approx(3000)


def test_a_late_sample_with_progress_is_no_stall():
    assert longest_stall_ms(Series.of([0, 0.01, 0.2, 0.21], [0, 10, 500, 510])) == 0


def test_recovery_is_counted_from_the_repair():
    series = piecewise((1, 4.0), (1, 3.0), (0.5, 3.0), (2, 4.0))
    assert recovery_s(series, 2.0, 0.97 * 4.0) == pytest.approx(0.5, abs=0.05)
    assert recovery_s(series, 2.0, 5.0) is None


def test_adding_series_adds_bytes_at_every_time():
    total = add([piecewise((1, 1.0)), piecewise((2, 2.0))])
    assert goodput_gbps(total, 0, 1) == pytest.approx(3.0)
    assert goodput_gbps(total, 1, 2) == pytest.approx(2.0)
    assert add([]).empty


def test_rates_cover_every_bin_and_keep_every_byte():
    starts, rates = rates_gbps(piecewise((1, 1.0), (1, 0.0)), 0.5, 0, 2)
    assert starts.tolist() == [0, 0.5, 1.0, 1.5]
    assert rates.tolist() == pytest.approx([1, 1, 0, 0])


@pytest.mark.parametrize(
    ("times", "values", "complaint"),
    [([0, 1], [0], "both must be one row"), ([1, 0], [0, 1], "times"), ([0, 1], [5, 4], "byte counter")],
)
def test_a_series_that_cannot_be_is_refused(times, values, complaint):
    with pytest.raises(ValueError, match=complaint):
        Series.of(times, values)


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 50)), max_size=20))
def test_merged_spans_are_disjoint_and_cover_the_same_times(pairs):
    spans = [(float(start), float(start + length)) for start, length in pairs]
    merged = merge_spans(spans)
    assert all(before[1] < after[0] for before, after in pairwise(merged))
    for tenth in range(0, 1600, 7):
        time = tenth / 10
        assert any(a <= time < b for a, b in merged) == any(a <= time < b for a, b in spans)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=60))
def test_a_stall_equals_the_longest_run_of_equal_samples(steps):
    series = Series.of(np.arange(len(steps) + 1) * 0.01, np.concatenate(([0.0], np.cumsum(steps))))
    longest = max((len(run) for run in "".join("0" if step == 0 else "1" for step in steps).split("1")), default=0)
    assert longest_stall_ms(series) == pytest.approx(longest * 10, abs=1e-6)
