"""Pictures of the experiments, in the axes of the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from openmrc.charts.style import MRC_COLOUR, PLANE_COLOURS, RC_COLOUR

__all__ = ["Bars", "Line", "Plot", "draw"]

COLOURS = (MRC_COLOUR, RC_COLOUR, *PLANE_COLOURS[1:])
WIDTH_IN, HEIGHT_IN, DPI = 7.2, 3.3, 90
HEADROOM = 1.1  # for legends and the words at events


@dataclass(frozen=True)
class Line:
    """Means over the interval that ends at each x, drawn as steps; with `marks` a line with visible points."""

    name: str
    x: npt.ArrayLike
    y: npt.ArrayLike
    marks: bool = False


@dataclass(frozen=True)
class Bars:
    """A bar per name."""

    names: Sequence[str]
    values: Sequence[float]


@dataclass(frozen=True)
class Plot:
    """One picture.

    Args:
        name: Of its file, without suffix.
        title: Above it.
        x, y: Axis titles, with units.
        lines, bars: Its contents.
        events: Marked moments: position on the x axis, and a word.
        limit: A level for comparison, with its name: the paper's result, or the maximum.
        log: Axes that are logarithmic: "", "x", "y" or "xy".
    """

    name: str
    title: str
    x: str
    y: str
    lines: tuple[Line, ...] = ()
    bars: Bars | None = None
    events: tuple[tuple[float, str], ...] = ()
    limit: tuple[float, str] | None = None
    log: str = field(default="")


def draw(plot: Plot, folder: Path) -> Path:
    """The picture as a PNG file in `folder`; needs matplotlib (extra `sim`)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for index, line in enumerate(plot.lines):
        shape = {"marker": "o", "ms": 3.5} if line.marks else {"drawstyle": "steps-pre"}
        colour = COLOURS[index % len(COLOURS)]
        axes.plot(np.asarray(line.x), np.asarray(line.y), color=colour, lw=1.3, label=line.name, **shape)
    if plot.bars is not None:
        colours = [COLOURS[index % len(COLOURS)] for index in range(len(plot.bars.values))]
        drawn = axes.bar(list(plot.bars.names), list(plot.bars.values), color=colours, width=0.65)
        axes.bar_label(drawn, fmt="%.4g", fontsize=8)
        axes.tick_params(axis="x", labelsize=8)
    if "x" in plot.log:
        axes.set_xscale("log")
    if "y" in plot.log:
        axes.set_yscale("log")
    else:
        level = 0.0 if plot.limit is None else plot.limit[0]
        axes.set_ylim(bottom=0, top=HEADROOM * max(level, axes.get_ylim()[1]))
    _annotate(axes, plot)
    axes.set(xlabel=plot.x, ylabel=plot.y)
    axes.set_title(plot.title[:1].upper() + plot.title[1:], fontsize=10, loc="left")
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if len(plot.lines) > 1 or plot.limit is not None:
        axes.legend(fontsize=8, frameon=False, ncols=min(max(len(plot.lines), 1), 4), loc="best")
    path = folder / f"{plot.name}.png"
    figure.savefig(path, metadata={"Software": None})
    return path


def _annotate(axes: object, plot: Plot) -> None:
    if plot.limit is not None:
        axes.axhline(plot.limit[0], color="#8a93a0", ls=(0, (6, 4)), lw=1, label=plot.limit[1])  # type: ignore[attr-defined]
    for at, word in plot.events:
        axes.axvline(at, color="#d83a3a", alpha=0.35, lw=1)  # type: ignore[attr-defined]
        if word:
            axes.annotate(  # type: ignore[attr-defined]
                word, (at, 1.0), xycoords=("data", "axes fraction"), fontsize=7, color="#d83a3a", va="top", rotation=90
            )
