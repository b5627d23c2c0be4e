"""The pictures of a simulation report as PNG files, for a paper or a slide. Needs matplotlib (the `sim` extra)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from openmrc.charts.style import PLOT_STYLE, plane_colour
from openmrc.reports.simulation_charts import Band, logarithmic, percentile, time_unit
from openmrc.reports.simulation_figures import (
    STATE_COLOURS,
    STATES,
    drops_over_time,
    ev_counts,
    ev_rows,
    plane_rates,
    queue_blocks,
)
from openmrc.reports.simulation_record import RunRecord, TransportRecord

__all__ = ["draw_pictures", "figure_of", "save_figure"]

_FAULT, _CALM = "#d83a3a", "#cdeedd"
_LEGEND_INSIDE_MAX = 4


def figure_of(rows: int, height: float, **options: Any) -> tuple[Any, list[Any]]:
    """A figure in the project's style with this number of plots below each other, `height` inches in all.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    with plt.rc_context(cast("Any", PLOT_STYLE)):
        figure, axes = plt.subplots(
            rows, 1, figsize=(10, height), layout="constrained", facecolor="white", squeeze=False, **options
        )
    return figure, list(axes[:, 0])


def save_figure(figure: Any, path: Path) -> Path:
    """Writes the figure and releases its memory."""
    import logging

    from matplotlib import pyplot as plt

    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # Inter is optional
    with plt.rc_context(cast("Any", PLOT_STYLE)):
        figure.savefig(path, dpi=160)
    plt.close(figure)
    return path


def draw_pictures(runs: Sequence[RunRecord], folder: Path) -> list[Path]:
    """Writes one PNG per picture for which the runs have data; returns their paths.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    records = [record for run in runs for record in run.transports]
    written = [_draw_fct(records, folder / "fct.png")]
    for run in runs:
        for record in run.transports:
            slug = re.sub(r"[^a-z0-9]+", "-", record.label.lower()).strip("-")
            written += [
                _draw_planes(record, run.faults, folder / f"planes-{slug}.png"),
                _draw_queues(record, folder / f"queues-{slug}.png"),
                _draw_evs(record, run.faults, folder / f"evs-{slug}.png"),
                _draw_drops(record, run.faults, folder / f"drops-{slug}.png"),
            ]
    return [path for path in written if path is not None]


def _draw_fct(records: Sequence[TransportRecord], path: Path) -> Path | None:
    curves = [(record, times) for record in records if len(times := record.fct_s())]
    if not curves:
        return None
    low, high = min(float(times[0]) for _, times in curves), max(float(times[-1]) for _, times in curves)
    factor, unit = time_unit(high)
    figure, (axis,) = figure_of(1, 4.2)
    if logarithmic(low, high):
        _set_log_axis(axis)
    colours: dict[str, str] = {}  # a transport has one, and is dashed from its second run on
    for record, times in curves:
        style = "--" if record.name in colours else "-"
        colour = colours.setdefault(record.name, record.colour)
        shares = np.arange(1, len(times) + 1) / len(times)
        marks = [percentile(times, share) * factor for share in (0.5, 0.99, 1.0)]
        name = f"{record.label}: " + ", ".join(
            f"{mark} {value:.4g}" for mark, value in zip(("p50", "p99", "p100"), marks, strict=True)
        )
        axis.step(times * factor, shares, style, where="post", color=colour, label=f"{name} {unit}")
        axis.plot(marks, (0.5, 0.99, 1.0), "o", ms=4, color=colour)
    axis.set_xlabel(f"flow completion time, {unit}")
    axis.set_ylabel("share of flows")
    beside = len(curves) > _LEGEND_INSIDE_MAX  # inside it would cover curves
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 2} if beside else {"loc": "lower right"}
    axis.legend(frameon=False, **place)
    return save_figure(figure, path)


def _set_log_axis(axis: Any) -> None:
    """Decades with ticks at 1, 2 and 5, written as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())


def _draw_planes(record: TransportRecord, faults: Sequence[Band], path: Path) -> Path | None:
    found = plane_rates(record)
    if found is None:
        return None
    times, rows = found
    factor, unit = time_unit(float(times[-1]))
    figure, (axis,) = figure_of(1, 4.2)
    for plane, values in enumerate(rows):
        axis.plot(times * factor, values / 1e9, color=plane_colour(plane), linewidth=1.3, label=f"plane {plane}")
    _shade(axis, faults, factor)
    axis.set_ylim(bottom=0)
    axis.set_xlabel(unit)
    axis.set_ylabel("received per plane, Gb/s")
    axis.set_title(record.label, loc="left", fontweight="bold")
    axis.legend(frameon=False, ncols=min(len(rows), 8), loc="lower right", fontsize=8)
    return save_figure(figure, path)


def _draw_queues(record: TransportRecord, path: Path) -> Path | None:
    found = queue_blocks(record)
    if found is None:
        return None
    times, blocks = found
    factor, unit = time_unit(float(times[-1]))
    top = max(float(cells.max()) for _, cells in blocks) / 1e3 or 1.0
    figure, axes = figure_of(len(blocks), 1.2 + 2.0 * len(blocks), sharex=True)
    for axis, (name, cells) in zip(axes, blocks, strict=True):
        image = axis.imshow(
            cells / 1e3,
            aspect="auto",
            interpolation="nearest",
            cmap="YlOrRd",
            vmin=0,
            vmax=top,
            extent=(0, float(times[-1]) * factor, len(cells), 0),
        )
        axis.set_ylabel(name)
    axes[0].set_title(f"{record.label}: longest queue of each switch, kB", loc="left", fontweight="bold")
    axes[-1].set_xlabel(unit)
    figure.colorbar(image, ax=axes, label="kB")
    return save_figure(figure, path)


def _draw_evs(record: TransportRecord, faults: Sequence[Band], path: Path) -> Path | None:
    counts, rows = ev_counts(record), ev_rows(record)
    if counts is None or rows is None:
        return None
    from matplotlib.colors import ListedColormap

    times, layers = counts
    factor, unit = time_unit(record.end_s)
    figure, (above, below) = figure_of(2, 6.5, sharex=True)
    for layer in layers:
        above.step(times * factor, layer.y, where="post", color=layer.colour, label=layer.name)
    _shade(above, faults, factor)
    above.set_ylabel("EVs in this state")
    above.set_title(f"{record.label}: EV states", loc="left", fontweight="bold")
    above.legend(frameon=False, loc="upper right")
    below.imshow(
        rows.cells,
        aspect="auto",
        interpolation="nearest",
        cmap=ListedColormap([_CALM if name == "GOOD" else STATE_COLOURS[at] for at, name in enumerate(STATES)]),
        vmin=-0.5,
        vmax=len(STATE_COLOURS) - 0.5,
        extent=(0, record.end_s * factor, len(rows.cells), 0),
    )
    below.set_ylabel(f"EVs of {rows.title}")
    below.set_xlabel(unit)
    return save_figure(figure, path)


def _draw_drops(record: TransportRecord, faults: Sequence[Band], path: Path) -> Path | None:
    found = drops_over_time(record)
    if found is None:
        return None
    starts, layers = found
    factor, unit = time_unit(record.end_s)
    figure, (axis,) = figure_of(1, 3.6)
    axis.stackplot(
        starts * factor,
        [layer.y for layer in layers],
        colors=[layer.colour for layer in layers],
        labels=[layer.name for layer in layers],
        step="post",
    )
    _shade(axis, faults, factor)
    axis.set_xlabel(unit)
    axis.set_ylabel("packets lost")
    axis.set_title(f"{record.label}: losses by cause", loc="left", fontweight="bold")
    axis.legend(frameon=False, loc="upper right")
    return save_figure(figure, path)


def _shade(axis: Any, faults: Sequence[Band], factor: float) -> None:
    for fault in faults:
        axis.axvspan(fault.start_s * factor, fault.end_s * factor, color=_FAULT, alpha=0.09, linewidth=0)
