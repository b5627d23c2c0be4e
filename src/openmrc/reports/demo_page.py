"""The report of a demo: one HTML file without a link to anything else, so that it can be mailed and kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from openmrc.charts.style import EV_COLOURS
from openmrc.reports.demo_charts import ev_chart, planes_chart, throughput_chart
from openmrc.reports.html_page import card, html_page
from openmrc.runs.demo.verdict import Verdict, amount, duration, judge, rate
from openmrc.runs.records.byte_counter import longest_stall_ms
from openmrc.runs.records.ev_timeline import ev_grid, worst_host
from openmrc.runs.records.fault_recovery import summarize_run, worst_stall_ms
from openmrc.runs.records.run_record import Run

_EV_WORDS = {
    "GOOD": "carries data",
    "SKIP": "congested, left out for a moment",
    "ASSUMED_BAD": "suspected dead, probed until it answers",
    "DENIED": "switched off by the controller",
}


def report_html(mrc: Run, rc: Run | None, settings: Mapping[str, Any]) -> str:
    """The whole page. `settings` are the options of the run (command, seed, commit ...), printed at the end."""
    verdict = judge(mrc, rc)
    runs = [mrc] if rc is None else [mrc, rc]
    sections = [
        _tiles(mrc, rc),
        card("What happened", _verdict(verdict)),
        card("Goodput over time", _legend_lines(runs) + throughput_chart(runs), _THROUGHPUT_NOTE),
        card("Per plane, MRC", planes_chart(mrc), _PLANES_NOTE),
    ]
    if rc is not None:
        sections.append(card("Per plane, RC", planes_chart(rc), _PLANES_RC_NOTE))
    sections += [_ev_card(mrc), card("Connections", _flow_table(runs)), _details(mrc, settings)]
    title = "A dead plane is not a dead job" if verdict.survived else "openmrc demo"
    return _page(title, _lead(mrc), "".join(sections))


_THROUGHPUT_NOTE = (
    "Bytes placed in the receivers' memory, all hosts together, in bins of 100 ms. Shaded: a fault is active."
)
_PLANES_NOTE = "Bytes that arrived on each plane, all hosts together; the height of a strip is the rate of the plane."
_PLANES_RC_NOTE = "The same for RC: every connection uses one plane, and waits while that plane is down."


def _page(title: str, lead: str, body: str) -> str:
    return html_page(title, lead, body, "Made by <b>openmrc demo</b>. All of it was measured in this run.")


def _lead(mrc: Run) -> str:
    speed = rate(mrc.plane_rate_bps / 1e9)
    return (
        f"{mrc.hosts} hosts, each its own process, write to each other's memory over {mrc.planes} planes of {speed} "
        "per port while links and a whole plane fail. The fabric is emulated on this machine: the same links, queues "
        "and faults that the simulator uses, between ordinary UDP sockets."
    )


def _tile(value: str, what: str, contrast: str = "") -> str:
    other = f" <em>{escape(contrast)}</em>" if contrast else ""
    return f'<div class="tile"><b>{escape(value)}</b><span>{escape(what)}{other}</span></div>'


def _tiles(mrc: Run, rc: Run | None) -> str:
    ours = summarize_run(mrc)
    theirs = summarize_run(rc) if rc else None
    checked = sum(flow.bytes_checked for flow in mrc.flows)
    return (
        '<div class="tiles">'
        + _tile(
            duration(max(worst_stall_ms(mrc), 10.0)),
            "longest pause of any transfer",
            f"RC {duration(worst_stall_ms(rc))}" if rc else "",
        )
        + _tile(
            rate(ours.goodput_during_fault_gbps),
            "goodput during faults",
            f"RC {rate(theirs.goodput_during_fault_gbps)}" if theirs else "",
        )
        + _tile(
            rate(ours.goodput_gbps), "goodput over the whole run", f"RC {rate(theirs.goodput_gbps)}" if theirs else ""
        )
        + _tile(amount(checked), "checked byte by byte, all correct" if mrc.content_ok else "checked: WRONG DATA FOUND")
        + "</div>"
    )


def _verdict(verdict: Verdict) -> str:
    word = '<span class="ok">Survived.</span> ' if verdict.survived else '<span class="no">Not as promised.</span> '
    first, *rest = verdict.sentences
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in rest)
    return f'<p class="verdict">{word}{escape(first)}</p><ul class="verdict">{items}</ul>'


def _legend(entries: list[tuple[str, str]]) -> str:
    inner = "".join(f'<span><i style="background:{colour}"></i>{escape(text)}</span>' for colour, text in entries)
    return f'<div class="legend">{inner}</div>'


def _legend_lines(runs: list[Run]) -> str:
    names = {"mrc": ("var(--mrc)", "MRC, one QP over all planes"), "rc": ("var(--rc)", "RC, the fallback on one path")}
    return _legend([names[run.transport] for run in runs])


def _ev_card(run: Run) -> str:
    host = worst_host(run)
    if host is None:
        return ""
    grid = ev_grid(run, host)
    legend = _legend(
        [
            ("var(--ev-good)" if state == "GOOD" else EV_COLOURS[state], f"{state}: {_EV_WORDS[state]}")
            for state in ("GOOD", "SKIP", "ASSUMED_BAD")
        ]
    )
    note = (
        f"Every row is one entropy value (EV) of {host}'s connection, that is one path through the fabric. "
        "Silent faults turn the paths that cross them red; probes bring them back after the repair. "
        "A port without carrier is left out at once, without suspicion."
    )
    return card("EV states, MRC", legend + ev_chart(run, grid), note)


def _flow_table(runs: list[Run]) -> str:
    head = (
        "<tr><th>transport</th><th>connection</th><th class=n>goodput</th><th class=n>longest pause</th>"
        "<th class=n>checked</th><th>content</th><th class=n>retransmitted packets</th><th>end</th></tr>"
    )
    lines = []
    for run in runs:
        for flow in run.flows:
            seconds = run.end_s - run.start_s
            goodput = (flow.placed.at(run.end_s) - flow.placed.at(run.start_s)) * 8 / seconds / 1e9
            pause = duration(max(longest_stall_ms(flow.placed, run.start_s, run.end_s), 10.0))
            right = '<span class="ok">correct</span>' if flow.content_ok else '<span class="no">WRONG</span>'
            lines.append(
                f"<tr><td>{run.transport.upper()}</td><td>{escape(flow.name)}</td><td class=n>{rate(goodput)}</td>"
                f"<td class=n>{pause}</td><td class=n>{amount(flow.bytes_checked)}</td><td>{right}</td>"
                f"<td class=n>{flow.retransmitted_packets:,}</td><td>{escape(flow.error or 'running')}</td></tr>"
            )
    return f'<div class="scroll"><table>{head}{"".join(lines)}</table></div>'


def _details(mrc: Run, settings: Mapping[str, Any]) -> str:
    events = "\n".join(f"{line.time_s - mrc.start_s:8.3f} s  {line.text}" for line in mrc.log)
    asked = json.dumps(dict(settings), indent=2, default=str)
    return (
        f"<details><summary>Events of the MRC run ({len(mrc.log)})</summary><pre>{escape(events)}</pre></details>"
        f"<details><summary>Settings of this run</summary><pre>{escape(asked)}</pre></details>"
    )
