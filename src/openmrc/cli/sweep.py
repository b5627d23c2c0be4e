"""`openmrc sweep`: one scenario for many parameter values and seeds, into one table."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from openmrc.cli.output_files import check_folder, writable_folder
from openmrc.errors import OpenmrcError

if TYPE_CHECKING:
    import polars as pl

    from openmrc.sim.sweep import Sweep, SweepProgress

app = typer.Typer(help="Run one scenario for many parameter values and seeds, with one table of results.")


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(metavar="SWEEP.yaml", help="Scenario, parameters and seeds.")],
    workers: Annotated[
        int | None,
        typer.Option("--workers", "-w", min=1, help="Concurrent simulations. Default: number of processors."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", callback=writable_folder, help="Folder of the results. Default: NAME.sweep."),
    ] = None,
    ray: Annotated[bool, typer.Option("--ray", help="Run on a Ray cluster (extra `ray`).")] = False,
) -> None:
    """Runs the missing simulations of a sweep, and writes the table of all runs."""
    if find_spec("polars") is None:
        raise OpenmrcError("sweeps need polars; install it with: pip install 'openmrc[sim]'")
    from openmrc.sim.sweep import load_sweep

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    wanted = load_sweep(file, out)
    check_folder("--out", wanted.folder.path)
    try:
        frame = _with_progress(wanted, console, workers, ray=ray)
    except KeyboardInterrupt:
        console.print(f"interrupted; the same command continues. Finished runs: {wanted.folder.table}")
        raise
    _say_commits(frame, console)
    pictures = _draw(wanted, frame, console)
    failed = frame.filter(frame["error"] != "")
    for row in failed.iter_rows(named=True):
        point = ", ".join(f"{path}={row[path]}" for path in wanted.runs[0].parameters)
        console.print(f"failed: {point}, seed {row['seed']}, {row['transport']}: {row['error']}", markup=False)
    print("\n".join(map(str, [wanted.folder.table, *pictures])))
    if failed.height:
        raise typer.Exit(1)


def _with_progress(sweep: Sweep, console: Console, workers: int | None, *, ray: bool) -> pl.DataFrame:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[failed]}", style="red"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(sweep.name, total=None, failed="")

        def show(state: SweepProgress) -> None:
            if state.done == state.kept and state.kept:
                bar.console.print(f"{state.kept} of {state.total} runs were finished before", markup=False)
            failed = f"{state.failed} failed" if state.failed else ""
            # The remaining time is estimated from the runs of this call alone.
            bar.update(task, total=state.total - state.kept, completed=state.done - state.kept, failed=failed)

        return sweep.run(workers, ray=ray, progress=show)


def _say_commits(frame: pl.DataFrame, console: Console) -> None:
    commits = sorted(set(frame["commit"].drop_nulls())) if "commit" in frame.columns else []
    if len(commits) > 1:
        text = f"runs of several commits are in one table ({', '.join(commits)}); an empty --out repeats all of them"
        console.print(text, style="yellow", markup=False)


def _draw(sweep: Sweep, frame: pl.DataFrame, console: Console) -> list[Path]:
    if not sweep.plots:
        return []
    from openmrc.reports.sweep_plots import draw_sweep

    try:
        return [
            draw_sweep(frame, plot.x, plot.y, plot.lines, sweep.folder.path / f"plot-{index}.png")
            for index, plot in enumerate(sweep.plots, 1)
        ]
    except ModuleNotFoundError:
        console.print("pictures need matplotlib: pip install 'openmrc[sim]'", style="yellow", markup=False)
        return []
