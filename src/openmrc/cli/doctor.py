"""`openmrc doctor`: suitability of this host for a device, and recommended changes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from openmrc.cli.output_files import writable_file, write_file
from openmrc.units import format_rate

if TYPE_CHECKING:
    from openmrc.doctor import Finding, Report, Verdict

app = typer.Typer(help="Examine the capabilities of this host and recommend changes; changes nothing.")

_WIDTH = 100
_STYLES = {"ok": "green", "optional": "dim", "not known": "cyan", "could be better": "yellow", "broken": "bold red"}


@app.command()
def doctor(
    ports: Annotated[
        str | None, typer.Option("--ports", help="Interfaces or addresses, one per plane. Default: all suitable.")
    ] = None,
    peer: Annotated[
        str | None, typer.Option("--peer", help="Examine the paths to another host: its addresses, one per plane.")
    ] = None,
    as_json: Annotated[
        Path | None,
        typer.Option("--json", callback=writable_file, help="Write all findings to this file; - is stdout."),
    ] = None,
) -> None:
    """Examine interfaces, sockets, kernel and packages; exit code 1 if a finding is broken."""
    from openmrc.doctor import Verdict, examine

    report = examine(ports, peer)
    if as_json is not None:
        text = json.dumps(report.as_json(), indent=2) + "\n"
        write_file("--json", as_json, text)
    if str(as_json) != "-":
        _show(report)
    if report.verdict is Verdict.BROKEN:
        raise typer.Exit(1)


def _show(report: Report) -> None:
    terminal = Console()
    console = Console(highlight=False, width=min(terminal.width, _WIDTH) if terminal.is_terminal else _WIDTH)
    console.print(_interfaces(report))
    for group, findings in groupby(report.findings, lambda finding: finding.group):
        _heading(console, group)
        console.print(_table(findings))
    _commands(console, report)


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, "bold"))


def _interfaces(report: Report) -> Table:
    table = Table(title="Interfaces", title_justify="left", title_style="bold", box=None, pad_edge=False)
    for head in ("port", "name", "kind", "state", "MTU", "speed", "addresses"):
        table.add_column(head, justify="right" if head in ("port", "MTU") else "left", overflow="fold")
    planes = {one.name: plane for plane, one in enumerate(report.chosen.interfaces) if one is not None}
    for one in report.interfaces:
        if not (one.addresses or (one.carrier and one.up)):
            continue
        state = "down" if not one.up else "up" if one.carrier else "no carrier"
        table.add_row(
            str(planes.get(one.name, "")),
            one.name,
            one.kind,
            state,
            f"{one.mtu:,}",
            "" if one.speed_bps is None else format_rate(one.speed_bps),
            ", ".join(str(address) for address in one.addresses),
            style=None if one.name in planes else "dim",
        )
    return table


def _table(findings: Iterable[Finding]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(width=15, no_wrap=True)
    table.add_column(width=18, overflow="fold")
    table.add_column(overflow="fold")
    for one in findings:
        verdict = Text(one.verdict.value, _STYLES[one.verdict.value])
        table.add_row(verdict, Text(one.name), Text(one.sentence))
    return table


def _commands(console: Console, report: Report) -> None:
    """Recommended changes, worst finding first, each command on one whole line for copying."""
    from openmrc.doctor import Verdict

    for verdict, title in (
        (Verdict.BROKEN, "Broken: change this"),
        (Verdict.IMPROVABLE, "Could be better"),
        (Verdict.UNKNOWN, "To resolve findings that are not known"),
        (Verdict.OPTIONAL, "Optional"),
    ):
        findings = [one for one in report.findings if one.verdict is verdict and one.command is not None]
        if not findings:
            continue
        _heading(console, title)
        for command in dict.fromkeys(one.command or "" for one in findings):
            names = ", ".join(f"{one.group}: {one.name}" for one in findings if one.command == command)
            console.print(Text(f"  # {names}", "dim"), soft_wrap=True)
            console.print(Text(f"  {command}"), soft_wrap=True)
    console.print()
    console.print(_summary(report, (Verdict.BROKEN, Verdict.IMPROVABLE, Verdict.UNKNOWN)))


def _summary(report: Report, counted: Iterable[Verdict]) -> Text:
    counts = {verdict: sum(finding.verdict is verdict for finding in report.findings) for verdict in counted}
    said = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)
    checks = f"{len(report.findings)} check{'' if len(report.findings) == 1 else 's'}"
    return Text(f"{checks}: {said or 'all well'}.", _STYLES[report.verdict.value])
