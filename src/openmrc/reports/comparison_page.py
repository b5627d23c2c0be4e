"""The comparison as one HTML file without a link to anything else: a table, and the goodput of each transport."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

from openmrc.reports.comparison_chart import goodput_chart
from openmrc.reports.html_page import card, html_page
from openmrc.runs.compare.comparison import Comparison, around_texts, ending_text, megabits, seconds_text, stall_text
from openmrc.runs.compare.outcome import Outcome

__all__ = ["comparison_html"]


def comparison_html(comparison: Comparison) -> str:
    """The whole page."""
    settings = comparison.settings
    title = "The same faults, one transport after the other"
    lead = (
        f"One host sends to another for {settings['seconds']:g} s over {settings['planes']} planes of "
        f"{settings['rate_bps'] / 1e6:g} Mb/s per port, with {settings['t1s']} T1s in each plane. The switches are "
        "network namespaces of this machine; the Linux kernel forwards every packet."
    )
    top = settings["rate_bps"] * settings["planes"] / 1e9
    cards = "".join(_card(outcome, top) for outcome in comparison.outcomes)
    asked = escape(json.dumps(settings, indent=2, default=str))
    return html_page(
        title,
        lead,
        f"{_table(comparison)}{cards}"
        f"<details><summary>Settings of this comparison</summary><pre>{asked}</pre></details>",
        "Made by <b>openmrc testbed compare</b>. All of it was measured in this run.",
    )


def _table(comparison: Comparison) -> str:
    head = "<tr><th>transport</th><th class=n>goodput, Mb/s</th>"
    head += "".join(f"<th class=n>before, during, after {escape(text)}</th>" for text in comparison.settings["faults"])
    head += "<th class=n>longest stall</th><th class=n>recovered after</th>"
    head += "<th class=n>CPU s/GB, hosts</th><th class=n>CPU s/GB, machine</th><th>ending</th></tr>"
    lines = "".join(_line(outcome, comparison.settings["faults"]) for outcome in comparison.outcomes)
    return f'<section class="card"><div class="scroll"><table>{head}{lines}</table></div></section>'


def _line(outcome: Outcome, faults: Sequence[str]) -> str:
    summary = outcome.summary
    cells = [
        "" if summary is None else megabits(summary.goodput_gbps),
        *around_texts(outcome, faults),
        "" if summary is None else stall_text(summary.longest_stall_ms),
        outcome.recovery,
        seconds_text(outcome.cpu_seconds_per_gb),
        seconds_text(outcome.machine_cpu_seconds_per_gb),
    ]
    numbers = "".join(f"<td class=n>{escape(cell)}</td>" for cell in cells)
    mood = "ok" if outcome.ending == "survived" else "no"
    ending = f'<td><span class="{mood}">{escape(ending_text(outcome))}</span></td>'
    return f"<tr><td>{escape(outcome.title)}</td>{numbers}{ending}</tr>"


def _card(outcome: Outcome, top_gbps: float) -> str:
    if outcome.placed.empty:
        return ""
    chart = goodput_chart(outcome.title, outcome.placed, outcome.faults, outcome.end_s, top_gbps)
    return card(outcome.title, chart)
