"""`openmrc demo`: hosts, planes and faults in your terminal; `openmrc demo train`: a model trains meanwhile."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from openmrc.cli.output_files import check_file, writable_file, write_file
from openmrc.errors import ConfigError, did_you_mean
from openmrc.units import parse_rate

QUICK_SECONDS = 3.0
_FILE_WIDTH = 120

app = typer.Typer(help="Hosts, planes and faults in your terminal: MRC against RC, with a report.")


@app.callback(invoke_without_command=True)
def demo(
    context: typer.Context,
    report: Annotated[Path, typer.Option(help="Write the HTML report to this file.")] = Path("openmrc-demo.html"),
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", callback=writable_file, help="Write all recorded data as JSON to this file; - is stdout."
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            callback=writable_file, help="Write the picture to this file (.png, .svg or .pdf; needs matplotlib)."
        ),
    ] = None,
    rate: Annotated[str, typer.Option(help="Rate of each link.")] = "40Mbit",
    seconds: Annotated[float, typer.Option(help="Length of each of the two runs.")] = 18.0,
    contrast: Annotated[bool, typer.Option(help="Repeat the run with RC, the single-path fallback.")] = True,
    plain: Annotated[bool, typer.Option(help="Print lines instead of a live view.")] = False,
    seed: Annotated[int | None, typer.Option(help="Repeat a run with the seed that it printed.")] = None,
) -> None:
    """Four hosts write to each other over four planes while links and a plane fail; every byte is checked."""
    if context.invoked_subcommand is not None:
        _refuse_options_before(context)
        return
    from openmrc.reports.demo_page import report_html
    from openmrc.runs.demo.fault_demo import DemoOptions, run_demo
    from openmrc.runs.run_plan import draw_seed
    from openmrc.runs.run_view import PlainView, make_view

    if not 4 <= seconds <= 600:
        raise ConfigError("--seconds", seconds, "4 to 600")
    check_file("--report", report)
    if picture is not None:
        _check_picture(picture)
    options = DemoOptions(rate_bps=parse_rate(rate, "--rate"), seconds=seconds, seed=draw_seed(seed), contrast=contrast)
    console = Console(soft_wrap=not sys.stdout.isatty())
    with PlainView(console) if plain else make_view(console) as view:
        result = run_demo(options, view)
    write_file("--report", report, report_html(result.mrc, result.rc, result.settings))
    if json_file is not None:
        write_file("--json", json_file, json.dumps(result.to_dict()) + "\n")
    if picture is not None:
        from openmrc.reports.demo_picture import draw_picture

        draw_picture(result.mrc, result.rc, picture)
    _print_verdict(console, result.verdict.sentences, result.verdict.survived)
    console.print(f"\nReport: {report.resolve().as_uri()}", soft_wrap=True, highlight=False)
    console.print(f"Seed of this run: {options.seed}", style="dim", highlight=False)
    if not result.verdict.data_correct:
        raise typer.Exit(1)


@app.command()
def train(
    place: Annotated[
        str | None, typer.Option(help="testbed (root; also runs Gloo) or emulated. Default: the test bed if possible.")
    ] = None,
    rate: Annotated[str, typer.Option(help="Rate of each link.")] = "100Mbit",
    seconds: Annotated[
        float, typer.Option(help="Approximate length of a run without faults; there are four runs.")
    ] = 20.0,
    steps: Annotated[int | None, typer.Option(help="Steps of each run, instead of --seconds.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights and batches.")] = 1,
    gloo: Annotated[bool, typer.Option(help="Also run Gloo over one plane, in environments that carry TCP.")] = True,
    quick: Annotated[bool, typer.Option("--quick", help="Use a tiny model and a short run.")] = False,
    plain: Annotated[bool, typer.Option(help="Print lines instead of a progress bar.")] = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", callback=writable_file, help="Write all recorded data to this file; - is stdout."),
    ] = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", callback=writable_file, help="Write a page with pictures to this file.")
    ] = None,
) -> None:
    """Four ranks train a small transformer with DDP while a plane dies, a T1 reboots and a NIC port flaps."""
    from openmrc.reports.training_page import sentences, train_html, train_table
    from openmrc.runs.training.environments import ENVIRONMENTS
    from openmrc.runs.training.progress_view import TrainView
    from openmrc.runs.training.training_demo import (
        QUICK,
        STEPS_MAX,
        STEPS_MIN,
        TrainOptions,
        choose_environment,
        run_train,
    )

    if place is not None and place not in ENVIRONMENTS:
        raise ConfigError("--place", place, " or ".join(ENVIRONMENTS), hint=did_you_mean(place, list(ENVIRONMENTS)))
    if not 2 <= seconds <= 3600:
        raise ConfigError("--seconds", seconds, "2 to 3600")
    if steps is not None and not STEPS_MIN <= steps <= STEPS_MAX:
        raise ConfigError("--steps", steps, f"{STEPS_MIN} to {STEPS_MAX}")
    chosen, why = choose_environment(place)
    options = TrainOptions(chosen, parse_rate(rate, "--rate"), seconds, steps, seed, gloo=gloo)
    if quick:
        options = replace(options, size=QUICK, seconds=min(seconds, QUICK_SECONDS))
    console = Console(width=None if sys.stdout.isatty() else _FILE_WIDTH)
    with TrainView(console, plain=plain) as view:
        if why is not None:
            view.say(f"Emulated, without Gloo, because a test bed is not possible here: {why}")
        result = run_train(options, view)
    if json_file is not None:
        write_file("--json", json_file, json.dumps(result.to_dict()) + "\n")
    if html_file is not None:
        write_file("--html", html_file, train_html(result))
    console.print()
    console.print(train_table(result))
    _print_verdict(console, tuple(sentences(result)), result.survived)
    if html_file is not None:
        console.print(f"\nPage: {html_file.resolve().as_uri()}", soft_wrap=True, highlight=False)
    if not result.survived:
        raise typer.Exit(1)


def _refuse_options_before(context: typer.Context) -> None:
    """Refuses options of the demo itself, which have no meaning for the training."""
    for name in context.params:
        if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE":
            option = next(one for one in context.command.params if one.name == name).opts[0]
            raise ConfigError(option, context.params[name], "options of `openmrc demo train` after the word `train`")


def _print_verdict(console: Console, sentences: tuple[str, ...], survived: bool) -> None:
    word = Text("Survived. ", "bold green") if survived else Text("Not as promised. ", "bold red")
    console.print(Text.assemble("\n", word, sentences[0]))
    for sentence in sentences[1:]:
        console.print(Text.assemble(("  • ", "dim"), sentence))


def _check_picture(path: Path) -> None:
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise ConfigError("--picture", str(path), "a file that ends with .png, .svg or .pdf")
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        raise ConfigError(
            "--picture", str(path), "no picture without matplotlib", hint="pip install 'openmrc[report]'"
        ) from None
    mpl.use("agg")
