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
    report: Annotated[Path, typer.Option(help="The HTML report goes here.")] = Path("openmrc-demo.html"),
    json_file: Annotated[
        Path | None,
        typer.Option("--json", callback=writable_file, help="Also everything recorded, as JSON; - is stdout."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(callback=writable_file, help="Also the picture (.png, .svg or .pdf; needs matplotlib)."),
    ] = None,
    rate: Annotated[str, typer.Option(help="Rate of each link.")] = "40Mbit",
    seconds: Annotated[float, typer.Option(help="Length of each of the two runs.")] = 18.0,
    contrast: Annotated[bool, typer.Option(help="Run the same again with RC, the single-path fallback.")] = True,
    plain: Annotated[bool, typer.Option(help="Lines instead of a live picture.")] = False,
    seed: Annotated[int | None, typer.Option(help="Repeat a run with the seed that it printed.")] = None,
) -> None:
    """Four hosts write to each other over four planes while links and a plane fail; every byte is checked."""
    if context.invoked_subcommand is not None:
        _refuse_options_before(context)
        return
    from openmrc.live.demo import DemoOptions, run_demo
    from openmrc.live.plan import draw_seed
    from openmrc.live.view import PlainView, make_view

    if not 4 <= seconds <= 600:
        raise ConfigError("--seconds", seconds, "4 to 600")
    check_file("--report", report)
    if picture is not None:
        _check_picture(picture)
    options = DemoOptions(rate_bps=parse_rate(rate, "--rate"), seconds=seconds, seed=draw_seed(seed), contrast=contrast)
    console = Console(soft_wrap=not sys.stdout.isatty())
    with PlainView(console) if plain else make_view(console) as view:
        result = run_demo(options, view)
    write_file("--report", report, result.html())
    if json_file is not None:
        write_file("--json", json_file, json.dumps(result.to_dict()) + "\n")
    if picture is not None:
        result.draw(picture)
    _print_verdict(console, result.verdict.sentences, result.verdict.survived)
    console.print(f"\nReport: {report.resolve().as_uri()}", soft_wrap=True, highlight=False)
    console.print(f"Seed of this run: {options.seed}", style="dim", highlight=False)
    if not result.verdict.data_correct:
        raise typer.Exit(1)


@app.command()
def train(
    place: Annotated[
        str | None, typer.Option(help="testbed (Gloo too; root) or emulated. Without: the test bed if it can be made.")
    ] = None,
    rate: Annotated[str, typer.Option(help="Rate of each link.")] = "100Mbit",
    seconds: Annotated[float, typer.Option(help="About how long a run without faults takes; there are four.")] = 20.0,
    steps: Annotated[int | None, typer.Option(help="Steps of each run, in place of --seconds.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of weights and batches.")] = 1,
    gloo: Annotated[bool, typer.Option(help="Also Gloo, over one plane, where the place carries TCP.")] = True,
    quick: Annotated[bool, typer.Option("--quick", help="A tiny model and a short run.")] = False,
    plain: Annotated[bool, typer.Option(help="Lines instead of a bar.")] = False,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", callback=writable_file, help="Write everything recorded to this file; - is stdout."),
    ] = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", callback=writable_file, help="Write a page with pictures to this file.")
    ] = None,
) -> None:
    """Four ranks train a small transformer with DDP while a plane dies, a T1 reboots and a NIC port flaps."""
    from openmrc.training.demo import PLACES, QUICK, STEPS_MAX, STEPS_MIN, TrainOptions, choose_place, run_train
    from openmrc.training.page import sentences, train_html, train_table
    from openmrc.training.view import TrainView

    if place is not None and place not in PLACES:
        raise ConfigError("--place", place, " or ".join(PLACES), hint=did_you_mean(place, list(PLACES)))
    if not 2 <= seconds <= 3600:
        raise ConfigError("--seconds", seconds, "2 to 3600")
    if steps is not None and not STEPS_MIN <= steps <= STEPS_MAX:
        raise ConfigError("--steps", steps, f"{STEPS_MIN} to {STEPS_MAX}")
    chosen, why = choose_place(place)
    options = TrainOptions(chosen, parse_rate(rate, "--rate"), seconds, steps, seed, gloo=gloo)
    if quick:
        options = replace(options, size=QUICK, seconds=min(seconds, QUICK_SECONDS))
    console = Console(width=None if sys.stdout.isatty() else _FILE_WIDTH)
    with TrainView(console, plain=plain) as view:
        if why is not None:
            view.say(f"Emulated, without Gloo, as there can be no test bed here: {why}")
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
    """Options of the demo itself say nothing about the training; better told than ignored."""
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
            "--picture", str(path), "nothing without matplotlib", hint="pip install 'openmrc[report]'"
        ) from None
    mpl.use("agg")
