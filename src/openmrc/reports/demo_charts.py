"""The pictures of the report as inline SVG that follows the reader's light or dark theme."""

from __future__ import annotations

from collections.abc import Sequence

from openmrc.charts.style import EV_COLOURS, plane_colour
from openmrc.charts.svg import Plot, element, label, path, picture, ticks
from openmrc.runs.records.byte_counter import rates_gbps
from openmrc.runs.records.ev_timeline import EvGrid
from openmrc.runs.records.run_record import EV_STATES, FaultSpan, Run

WIDTH = 1030.0
_LEFT, _RIGHT = 58.0, 14.0
_BIN_S = 0.1


def throughput_chart(runs: Sequence[Run]) -> str:
    """Goodput of all hosts together over time, one line per transport, faults shaded and named."""
    first = runs[0]
    limit = max(run.limit_gbps * run.hosts for run in runs)
    lines = {run.transport: rates_gbps(run.placed, _BIN_S, run.start_s, run.end_s) for run in runs}
    top = max([limit, *(float(rates.max()) for _, rates in lines.values())]) * 1.08
    lanes = _lanes(first.faults)
    head = 18.0 + 15.0 * (max(lanes, default=0) + 1 if lanes else 0)
    plot = Plot(_LEFT, head, WIDTH - _LEFT - _RIGHT, 270.0, 0.0, _length_s(runs), top)
    parts = [*_fault_shades(plot, first, named=lanes), *_y_grid(plot), *_x_axis(plot)]
    if limit > 0:
        y = plot.y(limit)
        parts.append(element("line", x1=plot.left, x2=plot.right, y1=y, y2=y, class_="limit"))
        parts.append(label(plot.right - 4, y - 6, f"limit of {first.planes} planes", text_anchor="end"))
    for run in reversed(runs):
        starts, rates = lines[run.transport]
        points = [
            (plot.x(time - run.start_s + _BIN_S / 2), plot.y(rate))
            for time, rate in zip(starts.tolist(), rates.tolist(), strict=True)
        ]
        parts.append(path(points, close_at=plot.bottom, class_=f"{run.transport}-area"))
        parts.append(path(points, class_=run.transport, stroke_linejoin="round"))
    return picture(WIDTH, plot.bottom + 30, parts, "Goodput over time")


def planes_chart(run: Run) -> str:
    """Arrivals on each plane over time, one strip of bars per plane."""
    strip, gap = 52.0, 14.0
    step = max(0.1, round((run.end_s - run.start_s) / 150, 2))
    rates = [rates_gbps(series, step, run.start_s, run.end_s)[1] for series in run.planes_rx]
    top = max([run.hosts * run.plane_rate_bps / 1e9, *(float(one.max(initial=0.0)) for one in rates)]) * 1.02
    parts: list[str] = []
    plot = Plot(_LEFT, 8.0, WIDTH - _LEFT - _RIGHT, strip, 0.0, run.end_s - run.start_s, top or 1.0)
    for plane, values in enumerate(rates):
        plot = Plot(plot.left, 8.0 + plane * (strip + gap), plot.width, strip, 0.0, plot.x_max, plot.y_max)
        parts += _fault_shades(plot, run, plane=plane)
        parts.append(label(plot.left - 10, plot.top + strip / 2 + 4, f"plane {plane}", text_anchor="end"))
        bar = plot.width / max(len(values), 1)
        parts += [
            element(
                "rect",
                x=plot.left + index * bar,
                y=plot.y(rate),
                width=max(bar - 1.0, 0.6),
                height=plot.bottom - plot.y(rate),
                rx=1,
                fill=plane_colour(plane),
            )
            for index, rate in enumerate(values.tolist())
            if rate > 0
        ]
        parts.append(element("line", x1=plot.left, x2=plot.right, y1=plot.bottom, y2=plot.bottom, class_="axis"))
    parts += _x_axis(plot)
    return picture(WIDTH, plot.bottom + 30, parts, "Received bytes per plane over time")


def ev_chart(run: Run, grid: EvGrid) -> str:
    """EV states of one host over time: a row per EV, grouped by plane."""
    if not grid.evs:
        return ""
    row = max(2.0, min(7.0, 300.0 / len(grid.evs)))
    planes = sorted({plane for plane, _ in grid.evs})
    gap = 10.0
    bar = (WIDTH - _LEFT - _RIGHT) / grid.cells.shape[1]
    parts: list[str] = []
    top = 8.0
    plot = Plot(_LEFT, top, WIDTH - _LEFT - _RIGHT, 0.0, 0.0, run.end_s - run.start_s, 1.0)
    for plane in planes:
        rows = [index for index, (owner, _) in enumerate(grid.evs) if owner == plane]
        height = row * len(rows)
        parts.append(element("rect", x=_LEFT, y=top, width=plot.width, height=height, fill="var(--ev-good)"))
        parts.append(label(_LEFT - 10, top + height / 2 + 4, f"plane {plane}", text_anchor="end"))
        for offset, index in enumerate(rows):
            parts += [
                element(
                    "rect",
                    x=_LEFT + first * bar,
                    y=top + offset * row,
                    width=max((after - first) * bar, 1.0),
                    height=max(row - 0.5, 1.0),
                    fill=EV_COLOURS[EV_STATES[state]],
                )
                for first, after, state in grid.runs(index)
                if state
            ]
        top += height + gap
        plot = Plot(_LEFT, 8.0, plot.width, top - gap - 8.0, 0.0, plot.x_max, 1.0)
    parts += [*_fault_edges(plot, run), *_x_axis(plot)]
    return picture(WIDTH, plot.bottom + 30, parts, f"EV states of {grid.host} over time")


def _length_s(runs: Sequence[Run]) -> float:
    return max(run.end_s - run.start_s for run in runs)


def _lanes(faults: Sequence[FaultSpan]) -> list[int]:
    """A row for each fault's name, so that names of faults close in time do not overlap."""
    lanes: list[int] = []
    for index, fault in enumerate(faults):
        taken = {
            lanes[before] for before in range(index) if abs(faults[before].start_s - fault.start_s) < _name_s(faults)
        }
        lanes.append(min(lane for lane in range(len(faults) + 1) if lane not in taken))
    return lanes


def _name_s(faults: Sequence[FaultSpan]) -> float:
    longest = max(len(fault.text) for fault in faults)
    return longest * 6.2 / (WIDTH - _LEFT) * max(fault.end_s for fault in faults) * 1.25


def _fault_shades(plot: Plot, run: Run, *, named: Sequence[int] | None = None, plane: int | None = None) -> list[str]:
    parts: list[str] = []
    for index, fault in enumerate(run.faults):
        if plane is not None and fault.plane not in (None, plane):
            continue
        left, right = plot.x(fault.start_s - run.start_s), plot.x(fault.end_s - run.start_s)
        top = plot.top
        if named is not None and fault.text not in {earlier.text for earlier in run.faults[:index]}:
            top = 14.0 + 15.0 * named[index]
            parts.append(label(left + 4, top - 1, fault.text, class_="fault-name"))
            parts.append(element("line", x1=left, x2=left, y1=top - 10, y2=plot.top, class_="fault-edge"))
        parts.append(
            element("rect", x=left, y=plot.top, width=max(right - left, 1.0), height=plot.height, class_="fault")
        )
    return parts


def _fault_edges(plot: Plot, run: Run) -> list[str]:
    edges = sorted({edge for fault in run.faults for edge in (fault.start_s, fault.end_s)})
    return [
        element("line", x1=plot.x(at), x2=plot.x(at), y1=plot.top, y2=plot.bottom, class_="fault-edge")
        for at in (edge - run.start_s for edge in edges)
    ]


def _y_grid(plot: Plot) -> list[str]:
    parts: list[str] = []
    for value in ticks(plot.y_max):
        y = plot.y(value)
        parts.append(element("line", x1=plot.left, x2=plot.right, y1=y, y2=y, class_="grid"))
        parts.append(label(plot.left - 10, y + 4, f"{value:g}", text_anchor="end"))
    parts.append(label(plot.left - 10, plot.top - 8, "Gb/s", text_anchor="end"))
    return parts


def _x_axis(plot: Plot) -> list[str]:
    parts = [element("line", x1=plot.left, x2=plot.right, y1=plot.bottom, y2=plot.bottom, class_="axis")]
    for value in ticks(plot.x_max, about=10):
        x = plot.x(value)
        parts.append(element("line", x1=x, x2=x, y1=plot.bottom, y2=plot.bottom + 4, class_="axis"))
        parts.append(label(x, plot.bottom + 18, f"{value:g} s", text_anchor="middle"))
    return parts
