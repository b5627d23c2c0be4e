"""`openmrc demo`: hosts, planes and faults in your terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from openmrc.errors import ConfigError
from openmrc.units import parse_rate

app = typer.Typer(help="Hosts, planes and faults in your terminal: MRC against RC, with a report.")


@app.command()
def demo(
    report: Annotated[Path, typer.Option(help="The HTML report goes here.")] = Path("openmrc-demo.html"),
    json_file: Annotated[Path | None, typer.Option("--json", help="Also everything recorded, as JSON.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Also the picture (.png, .svg or .pdf; needs matplotlib).")
    ] = None,
    rate: Annotated[str, typer.Option(help="Rate of each link.")] = "40Mbit",
    seconds: Annotated[float, typer.Option(help="Length of each of the two runs.")] = 18.0,
    contrast: Annotated[bool, typer.Option(help="Run the same again with RC, the single-path fallback.")] = True,
    plain: Annotated[bool, typer.Option(help="Lines instead of a live picture.")] = False,
    seed: Annotated[int | None, typer.Option(help="Repeat a run with the seed that it printed.")] = None,
) -> None:
    """Four hosts write to each other over four planes while links and a plane fail; every byte is checked."""
    from openmrc.live.demo import DemoOptions, run_demo
    from openmrc.live.plan import draw_seed
    from openmrc.live.view import PlainView, make_view

    if not 4 <= seconds <= 600:
        raise ConfigError("--seconds", seconds, "4 to 600")
    for option, path in (("--report", report), ("--json", json_file), ("--picture", picture)):
        if path is not None and not path.resolve().parent.is_dir():
            raise ConfigError(option, str(path), "a file in a folder that exists")
    if picture is not None:
        _check_picture(picture)
    options = DemoOptions(rate_bps=parse_rate(rate, "--rate"), seconds=seconds, seed=draw_seed(seed), contrast=contrast)
    console = Console(soft_wrap=not sys.stdout.isatty())
    with PlainView(console) if plain else make_view(console) as view:
        result = run_demo(options, view)
    report.write_text(result.html(), encoding="utf-8")
    if json_file is not None:
        json_file.write_text(json.dumps(result.to_dict()) + "\n", encoding="utf-8")
    if picture is not None:
        result.draw(picture)
    _print_verdict(console, result.verdict.sentences, result.verdict.survived)
    console.print(f"\nReport: {report.resolve().as_uri()}", soft_wrap=True, highlight=False)
    console.print(f"Seed of this run: {options.seed}", style="dim", highlight=False)
    if not result.verdict.data_correct:
        raise typer.Exit(1)


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
