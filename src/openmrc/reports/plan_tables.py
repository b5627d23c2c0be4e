"""Sheets as terminal tables, at most 100 columns wide."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from openmrc.plan.fabric_plan import Plan
from openmrc.reports.plan_sheets import Sheet, plan_sheets
from openmrc.units import format_rate

__all__ = ["WIDTH_MAX", "headline", "print_plan", "print_sheets"]

WIDTH_MAX = 100


def headline(plan: Plan) -> str:
    """The fabric in one sentence."""
    hosts = "" if plan.hosts == plan.nics else f" of {plan.hosts:,} hosts"
    rate = format_rate(plan.plane_rate_bps)
    planes = f"{plan.planes} planes of {rate} each" if plan.planes > 1 else f"one plane of {rate}"
    tiers = f"{plan.tiers} tiers" + (f", {plan.pods} pods" if plan.pods > 1 else "")
    return (
        f"{plan.nics:,} NICs{hosts} with {planes}, "
        f"{plan.nics_per_t0:,} NICs per T0, {tiers}: {plan.bill.switches:,} switches"
    )


def print_plan(plan: Plan, console: Console) -> None:
    """Prints the whole plan; warnings come last, where they are noticed."""
    console.print(Text(plan.name, "bold"))
    console.print(Text(headline(plan)))
    console.print()
    print_sheets(plan_sheets(plan), console)
    for warning in plan.warnings:
        console.print(Text(f"\nwarning: {warning}", "yellow"))


def print_sheets(sheets: Iterable[Sheet], console: Console) -> None:
    """Prints one table after another, with the sentences below each."""
    with console.capture() as printed:
        for place, sheet in enumerate(sheets):
            if place:
                console.print()
            console.print(Text(sheet.title, "bold cyan"))
            console.print(Padding(_table(sheet), (0, 0, 0, 2), expand=False))
            for note in sheet.notes:
                console.print(Padding(Text(note, "dim"), (0, 0, 0, 2)))
    _write(printed.get(), console)


def _table(sheet: Sheet) -> Table:
    table = Table(header_style="bold", pad_edge=False, box=None, padding=(0, 2, 0, 0))
    for column in sheet.columns:
        table.add_column(column.name, justify="right" if column.number else "left", overflow="fold")
    table.show_header = len(sheet.columns) > 2
    for row in sheet.rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _write(text: str, console: Console) -> None:
    """Writes lines without trailing spaces, which are unwanted in files."""
    console.file.write("\n".join(line.rstrip() for line in text.split("\n")))
