"""Benchmark rows and size sweeps as terminal tables."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from openmrc.runs.bench.rows import Row


def number(value: float | None) -> str:
    """A number with about four digits; a dash for none."""
    if value is None:
        return "–"
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.{max(0, 3 - len(str(int(abs(value)))))}f}"


def rows_table(rows: Iterable[Row], title: str = "") -> Table:
    """One line per row: median, spread, target and whether it was reached."""
    table = Table(title=title or None, title_justify="left", header_style="bold", pad_edge=False)
    table.add_column("case")
    table.add_column("metric")
    for name in ("median", "min", "max"):
        table.add_column(name, justify="right")
    table.add_column("unit")
    table.add_column("target")
    table.add_column("met")
    last = None
    for one in rows:
        verdict = Text("") if one.met is None else Text("yes", "green") if one.met else Text("NO", "bold red")
        table.add_row(
            one.case if one.case != last else "",
            one.metric,
            number(one.value),
            number(one.min) if one.repeats > 1 else "",
            number(one.max) if one.repeats > 1 else "",
            one.unit,
            one.target,
            verdict,
        )
        last = one.case
    return table
