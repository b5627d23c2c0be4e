"""The result of the training demo as sentences, as a table for the terminal, and as one self-contained HTML file."""

from __future__ import annotations

import json
from html import escape

from rich.box import SIMPLE_HEAD
from rich.table import Table

from openmrc.reports.demo_charts import planes_chart
from openmrc.reports.html_page import card, html_page
from openmrc.reports.training_charts import Line, lines_chart
from openmrc.runs.records.run_record import Run
from openmrc.runs.training.training_demo import TrainResult
from openmrc.runs.training.training_record import TrainRun

__all__ = ["sentences", "train_html", "train_table"]

_COLOURS = {"mrc-whole": "var(--good)", "mrc": "var(--mrc)", "gloo-whole": "var(--soft)", "gloo": "var(--rc)"}
_SMOOTH = 5  # steps whose mean is one point of a loss curve
_SHADED = "Shaded: the faults of the second run. Gloo meets them after as many steps, so at other times."
_LOGARITHMIC = "The axis is logarithmic, as a step that meets a fault takes up to thousands of times as long."

EXPOSED = (
    "Exposed communication of a step: from the moment at which the last rank has computed its last own gradient to the "
    "moment at which every rank has the gradients of all. In this interval no rank computes; all wait for the network."
)
OVERLAP = (
    "Hidden: the share of the time that adding up all gradients takes with nothing else to do, before anything breaks, "
    "which is not exposed."
)


def sentences(result: TrainResult) -> list[str]:
    """The course of the run, for people; the first sentence compares MRC's weights with those of the run without
    faults.
    """
    whole, broken, gloo = result.whole, result.broken, result.gloo
    if result.same_weights:
        first = (
            f"After {len(broken.steps)} steps with a dead plane, a T1 that reboots and a NIC port that flaps, MRC's "
            "weights are identical bit for bit to those of the run without faults."
        )
    elif broken.error is not None:
        first = f"MRC failed in the run with faults: {broken.error}."
    else:
        first = "MRC's weights with the faults differ from those of the run without faults."
    longer = broken.length_s - whole.length_s
    times = (
        f"MRC: {whole.length_s:.1f} s without faults, {broken.length_s:.1f} s with them ({longer:+.1f} s); the longest "
        f"time without a finished step was {_seconds(whole.longest_gap_s)} without, {_seconds(broken.longest_gap_s)} "
        "with them."
    )
    if gloo is None:
        return [first, times, f"Gloo is left out: {result.left_out}."]
    ended = "finished" if gloo.finished else f"stopped ({gloo.error})"
    calm = result.gloo_whole
    before = "" if calm is None else f"took {calm.length_s:.1f} s without faults; with them it "
    gap = "" if calm is None else f"{_seconds(calm.longest_gap_s)} without faults, "
    other = (
        f"Gloo over plane 0, which all three faults strike, {before}{ended} after {gloo.length_s:.1f} s and "
        f"{len(gloo.steps)} of {gloo.wanted} steps; its longest time without a finished step was {gap}"
        f"{_seconds(gloo.longest_gap_s)} with them."
    )
    return [first, times, other]


def train_table(result: TrainResult) -> Table:
    """One line per run, with the figures that fit 80 columns; the page has more."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number in _NARROW:
        left = number in (0, _WEIGHTS)
        table.add_column(_HEADINGS[number], justify="left" if left else "right", no_wrap=number != _WEIGHTS)
    for run in result.runs:
        cells = _cells(result, run)
        table.add_row(*(cells[number] for number in _NARROW))
    return table


_HEADINGS = (
    "run",
    "steps",
    "time",
    "step",
    "exposed",
    "hidden",
    "gap",
    "last loss",
    "final weights",
)
_WEIGHTS = len(_HEADINGS) - 1
_NARROW = (0, 1, 2, 3, 4, 6, _WEIGHTS)
_DIGITS = 8  # of a digest, for people


def _cells(result: TrainResult, run: TrainRun) -> list[str]:
    if run.digest is None:
        weights = run.error or "none"
    elif run is result.whole:
        weights = run.digest[:_DIGITS]
    elif run.backend == "mrc":
        weights = f"{run.digest[:_DIGITS]}, {'the same' if result.same_weights else 'OTHERS'}"
    else:
        weights = f"{run.digest[:_DIGITS]}, another order"
    return [
        run.title,
        f"{len(run.steps)} of {run.wanted}",
        f"{run.length_s:.1f} s",
        _milliseconds(run.step_ms),
        _milliseconds(run.exposed_ms),
        "–" if run.overlap is None else f"{run.overlap:.0%}",
        _seconds(run.longest_gap_s),
        f"{_loss(run)[-1][1]:.3f}" if run.steps else "–",
        weights,
    ]


def train_html(result: TrainResult) -> str:
    """The whole page."""
    settings = result.settings
    title = "The network breaks, the training does not" if result.survived else "openmrc demo train"
    lead = (
        f"{settings['ranks']} ranks train a small character transformer with plain DistributedDataParallel, "
        f"{settings['gradient_bytes'] / 1e6:.1f} MB of gradients in every step, over {settings['planes']} planes of "
        f"{settings['rate_bps'] / 1e6:g} Mb/s per port on {result.place}. A plane dies, a T1 reboots, a NIC port "
        "flaps. All ranks share this machine's processor."
    )
    word = '<span class="ok">Survived.</span> ' if result.survived else '<span class="no">Not as promised.</span> '
    first, *rest = sentences(result)
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in rest)
    cards = [
        card("What happened", f'<p class="verdict">{word}{escape(first)}</p><ul class="verdict">{items}</ul>'),
        card(
            "Runs",
            _table(result),
            f"Step and exposed: medians. Gap: the longest time without a finished step. {EXPOSED} {OVERLAP}",
        ),
        card("Loss", _legend(result) + _loss_chart(result), f"Nats per character. {_SHADED}"),
        card(
            "Step times",
            _legend(result) + _times_chart(result, "Step times", exposed=False),
            f"Mean over ranks. {_LOGARITHMIC} {_SHADED}",
        ),
        card(
            "Exposed communication",
            _legend(result) + _times_chart(result, "Exposed", exposed=True),
            f"{EXPOSED} {_LOGARITHMIC} {_SHADED}",
        ),
        *(_planes_card(result, run) for run in result.runs),
        card(
            "Text generated by the model",
            f"<pre>{escape(result.broken.sample)}</pre>",
            "After the run with the faults.",
        ),
    ]
    asked = escape(json.dumps(dict(settings), indent=2, default=str))
    return html_page(
        title,
        lead,
        f"{_tiles(result)}{''.join(cards)}<details><summary>Settings of this run</summary><pre>{asked}</pre></details>",
        "Made by <b>openmrc demo train</b>. All of it was measured in this run.",
    )


def _tiles(result: TrainResult) -> str:
    broken, gloo = result.broken, result.gloo
    tiles = [
        ("the same" if result.same_weights else "others", "final weights, with and without faults, bit by bit", ""),
        (
            _seconds(broken.longest_gap_s),
            "longest time without a finished step, MRC with the faults",
            f"Gloo {_seconds(gloo.longest_gap_s)}" if gloo else "",
        ),
        (_milliseconds(broken.step_ms), "a step", f"Gloo {_milliseconds(gloo.step_ms)}" if gloo else ""),
        (
            _milliseconds(broken.exposed_ms),
            "exposed communication per step",
            f"Gloo {_milliseconds(gloo.exposed_ms)}" if gloo else "",
        ),
    ]
    inner = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(what)} <em>{escape(other)}</em></span></div>'
        for value, what, other in tiles
    )
    return f'<div class="tiles">{inner}</div>'


def _table(result: TrainResult) -> str:
    head = "".join(
        f"<th{'' if at in (0, _WEIGHTS) else ' class=n'}>{escape(text)}</th>" for at, text in enumerate(_HEADINGS)
    )
    lines = ""
    for run in result.runs:
        first, *numbers, weights = _cells(result, run)
        mood = "no" if not run.finished or weights.endswith("OTHERS") else "ok"
        cells = "".join(f"<td class=n>{escape(cell)}</td>" for cell in numbers)
        lines += f'<tr><td>{escape(first)}</td>{cells}<td><span class="{mood}">{escape(weights)}</span></td></tr>'
    return f'<div class="scroll"><table><tr>{head}</tr>{lines}</table></div>'


def _legend(result: TrainResult) -> str:
    inner = "".join(
        f'<span><i style="background:{_COLOURS[run.name]}"></i>{escape(run.title)}</span>' for run in result.runs
    )
    return f'<div class="legend">{inner}</div>'


def _loss(run: TrainRun) -> list[tuple[float, float]]:
    """Means of a few steps each, at the end of the last of them."""
    points = []
    for last in range(len(run.steps)):
        part = run.steps[max(0, last - _SMOOTH + 1) : last + 1]
        points.append((run.steps[last].end_s, sum(step.loss for step in part) / len(part)))
    return points


def _loss_chart(result: TrainResult) -> str:
    lines = [Line(_loss(run), _COLOURS[run.name]) for run in result.runs]
    return lines_chart("Loss over time", "nats", lines, result.broken.faults)


def _times_chart(result: TrainResult, title: str, *, exposed: bool) -> str:
    lines = []
    for run in result.runs:
        points: list[tuple[float, float]] = []
        for step in run.steps:  # each as long as its duration, so that a gap is visible
            value = 1e3 * (step.exposed_s if exposed else step.step_s)
            points += [(step.end_s - step.step_s, value), (step.end_s, value)]
        lines.append(Line(points, _COLOURS[run.name]))
    return lines_chart(title, "ms", lines, result.broken.faults, logarithmic=True)


def _planes_card(result: TrainResult, run: TrainRun) -> str:
    settings = result.settings
    shown = Run(
        transport="mrc",
        planes=settings["planes"],
        hosts=settings["ranks"],
        plane_rate_bps=float(settings["rate_bps"]),
        limit_gbps=0.0,
        start_s=0.0,
        end_s=max(run.length_s, 0.1),
        flows=(),
        planes_rx=run.planes_rx,
        faults=run.faults,
    )
    note = f"All ranks together: {result.counted}. The height of a strip is the rate of the plane."
    return card(f"Per plane: {run.title}", planes_chart(shown), note)


def _milliseconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f} ms"


def _seconds(value: float) -> str:
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.1f} s"
