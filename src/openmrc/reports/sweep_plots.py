"""Pictures of a sweep's table: a figure over a parameter, a line for each value of another, a band over the seeds."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmrc.charts.style import plane_colour
from openmrc.errors import ConfigError, did_you_mean
from openmrc.reports.simulation_charts import si, time_unit
from openmrc.reports.simulation_pictures import figure_of, save_figure
from openmrc.reports.simulation_record import PS
from openmrc.units import parse_bytes, parse_percent, parse_rate, parse_time

if TYPE_CHECKING:
    import polars as pl

__all__ = ["draw_sweep", "scale_of", "sweep_lines"]

_LOG_SPAN = 20.0
_TICKS_MAX = 12


def sweep_lines(frame: pl.DataFrame, x: str, y: str, lines: str | None = None) -> dict[str, list[dict[str, Any]]]:
    """Per line, by its name, the points {x, median, low, high, runs}, in the order of x.

    A point takes all runs with the same x on the line: those of different seeds, and of parameters that are not named
    here. Failed runs and runs without the figure are left out.

    Args:
        frame: Table of a sweep.
        x: Column of the horizontal axis.
        y: Column of a figure.
        lines: Column whose values get a line each; None: one line, or one per transport when there are several.

    Raises:
        ConfigError: a column that the table lacks, or one without numbers.
    """
    import polars as pl

    if lines is None and frame["transport"].n_unique() > 1:
        lines = "transport"
    for field, name in (("x", x), ("y", y), ("lines", lines)):
        if name is not None and name not in frame.columns:
            known = ", ".join(frame.columns)
            raise ConfigError(f"plots.{field}", name, known, hint=did_you_mean(name, frame.columns))
    if not frame[y].dtype.is_numeric():
        raise ConfigError("plots.y", y, "a column with numbers")
    good = frame.filter((pl.col("error") == "") & pl.col(y).is_not_null() & pl.col(x).is_not_null())
    names = sorted(good[lines].unique().to_list(), key=_order) if lines else [""]
    found: dict[str, list[dict[str, Any]]] = {}
    for name in names:
        part = good.filter(pl.col(lines) == name) if lines else good
        points = part.group_by(pl.col(x).alias("x"), maintain_order=True).agg(
            pl.col(y).median().alias("median"),
            pl.col(y).min().alias("low"),
            pl.col(y).max().alias("high"),
            pl.len().alias("runs"),
        )
        found[f"{lines} {name}" if lines else y] = sorted(points.to_dicts(), key=lambda point: _order(point["x"]))
    return found


def draw_sweep(frame: pl.DataFrame, x: str, y: str, lines: str | None, path: str | Path) -> Path:
    """Writes the picture; the suffix (.png, .svg, .pdf) chooses the format. Gives the path.

    The line goes through the medians, the band from the smallest to the largest. The horizontal axis is logarithmic
    when its values are positive and span more than a factor of 20; words stand side by side.

    Raises:
        ConfigError: as `sweep_lines`.
        ModuleNotFoundError: matplotlib is not installed.
    """
    found = sweep_lines(frame, x, y, lines)
    factor, title = scale_of(y, max((point["high"] for points in found.values() for point in points), default=0))
    figure, (axis,) = figure_of(1, 4.6)
    values = sorted({point["x"] for points in found.values() for point in points}, key=_order)
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    for index, (name, points) in enumerate(found.items()):
        at = [point["x"] if numeric else values.index(point["x"]) for point in points]
        low, middle, high = ([point[key] * factor for point in points] for key in ("low", "median", "high"))
        axis.plot(at, middle, "o-", ms=4, color=plane_colour(index), label=name)
        axis.fill_between(at, low, high, color=plane_colour(index), alpha=0.15, linewidth=0)
    if numeric and values and values[0] > 0 and values[-1] / values[0] > _LOG_SPAN:
        axis.set_xscale("log")
        if len(values) <= _TICKS_MAX:
            axis.set_xticks(values, [si(value) for value in values])
            axis.set_xticks([], minor=True)
    elif not numeric:
        axis.set_xticks(range(len(values)), [str(value) for value in values])
    axis.set_ylim(bottom=0)
    axis.set_xlabel(x)
    axis.set_ylabel(title)
    axis.legend(frameon=False, fontsize=9)
    return save_figure(figure, Path(path))


def _order(value: Any) -> tuple[int, Any]:
    """Numbers by size, those with a unit after them, also by size; other words last."""
    if isinstance(value, int | float):
        return 0, value
    for parse in (parse_bytes, parse_time, parse_rate, parse_percent):
        with suppress(ConfigError):
            return 1, parse(str(value))
    return 2, str(value)


def scale_of(name: str, top: float) -> tuple[float, str]:
    """Factor for a figure, and the title of its axis: `fct_p99_ps` up to 2e9 becomes `fct p99, ms`."""
    words, _, unit = name.rpartition("_")
    if words and unit == "ps":
        factor, unit = time_unit(top * PS)
        return factor * PS, f"{words.replace('_', ' ')}, {unit}"
    if words and unit == "bps":
        return 1e-9, f"{words.replace('_', ' ')}, Gb/s"
    return 1.0, name.replace("_", " ")
