"""A profile as one HTML file without a link to anything else: bars of the stages, and the functions in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from openmrc.charts.style import PLANE_COLOURS
from openmrc.charts.svg import element, label, picture, ticks
from openmrc.reports.html_page import html_page
from openmrc.reports.stream_profile_table import SIDE_NAMES, short_name, summary_lines
from openmrc.runs.profile.stream_profile import Profile, StreamProfile

__all__ = ["profile_html"]

_WIDTH, _ROW, _LEFT, _RIGHT, _TOP = 1030.0, 30.0, 210.0, 80.0, 8.0
_TITLE = "Where processor time goes"


def profile_html(profile: Profile, settings: Mapping[str, Any]) -> str:
    """The whole page. `settings`, such as seed and machine, are printed unchanged at the end."""
    top = max((_seconds_per_gb(one, line.key) for one in profile.streams for line in one.account.lines), default=0.0)
    source, *numbers = summary_lines(profile)
    facts = "".join(f"<li>{escape(line)}</li>" for line in numbers)
    cards = "".join(_card(one, top) for one in profile.streams)
    asked = escape(json.dumps(dict(settings), indent=2, default=str))
    return html_page(
        _TITLE,
        f"One process of this machine writes to another as fast as it can. {source[0].upper() + source[1:]}.",
        f'<section class="card"><ul class="verdict">{facts}</ul></section>{cards}'
        f"<details><summary>Settings</summary><pre>{asked}</pre></details>",
        "Made by <b>openmrc bench profile</b>. All of it was measured in this run.",
    )


def _card(stream: StreamProfile, top: float) -> str:
    ends = stream.account.ends
    legend = "".join(f'<span><i style="background:{_colour(index)}"></i>{end}</span>' for index, end in enumerate(ends))
    return (
        f'<section class="card"><h2>{stream.transport.upper()}</h2>'
        '<p class="note">Processor seconds for each gigabyte of payload, by stage and by end.</p>'
        f'<div class="legend">{legend}</div>{_chart(stream, top)}</section>'
        f'<section class="card"><h2>{stream.transport.upper()}: functions</h2>'
        '<p class="note">A sample belongs to the stage of its innermost function that a stage claims. '
        f'Shares are of the stage.</p><div class="scroll">{_functions(stream)}</div></section>'
    )


def _chart(stream: StreamProfile, top: float) -> str:
    lines = stream.account.lines
    plot_width = _WIDTH - _LEFT - _RIGHT
    bottom = _TOP + _ROW * len(lines)
    scale = plot_width / top if top else 0.0
    parts = []
    for value in ticks(top) if top else []:
        x = _LEFT + value * scale
        parts.append(element("line", x1=x, x2=x, y1=_TOP, y2=bottom, class_="grid"))
        parts.append(label(x, bottom + 18, f"{value:g} s/GB" if value else "0", text_anchor="middle"))
    for number, line in enumerate(lines):
        y = _TOP + _ROW * number
        parts.append(label(_LEFT - 10, y + _ROW / 2 + 4, f"{SIDE_NAMES[line.side]}: {line.title}", text_anchor="end"))
        x = _LEFT
        for index, end in enumerate(stream.account.ends):
            seconds = stream.per_gb(line.cpu_s.get(end, 0.0)) or 0.0
            width = seconds * scale
            if not width:
                continue
            tip = f"<title>{escape(end)}: {seconds:.3f} s/GB</title>"
            box = {"x": x, "y": y + 5, "width": width, "height": _ROW - 10}
            parts.append(element("rect", tip, fill=_colour(index), **box))
            x += width
        share = f"{_seconds_per_gb(stream, line.key):.3f}, {stream.account.share(line):.0%}"
        parts.append(label(x + 6, y + _ROW / 2 + 4, share))
    return picture(_WIDTH, bottom + 30, parts, f"{stream.transport.upper()}: processor seconds per gigabyte by stage")


def _functions(stream: StreamProfile) -> str:
    head = "<tr><th>stage</th><th>what runs there</th><th class=n>s/GB</th><th>most of it in</th></tr>"
    rows = "".join(
        f"<tr><td>{SIDE_NAMES[line.side]}: {escape(line.title)}</td><td>{escape(line.about)}</td>"
        f"<td class=n>{_seconds_per_gb(stream, line.key):.3f}</td>"
        f"<td>{escape(', '.join(f'{short_name(name)} {share:.0%}' for name, share in line.functions))}</td></tr>"
        for line in stream.account.lines
    )
    return f"<table>{head}{rows}</table>"


def _seconds_per_gb(stream: StreamProfile, key: str) -> float:
    return next(stream.per_gb(line.total_cpu_s) or 0.0 for line in stream.account.lines if line.key == key)


def _colour(index: int) -> str:
    return PLANE_COLOURS[index % len(PLANE_COLOURS)]
