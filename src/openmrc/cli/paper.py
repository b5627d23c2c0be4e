"""`openmrc paper`: the published experiments, simulated and compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from openmrc.cli.output_files import writable_file, writable_folder, write_file

if TYPE_CHECKING:
    from openmrc.paper import Finding, Outcome, PaperProgress

app = typer.Typer(help="The published experiments of the MRC paper, simulated and compared.")

_COLOURS = {"as in the paper": "green", "partly": "yellow", "differs": "red"}


@app.command()
def paper(
    figures: Annotated[
        list[str] | None, typer.Argument(metavar="[FIGURE]...", help="Figures such as 9a, 16 or D2. Default: all.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            callback=writable_folder,
            help="Folder for pictures, and a page and a table that collect them.",
        ),
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", callback=writable_file, help="File for all findings with their numbers; - is stdout."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller and shorter experiments, in about a minute.")] = False,
    workers: Annotated[
        int | None,
        typer.Option("--workers", "-w", min=1, help="Concurrent simulations. Default: number of processors."),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the experiments without running them.")] = False,
) -> None:
    """Runs the experiments and prints the paper's results, ours, a verdict, and the reasons for differences."""
    from openmrc.paper import experiments, run_experiments

    chosen = experiments(figures or [])
    if listing:
        for each in chosen:
            print(f"{each.figure:6} {each.title}")
        return
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    findings: list[Finding] = []
    pictures: dict[str, list[Path]] = {}
    with console.status("") as status:

        def show(state: PaperProgress) -> None:
            status.update(f"{state.done} of {state.total} simulations; last: figure {state.figure}, {state.run}")

        for outcome in run_experiments(chosen, quick=quick, workers=workers, progress=show):
            findings.append(outcome.finding)
            if out is not None:
                pictures[outcome.finding.figure] = _draw(outcome, out, console)
    _print_table(findings)
    if json_file is not None:
        text = json.dumps({"quick": quick, "findings": [each.as_json() for each in findings]}, indent=1)
        write_file("--json", json_file, text + "\n")
    if out is not None:
        _write_page(findings, pictures, out, quick=quick)


def _draw(outcome: Outcome, folder: Path, console: Console) -> list[Path]:
    from openmrc.paper import draw

    try:
        return [draw(plot, folder) for plot in outcome.plots]
    except ModuleNotFoundError:
        console.print("pictures need matplotlib: pip install 'openmrc[sim]'", style="yellow", markup=False)
        return []


def _print_table(findings: list[Finding]) -> None:
    table = Table(box=box.SIMPLE, show_lines=True)
    for name in ("figure", "published result", "our result", "verdict"):
        table.add_column(name, overflow="fold")
    for each in findings:
        verdict = f"[{_COLOURS[each.verdict]}]{each.verdict}[/]"
        table.add_row(each.figure, each.paper_saw, each.we_see, verdict + (f": {each.why}" if each.why else ""))
    Console(highlight=False).print(table)


def _write_page(findings: list[Finding], pictures: dict[str, list[Path]], out: Path, *, quick: bool) -> None:
    from openmrc.paper import write_page, write_table

    names = " ".join(each.figure for each in findings)
    command = f"openmrc paper {names}{' --quick' if quick else ''} --out {out}"
    print(write_table(findings, pictures, out / "table.md"))
    print(write_page(findings, pictures, out / "index.html", quick=quick, command=command))
