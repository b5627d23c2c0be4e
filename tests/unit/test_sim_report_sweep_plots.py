"""Tables of sweeps to pictures."""

from __future__ import annotations

import polars as pl
import pytest

from openmrc.reports.sweep_plots import draw_sweep, scale_of, sweep_lines


@pytest.fixture
def frame() -> pl.DataFrame:
    rows = [
        {"evs": evs, "at": f"{evs}us", "seed": seed, "transport": name, "error": "", "fct_p99_ps": evs * 10**6 + seed}
        for name in ("mrc", "roce")
        for evs in (256, 16, 64)
        for seed in (1, 2, 3)
    ]
    return pl.DataFrame([*rows, {**rows[0], "seed": 4, "error": "lost", "fct_p99_ps": None}])


def test_points_are_medians_over_seeds_with_their_range(frame):
    lines = sweep_lines(frame, "evs", "fct_p99_ps")
    assert list(lines) == ["transport mrc", "transport roce"]
    first = {"x": 16, "median": 16_000_002.0, "low": 16_000_001, "high": 16_000_003, "runs": 3}
    assert lines["transport mrc"][0] == first
    assert [point["x"] for point in lines["transport mrc"]] == [16, 64, 256]
    sizes = frame.with_columns(pl.col("at").replace({"16us": "64KiB", "64us": "512KiB", "256us": "1MiB"}))
    for table, names in ((frame, ["16us", "64us", "256us"]), (sizes, ["64KiB", "512KiB", "1MiB"])):
        assert [point["x"] for point in sweep_lines(table, "at", "fct_p99_ps")["transport mrc"]] == names
    assert list(sweep_lines(frame, "seed", "fct_p99_ps", "evs")) == ["evs 16", "evs 64", "evs 256"]


@pytest.mark.parametrize("x", ["evs", "at"])
def test_numbers_and_words_can_be_drawn(frame, tmp_path, x):
    assert draw_sweep(frame, x, "fct_p99_ps", None, tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_axes_read_well():
    assert scale_of("fct_p99_ps", 2e9) == (pytest.approx(1e-9), "fct p99, ms")
    assert scale_of("goodput_bps", 1e11) == (1e-9, "goodput, Gb/s")
    assert scale_of("slowest_over_ideal", 2.0) == (1.0, "slowest over ideal")
