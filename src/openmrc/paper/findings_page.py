"""All findings as one self-contained HTML page, or as Markdown: the table, and under it every picture."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from openmrc.charts.style import STYLE_SHEET
from openmrc.paper.finding import Finding

__all__ = ["write_page", "write_table"]

_CLASSES = {"as in the paper": "ok", "partly": "", "differs": "no"}


def write_page(
    findings: Sequence[Finding], pictures: Mapping[str, Sequence[Path]], path: Path, *, quick: bool, command: str
) -> Path:
    """Writes the page.

    Args:
        findings: The rows of the table.
        pictures: PNG files by figure; they are embedded in the page.
        path: Of the page.
        quick: True for the small versions, which the page mentions.
        command: Command that repeats the runs.
    """
    rows = "".join(_row(finding) for finding in findings)
    cards = "".join(_card(finding, pictures.get(finding.figure, ())) for finding in findings)
    agree = sum(finding.verdict == "as in the paper" for finding in findings)
    size = " These were the quick versions, smaller and shorter than those of the reference." if quick else ""
    page = f"""<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>The paper, reproduced</title>
<style>{STYLE_SHEET}</style><main><h1>The paper, reproduced</h1>
<p class="lead">{agree} of {len(findings)} experiments agree with the paper.{size} Sections below give reasons.</p>
<div class="card scroll"><table><tr><th>Figure</th><th>Experiment</th><th>Published result</th><th>Our result</th>
<th>Verdict</th></tr>{rows}</table></div>{cards}
<footer>{escape(command)}</footer></main></html>
"""
    path.write_text(page, encoding="utf-8")
    return path


def write_table(findings: Sequence[Finding], pictures: Mapping[str, Sequence[Path]], path: Path) -> Path:
    """Writes the same as Markdown beside the pictures: the table, and a section for each experiment."""
    lines = ["| figure | experiment | published result | our result | verdict |", "|---|---|---|---|---|"]
    for each in findings:
        cells = (each.figure, each.title, each.paper_saw, each.we_see, f"**{each.verdict}**")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    for each in findings:
        lines += ["", f"## {each.figure}: {each.title}", "", f"{each.setting[:1].upper()}{each.setting[1:]}."]
        if each.why:
            lines += ["", f"Reason for the difference: {each.why}."]
        for picture in pictures.get(each.figure, ()):
            lines += ["", f"![{each.title}]({picture.name})"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _row(finding: Finding) -> str:
    cells = (finding.figure, finding.title, finding.paper_saw, finding.we_see)
    verdict = f'<span class="{_CLASSES[finding.verdict]}">{escape(finding.verdict)}</span>'
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}<td>{verdict}</td></tr>"


def _card(finding: Finding, pictures: Sequence[Path]) -> str:
    images = "".join(
        f'<img alt="{escape(finding.title)}" style="max-width:100%" src="data:image/png;base64,'
        f'{base64.b64encode(path.read_bytes()).decode()}">'
        for path in pictures
    )
    why = f'<p class="note">Reason for the difference: {escape(finding.why)}</p>' if finding.why else ""
    return (
        f'<div class="card"><h2>{escape(finding.figure)}: {escape(finding.title)}</h2>'
        f'<p class="note">{escape(finding.setting)}</p>{why}{images}</div>'
    )
