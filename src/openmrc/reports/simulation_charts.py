"""The pictures of a simulation report as inline SVG that follows the reader's light or dark theme. Times in seconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt

from openmrc.charts.raster import heat_image
from openmrc.charts.style import plane_colour
from openmrc.charts.svg import Plot, element, label, path, picture, ticks

__all__ = [
    "Band",
    "Curve",
    "bars_chart",
    "cdf_chart",
    "heat_chart",
    "legend",
    "lines_chart",
    "logarithmic",
    "percentile",
    "raster_chart",
    "si",
    "stacked_chart",
    "strips_chart",
    "time_unit",
]

WIDTH = 1030.0
_LEFT, _RIGHT = 74.0, 14.0
_LOG_SPAN = 30.0
_BLOCK_GAP = 6.0

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Band:
    """A time in which a fault is active; `plane` None: on all of them."""

    text: str
    start_s: float
    end_s: float
    plane: int | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    """A line with its name and colour."""

    name: str
    colour: str
    x: Floats
    y: Floats


def time_unit(longest_s: float) -> tuple[float, str]:
    """Factor from seconds and name of the most readable unit of a time."""
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us")):
        if longest_s * factor >= 1:
            return factor, unit
    return 1e9, "ns"


def si(value: float) -> str:
    """A number with a decimal prefix: 12.5M."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.4g}{prefix}"
    return f"{value:.4g}"


def cdf_chart(curves: Sequence[tuple[str, str, Floats]], title: str) -> str:
    """Share of flows done after a time: per line its name, colour and the sorted times in seconds.

    p50, p99 and p100 are marked with their values. The axis is logarithmic when the times span more than 30-fold.
    """
    low = min(float(times[0]) for _, _, times in curves)
    high = max(float(times[-1]) for _, _, times in curves)
    log = logarithmic(low, high)
    factor, unit = time_unit(high)
    edges = (math.log10(low), math.log10(high)) if log else (0.0, high * factor * 1.02)
    plot = Plot(_LEFT, 16.0, WIDTH - _LEFT - _RIGHT - 150, 270.0, *edges, 1.02)
    parts = _y_grid(plot, "share", lambda value: f"{value:.0%}")
    parts += _log_axis(plot, factor, unit) if log else _x_axis(plot, unit)

    def across(time_s: float) -> float:
        return plot.x(math.log10(time_s) if log else time_s * factor)

    for index, (name, colour, times) in enumerate(curves):
        shares = np.arange(1, len(times) + 1) / len(times)
        kept = _thinned(len(times), 600)
        points = [(across(float(times[0])), plot.bottom)]
        for one in kept:
            x = across(float(times[one]))
            points += [(x, points[-1][1]), (x, plot.y(float(shares[one])))]
        parts.append(path(points, fill="none", stroke=colour, stroke_width=2))
        row = plot.top + 4 + index * 62
        parts.append(label(plot.right + 14, row, name, fill=colour, style=f"fill:{colour};font-weight:600"))
        for line, (mark, share) in enumerate((("p50", 0.5), ("p99", 0.99), ("p100", 1.0)), 1):
            value = percentile(times, share)
            parts.append(element("circle", cx=across(value), cy=plot.y(share), r=4, fill=colour))
            parts.append(label(plot.right + 14, row + 15 * line, f"{mark} {value * factor:.4g} {unit}"))
    height = max(plot.bottom + 30, plot.top + 62.0 * len(curves))
    return picture(WIDTH, height, parts, title)


def logarithmic(low: float, high: float) -> bool:
    """True if times from `low` to `high` need a logarithmic axis: a linear one would hide the short ones."""
    return low > 0 and high / low > _LOG_SPAN


def percentile(ordered: Floats, share: float) -> float:
    """The smallest of the sorted values that at least this share of them does not exceed."""
    return float(ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)])


def lines_chart(curves: Sequence[Curve], bands: Sequence[Band], unit: str, title: str, limit: float = 0.0) -> str:
    """Values over time, one line per curve, with an optional limit drawn across."""
    plot = _time_plot([curve.x for curve in curves], max([limit, *(_top(curve.y) for curve in curves)]), bands)
    parts = [*_shades(plot, bands, named=True), *_y_grid(plot, unit), *_time_axis(plot)]
    if limit > 0:
        y = plot.y(limit)
        parts.append(element("line", x1=plot.left, x2=plot.right, y1=y, y2=y, class_="limit"))
        parts.append(label(plot.right - 4, y - 6, f"limit {si(limit)}{unit}", text_anchor="end"))
    for curve in curves:
        kept = _thinned(len(curve.x), 800)
        points = [(plot.x(float(curve.x[one])), plot.y(float(curve.y[one]))) for one in kept]
        parts.append(path(points, fill="none", stroke=curve.colour, stroke_width=1.8, stroke_linejoin="round"))
    return picture(WIDTH, plot.bottom + 30, parts, title)


def stacked_chart(times: Floats, layers: Sequence[Curve], bands: Sequence[Band], unit: str, title: str) -> str:
    """Areas on top of each other; every layer has a value at each of the times and keeps it until the next."""
    total = np.sum([layer.y for layer in layers], axis=0)
    plot = _time_plot([times], float(total.max(initial=0.0)), bands)
    parts = [*_shades(plot, bands, named=True), *_y_grid(plot, unit), *_time_axis(plot)]
    kept = _thinned(len(times), 500)
    base = np.zeros(len(times))
    for layer in layers:
        upper = base + layer.y
        outline = [*_steps(plot, times, upper, kept), *reversed(_steps(plot, times, base, kept))]
        parts.append(path([*outline, outline[0]], fill=layer.colour, fill_opacity=0.85))
        base = upper
    return picture(WIDTH, plot.bottom + 30, parts, title)


def strips_chart(
    names: Sequence[str], times: Floats, rows: Sequence[Floats], top: float, bands: Sequence[Band], title: str
) -> str:
    """One strip of values over time per row; `top` is the value at full height of a strip."""
    strip, gap = 44.0, 12.0
    end = float(times[-1]) if len(times) else 1.0
    top = max([top, *(_top(row) for row in rows)]) or 1.0
    parts: list[str] = []
    plot = Plot(_LEFT, 8.0, WIDTH - _LEFT - _RIGHT, strip, 0.0, end, top)
    kept = _thinned(len(times), 500)
    for index, (name, values) in enumerate(zip(names, rows, strict=True)):
        plot = Plot(plot.left, 8.0 + index * (strip + gap), plot.width, strip, 0.0, end, top)
        parts += _shades(plot, [band for band in bands if band.plane in (None, index)])
        parts.append(label(plot.left - 10, plot.top + strip / 2 + 4, name, text_anchor="end"))
        points = [(plot.x(float(times[one])), plot.y(float(values[one]))) for one in kept]
        colour = plane_colour(index)
        parts.append(path(points, close_at=plot.bottom, fill=colour, fill_opacity=0.45))
        parts.append(path(points, fill="none", stroke=colour, stroke_width=1.2))
        parts.append(element("line", x1=plot.left, x2=plot.right, y1=plot.bottom, y2=plot.bottom, class_="axis"))
    parts += _time_axis(plot)
    return picture(WIDTH, plot.bottom + 30, parts, title)


def heat_chart(blocks: Sequence[tuple[str, Floats]], end_s: float, unit: str, bands: Sequence[Band], title: str) -> str:
    """Blocks of rows over time (name, [rows, times]), all in one colour scale from 0 to the largest value."""
    top = max((float(cells.max(initial=0.0)) for _, cells in blocks), default=0.0)
    rows = sum(len(cells) for _, cells in blocks)
    row = min(max(360.0 / max(rows, 1), 0.5), 14.0)
    parts: list[str] = []
    y = 8.0
    for name, cells in blocks:
        height = max(row * len(cells), 12.0)
        parts.append(element("rect", x=_LEFT, y=y, width=WIDTH - _LEFT - _RIGHT, height=height, fill="var(--grid)"))
        parts.append(
            element(
                "image",
                x=_LEFT,
                y=y,
                width=WIDTH - _LEFT - _RIGHT,
                height=height,
                preserveAspectRatio="none",
                style="image-rendering:pixelated",
                href=heat_image(cells, top),
            )
        )
        parts.append(label(_LEFT - 10, y + height / 2 + 4, name, text_anchor="end"))
        y += height + _BLOCK_GAP
    plot = Plot(_LEFT, 8.0, WIDTH - _LEFT - _RIGHT, y - _BLOCK_GAP - 8.0, 0.0, end_s, 1.0)
    parts += [*_edges(plot, bands), *_time_axis(plot)]
    scale = f"from 0 (no colour) to {si(top)}{unit} (dark red)"
    parts.append(label(plot.right, plot.bottom + 34, scale, text_anchor="end"))
    return picture(WIDTH, plot.bottom + 46, parts, title)


def raster_chart(names: Sequence[str], image: str, end_s: float, bands: Sequence[Band], title: str) -> str:
    """An image with a row per name over time, on the colour of GOOD; `image` is a data URI."""
    row = min(max(360.0 / max(len(names), 1), 3.0), 14.0)
    plot = Plot(_LEFT + 60, 8.0, WIDTH - _LEFT - _RIGHT - 60, row * len(names), 0.0, end_s, 1.0)
    size = {"x": plot.left, "y": plot.top, "width": plot.width, "height": plot.height}
    style = "image-rendering:pixelated"
    parts = [
        element("rect", **size, fill="var(--ev-good)"),
        element("image", **size, preserveAspectRatio="none", style=style, href=image),
    ]
    every = -(-14 // int(row))
    parts += [
        label(plot.left - 8, plot.top + row * (index + 0.5) + 4, names[index], text_anchor="end")
        for index in range(0, len(names), every)
    ]
    parts += [*_edges(plot, bands), *_time_axis(plot)]
    return picture(WIDTH, plot.bottom + 30, parts, title)


def bars_chart(groups: Sequence[str], series: Mapping[str, tuple[str, Sequence[float]]], unit: str, title: str) -> str:
    """Groups of bars side by side: per series its colour and a value for each group."""
    top = max((value for _, values in series.values() for value in values), default=1.0) * 1.12
    plot = Plot(_LEFT, 22.0, WIDTH - _LEFT - _RIGHT, 230.0, 0.0, float(len(groups)), top)
    parts = _y_grid(plot, unit)
    parts.append(element("line", x1=plot.left, x2=plot.right, y1=plot.bottom, y2=plot.bottom, class_="axis"))
    share = 0.8 / max(len(series), 1)
    for group, name in enumerate(groups):
        parts.append(label(plot.x(group + 0.5), plot.bottom + 18, name, text_anchor="middle"))
        for place, (colour, values) in enumerate(series.values()):
            left, y = plot.x(group + 0.1 + place * share), plot.y(values[group])
            width = plot.x(group + 0.1 + (place + 1) * share) - left - 3
            parts.append(element("rect", x=left, y=y, width=width, height=plot.bottom - y, rx=2, fill=colour))
            parts.append(label(left + width / 2, y - 5, f"{values[group]:.4g}", text_anchor="middle"))
    return picture(WIDTH, plot.bottom + 30, parts, title)


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """Coloured squares with their meaning."""
    inner = "".join(f'<span><i style="background:{colour}"></i>{escape(text)}</span>' for colour, text in entries)
    return f'<div class="legend">{inner}</div>'


def _time_plot(times: Sequence[Floats], top: float, bands: Sequence[Band]) -> Plot:
    end = max((float(one[-1]) for one in times if len(one)), default=1.0)
    head = 20.0 + 15.0 * min(len({band.text for band in bands}), 4)
    return Plot(_LEFT, head, WIDTH - _LEFT - _RIGHT, 230.0, 0.0, end or 1.0, top * 1.08 or 1.0)


def _top(values: Floats) -> float:
    return float(values.max(initial=0.0))


def _thinned(count: int, most: int) -> list[int]:
    """Indices of at most that many points, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return [int(index) for index in np.unique(np.linspace(0, count - 1, most).astype(int))]


def _steps(plot: Plot, times: Floats, values: Floats, kept: Sequence[int]) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    for one in kept:
        x = plot.x(float(times[one]))
        if points:
            points.append((x, points[-1][1]))
        points.append((x, plot.y(float(values[one]))))
    return points


def _shades(plot: Plot, bands: Sequence[Band], *, named: bool = False) -> list[str]:
    """Shaded times; names stand above the plot, each once, four at most."""
    parts: list[str] = []
    texts = list(dict.fromkeys(band.text for band in bands))
    for band in bands:
        left, right = plot.x(band.start_s), plot.x(band.end_s)
        size = {"width": max(right - left, 1.0), "height": plot.height}
        parts.append(element("rect", x=left, y=plot.top, **size, class_="fault"))
    for row, text in enumerate(texts[:4] if named else []):
        left = plot.x(min(band.start_s for band in bands if band.text == text))
        late = left > plot.left + plot.width * 0.7
        more = f" (and {len(texts) - 4} more)" if row == 3 and len(texts) > 4 else ""
        anchor = {"text_anchor": "end"} if late else {}
        parts.append(label(left + (-4 if late else 4), 12.0 + 15.0 * row, text + more, class_="fault-name", **anchor))
        parts.append(element("line", x1=left, x2=left, y1=4.0 + 15.0 * row, y2=plot.top, class_="fault-edge"))
    return parts


def _edges(plot: Plot, bands: Sequence[Band]) -> list[str]:
    edges = sorted({edge for band in bands for edge in (band.start_s, band.end_s) if edge <= plot.x_max})
    return [
        element("line", x1=plot.x(at), x2=plot.x(at), y1=plot.top, y2=plot.bottom, class_="fault-edge")
        for at in edges[:200]
    ]


def _y_grid(plot: Plot, unit: str, shown: Callable[[float], str] = si) -> list[str]:
    parts: list[str] = []
    for value in ticks(plot.y_max):
        y = plot.y(value)
        parts.append(element("line", x1=plot.left, x2=plot.right, y1=y, y2=y, class_="grid"))
        parts.append(label(plot.left - 10, y + 4, shown(value), text_anchor="end"))
    parts.append(label(plot.left - 10, plot.top - 8, unit, text_anchor="end"))
    return parts


def _time_axis(plot: Plot) -> list[str]:
    factor, unit = time_unit(plot.x_max)
    scaled = Plot(plot.left, plot.top, plot.width, plot.height, 0.0, plot.x_max * factor, plot.y_max)
    return _x_axis(scaled, unit)


def _x_axis(plot: Plot, unit: str) -> list[str]:
    parts = [element("line", x1=plot.left, x2=plot.right, y1=plot.bottom, y2=plot.bottom, class_="axis")]
    for value in ticks(plot.x_max, about=10):
        parts += _x_tick(plot, plot.x(value), f"{value:g} {unit}")
    return parts


def _log_axis(plot: Plot, factor: float, unit: str) -> list[str]:
    parts = [element("line", x1=plot.left, x2=plot.right, y1=plot.bottom, y2=plot.bottom, class_="axis")]
    for power in range(math.floor(plot.x_min), math.ceil(plot.x_max) + 1):
        for mantissa in (1, 2, 5):
            at = math.log10(mantissa) + power
            if plot.x_min <= at <= plot.x_max:
                parts += _x_tick(plot, plot.x(at), f"{10**at * factor:.4g} {unit}")
    return parts


def _x_tick(plot: Plot, x: float, text: str) -> list[str]:
    return [
        element("line", x1=x, x2=x, y1=plot.bottom, y2=plot.bottom + 4, class_="axis"),
        label(x, plot.bottom + 18, text, text_anchor="middle"),
    ]
