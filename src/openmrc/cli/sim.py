"""`openmrc sim`: simulate scenarios packet by packet, and make reports of the results."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from openmrc.cli.output_files import check_folder, writable_file, writable_folder, write_file
from openmrc.errors import ConfigError, OpenmrcError
from openmrc.units import format_rate, format_time

if TYPE_CHECKING:
    from openmrc.sim import Result, Scenario, TransportResult
    from openmrc.sim.progress import Progress as Moment
    from openmrc.sim.progress import Watcher

app = typer.Typer(help="Simulate scenarios packet by packet, and write reports.")


@app.command()
def run(
    scenario_file: Annotated[Path, typer.Argument(metavar="SCENARIO.yaml", help="The scenario file.")],
    transport: Annotated[str | None, typer.Option(help="Simulate only this transport of the scenario.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed instead of the scenario's.")] = None,
    threads: Annotated[
        int, typer.Option(min=1, max=256, help="Threads of the simulation; they change its speed only.")
    ] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", callback=writable_folder, help="Run directory. Default: NAME.run.")
    ] = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="Write the summary to this file; - is stdout.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit code 1 if a bound under `expect:` is not met.")] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Another value of a key, such as fabric.planes=4. Repeatable."),
    ] = None,
) -> None:
    """Simulate SCENARIO.yaml, print the results, and store them in a run directory."""
    _require_polars()
    from openmrc.sim import load_scenario, run
    from openmrc.sim.store import check_free

    # A shell starts background jobs with SIGINT ignored; `kill -INT` has to end this one, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    scenario = load_scenario(scenario_file, _settings(settings or ()))
    folder = out or Path(f"{scenario.name}.run")
    check_free(folder)  # before hours of simulation
    check_folder("--out", folder)
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    command = shlex.join(["openmrc", *sys.argv[1:]])
    with _Bar(console, scenario) as watcher:
        result = run(scenario, transport=transport, seed=seed, threads=threads, progress=watcher, command=command)
    result.save(folder)
    _write_json(result, as_json)
    if as_json is None or str(as_json) != "-":
        Console(soft_wrap=True, highlight=False).print(_table(result))
        for each in result:
            for hint in each.summary["hints"]:
                print(f"hint: {each.name}: {hint}")
        for line in _wide_faults(scenario):
            print(line)
        print(f"run directory: {folder}")
    if result.interrupted:
        console.print("interrupted; the run directory has the results up to now")
        raise KeyboardInterrupt
    _check(result, check)


@app.command()
def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run directories; several are compared with each other.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", callback=writable_folder, help="Folder of the report. Default: report in the first run."
        ),
    ] = None,
) -> None:
    """Write one self-contained HTML page, and PNG pictures, about runs."""
    from openmrc.reports.simulation_page import write_report

    folder = out or runs[0] / "report"
    if runs[0].is_dir():
        check_folder("--out", folder)
    print(write_report(runs, folder))


def _require_polars() -> None:
    """Checks for polars before hours of simulation."""
    try:
        import polars as pl  # noqa: F401
    except ModuleNotFoundError:
        raise OpenmrcError("simulations need polars; install it with: pip install 'openmrc[sim]'") from None


def _settings(texts: Sequence[str]) -> dict[str, Any]:
    """Values by dotted path of `KEY=VALUE`; values are read as in the file."""
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError("--set", text, "KEY=VALUE, such as fabric.planes=4")
        try:
            found[key.strip()] = YAML(typ="safe").load(value)
        except YAMLError:
            raise ConfigError("--set", text, f"a valid YAML value; {value!r} is not valid") from None
    return found


class _Bar:
    """A progress bar on a terminal; one line per transport elsewhere."""

    def __init__(self, console: Console, scenario: Scenario) -> None:
        self._console, self._scenario = console, scenario
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TextColumn("{task.fields[simulated]}"),
            TextColumn("{task.fields[speed]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self._bar = Progress(*columns, console=console, disable=not console.is_terminal)
        self._task = self._bar.add_task(scenario.name, total=1.0, simulated="", speed="", left="")
        self._name = ""

    def __enter__(self) -> Watcher:
        self._bar.start()
        return self._show

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def _show(self, moment: Moment) -> None:
        if moment.transport != self._name:
            self._name = moment.transport
            if not self._console.is_terminal:
                where = f"{moment.index + 1} of {moment.count}"
                self._console.print(f"{self._scenario.name}: {moment.transport} ({where})", markup=False)
        left = "" if moment.left_s is None else f"about {_clock(moment.left_s)} left"
        self._bar.update(
            self._task,
            description=f"{self._scenario.name}: {moment.transport}",
            completed=moment.share,
            simulated=format_time(moment.now_ps),
            speed=f"{moment.packets_per_second / 1e6:.2f} M packets/s",
            left=left,
        )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _table(result: Result) -> Table:
    """A column per transport: few of them fit any terminal."""
    table = Table(title=f"{result.name}, seed {result.seed}", title_justify="left")
    table.add_column("")
    figures = [_figures(transport) for transport in result]
    for transport in result:
        table.add_column(transport.name, justify="right")
    for heading in figures[0]:
        table.add_row(heading, *(each[heading] for each in figures))
    return table


def _figures(transport: TransportResult) -> dict[str, str]:
    summary = transport.summary

    def shown(time_ps: int | None) -> str:
        return "–" if time_ps is None else format_time(time_ps)

    ratio, goodput = summary["slowest_over_ideal"], summary["goodput_bps"]
    lost = [f"{cause.replace('_', ' ')} {count:,}" for cause, count in summary["drops"].items() if count]
    return {
        "verdict": summary["verdict"],
        "flows received": f"{summary['flows_done']:,} of {summary['flows']:,}",
        "completion time p50": shown(summary["fct_p50_ps"]),
        "p99": shown(summary["fct_p99_ps"]),
        "p100": shown(summary["fct_p100_ps"]),
        "all received after": shown(summary["finish_ps"]),
        "ideal": shown(summary["ideal_finish_ps"]),
        "slowest / ideal": "–" if ratio is None else f"{ratio:.3f}",
        "goodput": "–" if goodput is None else format_rate(goodput),
        **_bus_bandwidth(summary["bus_bps_by_job"]),
        "retransmitted": f"{summary['retransmitted_share']:.2%}",
        "marked, trimmed": f"{summary['marks']:,}, {summary['trims']:,}",
        "packets lost": "\n".join(lost) or "none",
        "simulated": f"{summary['packets_per_second'] / 1e6:.2f} M packets/s",
    }


def _wide_faults(scenario: Scenario) -> list[str]:
    """A line for each fault that acts in all planes implicitly."""
    faults = dict.fromkeys((*scenario.fabric.faults, *scenario.faults))
    reaches = {fault: fault.target.reach(scenario.fabric.planes) for fault in faults}
    return [f"fault: {fault}: on {reach}" for fault, reach in reaches.items() if reach]


def _bus_bandwidth(by_job: Mapping[str, float | None]) -> dict[str, str]:
    """A row for collectives, with the names of the jobs if there are several."""
    if not by_job:
        return {}
    rates = {job: "–" if rate is None else format_rate(round(rate)) for job, rate in by_job.items()}
    named = len(rates) > 1
    return {"bus bandwidth": "\n".join(f"{job} {rate}" if named else rate for job, rate in rates.items())}


def _write_json(result: Result, path: Path | None) -> None:
    if path is None:
        return
    write_file("--json", path, json.dumps(result.summary, indent=1) + "\n")


def _check(result: Result, wanted: bool) -> None:
    if not wanted:
        return
    failures = result.unmet()
    for failure in failures:
        print(f"not met: {failure}", file=sys.stderr)
    if failures:
        raise typer.Exit(1)
    print(f"all {len(result.expect)} expectations are met", file=sys.stderr)
