"""Values of a run over time as inline SVG: one line per run, the faults shaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from openmrc.charts.svg import Plot, element, label, path, picture, ticks
from openmrc.runs.records.run_record import FaultSpan

__all__ = ["Line", "lines_chart"]

_WIDTH, _HEIGHT = 1030.0, 230.0
_LEFT, _RIGHT = 58.0, 14.0
_NAME_HEIGHT = 15.0


@dataclass(frozen=True, slots=True)
class Line:
    """Points (seconds, value) and a CSS colour."""

    points: Sequence[tuple[float, float]]
    colour: str


def lines_chart(
    title: str, unit: str, lines: Sequence[Line], faults: Sequence[FaultSpan], *, logarithmic: bool = False
) -> str:
    """The chart. Its axis holds every value: from 0 on, or logarithmic from the lowest value above 0."""
    values = [value for line in lines for _, value in line.points]
    floor = min((value for value in values if value > 0), default=1.0) / 1.2 if logarithmic else None
    y_max = max([*values, 1e-9 if floor is None else 10 * floor])
    y_max = y_max * 1.05 if floor is None else math.log10(1.2 * y_max / floor)

    def height(value: float) -> float:
        return value if floor is None else math.log10(max(value, floor) / floor)

    x_max = max((point[0] for line in lines for point in line.points), default=1.0)
    names = list(dict.fromkeys(fault.text for fault in faults))
    plot = Plot(_LEFT, 16 + _NAME_HEIGHT * len(names), _WIDTH - _LEFT - _RIGHT, _HEIGHT, 0.0, x_max, y_max)
    parts: list[str] = []
    for fault in faults:
        left, right = plot.x(fault.start_s), plot.x(fault.end_s)
        shade = {"x": left, "y": plot.top, "width": max(right - left, 1.0), "height": plot.height}
        parts.append(element("rect", class_="fault", **shade))
    for row, name in enumerate(names):
        left = plot.x(next(fault.start_s for fault in faults if fault.text == name))
        y = 12 + _NAME_HEIGHT * row
        parts.append(label(left + 4, y, name, class_="fault-name"))
        parts.append(element("line", x1=left, x2=left, y1=y - 9, y2=plot.top, class_="fault-edge"))
    for value in ticks(y_max) if floor is None else _decades(floor, floor * 10**y_max):
        y = plot.y(height(value))
        parts.append(element("line", x1=plot.left, x2=plot.right, y1=y, y2=y, class_="grid"))
        parts.append(label(plot.left - 10, y + 4, f"{value:g}", text_anchor="end"))
    parts.append(label(plot.left - 10, plot.top - 8, unit, text_anchor="end"))
    parts += [
        label(plot.x(value), plot.bottom + 18, f"{value:g} s", text_anchor="middle") for value in ticks(x_max, about=10)
    ]
    for line in lines:
        points = [(plot.x(at), plot.y(height(value))) for at, value in line.points]
        style = f"stroke:{line.colour};fill:none;stroke-width:1.8"
        parts.append(path(points, style=style, stroke_linejoin="round"))
    return picture(_WIDTH, plot.bottom + 30, parts, title)


def _decades(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each decade between two values."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [mantissa * 10.0**power for power in powers for mantissa in (1, 2, 5)]
    return [step for step in steps if low <= step <= high]
