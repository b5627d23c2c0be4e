"""The report of simulations: one HTML file without a link to anything else, and its pictures as PNG files."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from openmrc.charts.raster import palette_image
from openmrc.errors import OpenmrcError
from openmrc.reports.html_page import card, html_page
from openmrc.reports.simulation_charts import (
    bars_chart,
    cdf_chart,
    heat_chart,
    legend,
    lines_chart,
    raster_chart,
    stacked_chart,
    strips_chart,
    time_unit,
)
from openmrc.reports.simulation_figures import (
    STATE_COLOURS,
    STATES,
    Headline,
    drops_over_time,
    ev_counts,
    ev_rows,
    goodput_curve,
    headline,
    host_curves,
    plane_rates,
    queue_blocks,
)
from openmrc.reports.simulation_record import RunRecord, TransportRecord, load_runs

__all__ = ["report_html", "write_report"]

_EV_LEGEND = [(STATES[at], "var(--ev-good)" if STATES[at] == "GOOD" else STATE_COLOURS[at]) for at in (1, 3, 2, 4, 0)]
_NOTES = {
    "headline": "Completion times of flows, from their start until their last byte was received. Slowest / ideal: time "
    "until everything was received, over the least that this scenario allows.",
    "fct": "Share of flows whose last byte had been received after a time, counted from the flow's start.",
    "goodput": "Payload received by all hosts together, each byte counted once. Shaded: a fault is active.",
    "planes": "What all hosts received on each plane, headers included. Shaded: a fault on this plane or on all.",
    "queues": "The longest queue of each switch within a sample; a row is a switch, in the order of planes.",
    "evs": "Above: how many EVs of all connections are not GOOD. Below: the EVs of the connection to which most "
    "happened, one row each; a coloured bin shows the worst state in it.",
    "drops": "Lost packets by cause.",
}


def write_report(runs: Sequence[Path], out: Path) -> Path:
    """Writes `report.html` and PNG files into the folder `out`; returns the path of the page.

    Args:
        runs: Run directories. One may hold several transports; several are compared.
        out: Folder, created if missing.

    Raises:
        ConfigError: a directory without a run.
        OpenmrcError: polars or matplotlib is not installed.
    """
    try:
        from openmrc.reports.simulation_pictures import draw_pictures

        records = load_runs(runs)
        page = report_html(records)
        out.mkdir(parents=True, exist_ok=True)
        draw_pictures(records, out)
    except ModuleNotFoundError as error:
        raise OpenmrcError(f"reports need {error.name}; install it with: pip install 'openmrc[sim]'") from None
    path = out / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def report_html(runs: Sequence[RunRecord]) -> str:
    """The whole page."""
    records = [record for run in runs for record in run.transports]
    figures = {record.label: headline(record) for record in records}
    sections = [_interrupted(runs), card("Headline", _headline_table(figures), _NOTES["headline"]), _fct(records)]
    if len(records) > 1:
        sections.append(_comparison(figures, records))
    sections.append(_goodput(runs))
    for run in runs:
        for record in run.transports:
            sections += [
                _planes(record, run),
                _hosts(record, run),
                _queues(record, run),
                _evs(record, run),
                _drops(record, run, figures[record.label]),
            ]
    sections += [_repeat(run) for run in runs]
    title = " / ".join(dict.fromkeys(run.name for run in runs))
    return html_page(
        title,
        _lead(runs),
        "".join(sections),
        "Made by <b>openmrc sim report</b> from the tables in the run directory.",
    )


def _lead(runs: Sequence[RunRecord]) -> str:
    return "; ".join(
        f"{run.path.name}: {', '.join(record.name for record in run.transports)}, seed {run.summary.get('seed')}"
        for run in runs
    )


def _interrupted(runs: Sequence[RunRecord]) -> str:
    partial = [run for run in runs if run.interrupted]
    if not partial:
        return ""
    names = ", ".join(str(run.path.name) for run in partial)
    text = f"{names} did not run to the end; this page covers the time until they ended."
    return f'<section class="card"><p class="verdict"><span class="no">Interrupted.</span> {escape(text)}</p></section>'


def _missing(title: str, why: str) -> str:
    return card(title, f'<p class="note">{escape(why)}</p>')


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    factor, unit = time_unit(seconds)
    return f"{seconds * factor:.4g} {unit}"


def _headline_table(figures: dict[str, Headline]) -> str:
    head = (
        "<tr><th>transport</th><th>verdict</th><th class=n>flows done</th><th class=n>p50</th><th class=n>p99</th>"
        "<th class=n>p100</th><th class=n>slowest / ideal</th>"
        "<th class=n>worst flow / its ideal</th><th class=n>goodput</th><th class=n>retransmitted</th>"
        "<th>losses by cause</th></tr>"
    )
    lines = []
    for name, one in figures.items():
        kind = "ok" if one.verdict == "done" else "no"
        drops = ", ".join(f"{cause} {count:,}" for cause, count in one.drops.items() if count) or "none"
        cells = [
            f"{one.flows_done:,} of {one.flows_total:,}",
            *(_time(value) for value in (one.p50_s, one.p99_s, one.p100_s)),
            *("–" if ratio is None else f"{ratio:.3f}" for ratio in (one.slowest_over_ideal, one.worst_flow_ratio)),
            "–" if one.goodput_bps is None else f"{one.goodput_bps / 1e9:,.2f} Gb/s",
            "–" if one.retransmitted_share is None else f"{one.retransmitted_share:.3%}",
        ]
        numbers = "".join(f"<td class=n>{cell}</td>" for cell in cells)
        lines.append(
            f'<tr><td>{escape(name)}</td><td><span class="{kind}">{escape(one.verdict)}</span></td>{numbers}'
            f"<td>{escape(drops)}</td></tr>"
        )
    return f'<div class="scroll"><table>{head}{"".join(lines)}</table></div>'


def _fct(records: Sequence[TransportRecord]) -> str:
    curves = [(record.label, record.colour, times) for record in records if len(times := record.fct_s())]
    if not curves:
        return _missing("Flow completion times", "No flow was received in full.")
    return card("Flow completion times", cdf_chart(curves, "Distribution of flow completion times"), _NOTES["fct"])


def _comparison(figures: dict[str, Headline], records: Sequence[TransportRecord]) -> str:
    done = [record for record in records if figures[record.label].p100_s is not None]
    if len(done) < 2:
        return _missing("Comparison", "Fewer than two transports finished a flow.")
    times = {record.label: _percentiles(figures[record.label]) for record in done}
    factor, unit = time_unit(max(max(values) for values in times.values()))
    bars = {record.label: (record.colour, [value * factor for value in times[record.label]]) for record in done}
    first = times[done[0].label]
    lines = "".join(
        f"<tr><td>{escape(name)}</td>"
        + "".join(f"<td class=n>{value / base:.3f}</td>" for value, base in zip(values, first, strict=True))
        + "</tr>"
        for name, values in times.items()
    )
    head = f"<tr><th>times that of {escape(done[0].label)}</th>" + "".join(
        f"<th class=n>{mark}</th>" for mark in ("p50", "p99", "p100")
    )
    chart = bars_chart(("p50", "p99", "p100"), bars, unit, "Completion times by transport")
    colours = legend([(record.colour, record.label) for record in done])
    return card("Comparison", f'{colours}{chart}<div class="scroll"><table>{head}</tr>{lines}</table></div>')


def _percentiles(one: Headline) -> list[float]:
    return [value for value in (one.p50_s, one.p99_s, one.p100_s) if value is not None]


def _goodput(runs: Sequence[RunRecord]) -> str:
    records = [record for run in runs for record in run.transports]
    curves = [curve for record in records if (curve := goodput_curve(record)) is not None]
    if not curves:
        return _missing("Goodput over time", "Not recorded.")
    bands = runs[0].faults if all(run.faults == runs[0].faults for run in runs) else ()
    colours = legend([(curve.colour, curve.name) for curve in curves])
    return card(
        "Goodput over time", colours + lines_chart(curves, bands, "b/s", "Goodput over time"), _NOTES["goodput"]
    )


def _planes(record: TransportRecord, run: RunRecord) -> str:
    title = f"Throughput per plane, {record.label}"
    found = plane_rates(record)
    if found is None:
        return _missing(title, "Not recorded.")
    times, rows = found
    top = max(float(row.max()) for row in rows)
    names = [f"plane {plane}" for plane in range(len(rows))]
    note = f"{_NOTES['planes']} The height of a strip is {top / 1e9:,.4g} Gb/s."
    return card(title, strips_chart(names, times, rows, top, run.faults, title), note)


def _hosts(record: TransportRecord, run: RunRecord) -> str:
    curves = host_curves(record)
    if not curves:
        return ""
    title = f"Goodput of watched hosts, {record.label}"
    colours = legend([(curve.colour, curve.name) for curve in curves])
    return card(title, colours + lines_chart(curves, run.faults, "b/s", title))


def _queues(record: TransportRecord, run: RunRecord) -> str:
    title = f"Queues, {record.label}"
    found = queue_blocks(record)
    if found is None:
        return _missing(title, "Not recorded.")
    times, blocks = found
    return card(title, heat_chart(blocks, float(times[-1]), "B", run.faults, title), _NOTES["queues"])


def _evs(record: TransportRecord, run: RunRecord) -> str:
    counts, rows = ev_counts(record), ev_rows(record)
    if counts is None or rows is None:
        return ""
    times, layers = counts
    title = f"EV states, {record.label}"
    evs = record.summary.get("evs")
    most = {layer.name: f": at most {int(layer.y.max()):,} at a time" for layer in layers}
    most |= {"GOOD": f": the others of {evs:,}"} if evs else {}
    colours = legend([(colour, name + most.get(name, "")) for name, colour in _EV_LEGEND])
    chart = stacked_chart(times, layers, run.faults, "EVs", f"{title}: counts") if layers else ""
    image = palette_image(rows.cells, ["" if name == "GOOD" else STATE_COLOURS[at] for at, name in enumerate(STATES)])
    rows_chart = raster_chart(rows.names, image, record.end_s, run.faults, f"{title}: {rows.title}")
    return card(title, f'{colours}{chart}<p class="note">{escape(rows.title)}</p>{rows_chart}', _NOTES["evs"])


def _drops(record: TransportRecord, run: RunRecord, figures: Headline) -> str:
    title = f"Losses by cause, {record.label}"
    found = drops_over_time(record)
    if found is None:
        return _missing(title, "No packet was lost." if not any(figures.drops.values()) else "Not recorded over time.")
    starts, layers = found
    totals = [(layer.colour, f"{layer.name}: {int(layer.y.sum()):,} packets") for layer in layers]
    chart = stacked_chart(np.asarray(starts), layers, run.faults, "packets", title)
    return card(title, legend(totals) + chart, _NOTES["drops"])


def _repeat(run: RunRecord) -> str:
    rows: list[tuple[str, Any]] = [
        ("run directory", run.path.name),
        ("seed", run.summary.get("seed")),
        ("commit", run.summary.get("commit")),
        ("scenario hash", run.summary.get("scenario_hash")),
        ("the same run again", run.command),
    ]
    lines = "".join(
        f"<tr><th>{escape(name)}</th><td><code>{escape(str(value))}</code></td></tr>" for name, value in rows
    )
    return card(
        f"How to repeat {run.name}",
        f'<div class="scroll"><table>{lines}</table></div>'
        f"<details><summary>Effective settings</summary><pre>{escape(run.settings)}</pre></details>",
    )
