"""Goodput of one transport over time as inline SVG, with the faults shaded."""

from __future__ import annotations

from collections.abc import Sequence

from openmrc.charts.svg import Plot, element, label, path, picture, ticks
from openmrc.runs.records.byte_counter import Series, rates_gbps
from openmrc.runs.records.run_record import FaultSpan

__all__ = ["goodput_chart"]

_WIDTH, _HEIGHT = 1030.0, 130.0
_LEFT, _RIGHT, _TOP = 58.0, 14.0, 22.0
_BIN_S = 0.1


def goodput_chart(title: str, placed: Series, faults: Sequence[FaultSpan], end_s: float, top_gbps: float) -> str:
    """The chart; `top_gbps` is the height of the axis, the same for all compared charts."""
    starts, rates = rates_gbps(placed, _BIN_S, 0.0, end_s)
    top = max(top_gbps, float(rates.max())) * 1e3
    plot = Plot(_LEFT, _TOP, _WIDTH - _LEFT - _RIGHT, _HEIGHT, 0.0, end_s, top)
    parts: list[str] = []
    for fault in faults:
        left, right = plot.x(fault.start_s), plot.x(fault.end_s)
        shade = {"x": left, "y": plot.top, "width": max(right - left, 1.0), "height": plot.height}
        parts += [element("rect", class_="fault", **shade), label(left + 4, 14, fault.text, class_="fault-name")]
    for value in ticks(top):
        y = plot.y(value)
        parts.append(element("line", x1=plot.left, x2=plot.right, y1=y, y2=y, class_="grid"))
        parts.append(label(plot.left - 10, y + 4, f"{value:g}", text_anchor="end"))
    parts.append(label(plot.left - 10, 10, "Mb/s", text_anchor="end"))
    for value in ticks(end_s, about=10):
        parts.append(label(plot.x(value), plot.bottom + 18, f"{value:g} s", text_anchor="middle"))
    points = [
        (plot.x(time + _BIN_S / 2), plot.y(rate * 1e3))
        for time, rate in zip(starts.tolist(), rates.tolist(), strict=True)
    ]
    parts.append(path(points, close_at=plot.bottom, class_="mrc-area"))
    parts.append(path(points, class_="mrc", stroke_linejoin="round"))
    return picture(_WIDTH, plot.bottom + 30, parts, title)
