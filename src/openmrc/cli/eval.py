"""`openmrc eval`: evaluation campaigns as a workload: profile, size, plan, simulate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from openmrc.cli.output_files import writable_file, write_file
from openmrc.errors import ConfigError

if TYPE_CHECKING:
    from openmrc.reports.plan_sheets import Sheet

app = typer.Typer(help="Evaluation campaigns as a workload: profile, size, plan, simulate.")

Json = Annotated[
    Path | None, typer.Option("--json", callback=writable_file, help="Write all numbers here; - is stdout.")
]
Html = Annotated[Path | None, typer.Option("--html", callback=writable_file, help="Write one page here.")]


@app.command()
def profile(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Logs of runs, or a CSV table.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", callback=writable_file, help="Write the table here, as Parquet.")
    ] = None,
    as_html: Html = None,
    as_json: Json = None,
) -> None:
    """Time, calls and tokens of every trial in LOG..., as one table."""
    from openmrc.evals.logs import read_logs
    from openmrc.evals.trial_profile import COLUMNS
    from openmrc.reports.campaign_page import profile_page
    from openmrc.reports.campaign_sheets import profile_sheets

    found = read_logs(logs)
    if not len(found):
        raise ConfigError("LOG", ", ".join(map(str, logs)), "logs with at least one trial")
    if out is not None:
        found.write(out)
    if as_html is not None:
        write_file("--html", as_html, profile_page(found, logs[0].stem))
    record = {"trials": [{name: getattr(one, name) for name in COLUMNS} for one in found]}
    _show(profile_sheets(found), as_json, record)


@app.command()
def size(
    effect: Annotated[str, typer.Option(help="Difference of the mean scores to detect, such as 4%.")],
    baseline: Annotated[Path | None, typer.Option(help="Profile of a run of the baseline.")] = None,
    candidate: Annotated[Path | None, typer.Option(help="Profile of a run of the other system.")] = None,
    correlation: Annotated[
        float, typer.Option(min=0, max=1, help="Without --candidate: of both systems' true scores over samples.")
    ] = 0.5,
    between: Annotated[float | None, typer.Option(min=0, help="Variance of the true difference over samples.")] = None,
    within: Annotated[float | None, typer.Option(min=0, help="Variance of a trial's score, both systems' sum.")] = None,
    design_effect: Annotated[
        float | None, typer.Option(min=1, max=1000, help="Design effect of clusters of samples.")
    ] = None,
    power: Annotated[str, typer.Option(help="Probability of seeing the effect.")] = "80%",
    level: Annotated[str, typer.Option(help="Level of the two-sided test.")] = "5%",
    samples: Annotated[int | None, typer.Option(min=1, help="Number of available samples.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, max=64, help="Trials of every sample.")] = None,
    looks: Annotated[
        int, typer.Option(min=1, max=20, help="Number of looks after whole epochs, including the end.")
    ] = 1,
    as_json: Json = None,
) -> None:
    """Samples and epochs for a paired comparison, its power, and the savings of looks."""
    from dataclasses import asdict

    from openmrc.evals.interim import plan_looks
    from openmrc.evals.sizing import size_comparison
    from openmrc.reports.campaign_sheets import size_sheets

    noise = _noise(baseline, candidate, correlation, between, within, design_effect)
    found = size_comparison(
        noise,
        effect=_share("--effect", effect),
        level=_share("--level", level),
        power=_share("--power", power),
        samples=samples,
        epochs=epochs,
    )
    if looks > 1 and found.epochs < 2:
        hint = "--epochs 4 spreads the trials over four epochs"
        raise ConfigError("--looks", looks, "1: looks follow whole epochs, and this plan has one", hint=hint)
    seen = plan_looks(found, looks) if looks > 1 else None
    record = {**asdict(found), "trials": found.trials, "looks": None if seen is None else asdict(seen)}
    _show(size_sheets(found, seen), as_json, record)


def _noise(
    baseline: Path | None,
    candidate: Path | None,
    correlation: float,
    between: float | None,
    within: float | None,
    design_effect: float | None,
) -> Any:
    """Variances from profiles, or as given."""
    from dataclasses import replace

    from openmrc.evals.logs import read_logs
    from openmrc.evals.sizing import Noise, measured_noise

    if baseline is None and candidate is not None:
        raise ConfigError("--candidate", str(candidate), "beside --baseline")
    if baseline is None:
        if between is None or within is None:
            allowed = "a profile, or both --between and --within"
            raise ConfigError("--baseline", "missing", allowed, hint="openmrc eval size --help")
        return Noise(between, within, design_effect or 1.0)
    if between is not None or within is not None:
        raise ConfigError("--between", between, "variances, or --baseline to estimate them from scores")
    other = None if candidate is None else read_logs([candidate])
    noise = measured_noise(read_logs([baseline]), other, correlation=correlation)
    return noise if design_effect is None else replace(noise, design_effect=design_effect)


def _share(option: str, text: str) -> float:
    from openmrc.units import parse_percent

    share = parse_percent(text, option)
    if not 0 < share < 1:
        raise ConfigError(option, text, "a percentage above 0 and below 100, such as 5%")
    return share


@app.command()
def plan(
    profiles: Annotated[list[Path], typer.Argument(metavar="PROFILE...", help="Earlier runs: profiles or logs.")],
    cluster: Annotated[Path, typer.Option(help="Cluster file: GPUs, fabric, models, service curves.")],
    epochs: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Trials of every sample. Without: as before.")
    ] = None,
    slots: Annotated[int | None, typer.Option(min=1, max=100_000, help="Trials at a time. Without: the best.")] = None,
    tool_share: Annotated[
        str, typer.Option(help="Share of a trial that tools take, where logs do not separate it.")
    ] = "0%",
    order: Annotated[
        Path | None, typer.Option(callback=writable_file, help="Write the order of the trials here, for Inspect.")
    ] = None,
    as_html: Html = None,
    as_json: Json = None,
) -> None:
    """Placement of agent and judge, order of trials, and the transfers of a campaign."""
    from openmrc.evals.campaign_plan import make_plan
    from openmrc.evals.cluster import load_cluster
    from openmrc.evals.logs import read_logs
    from openmrc.evals.order_file import order_text
    from openmrc.evals.plan_record import plan_record
    from openmrc.reports.campaign_page import plan_page
    from openmrc.reports.campaign_sheets import plan_sheets
    from openmrc.units import parse_percent

    share = parse_percent(tool_share, "--tool-share")
    found = make_plan(read_logs(profiles), load_cluster(cluster), epochs=epochs, slots=slots, tool_share=share)
    if order is not None:
        write_file("--order", order, order_text([(one.task, one.sample, one.epoch) for one in found.order]))
    if as_html is not None:
        write_file("--html", as_html, plan_page(found))
    _show(plan_sheets(found), as_json, plan_record(found))


@app.command()
def simulate(
    plan_file: Annotated[
        Path, typer.Argument(metavar="PLAN.json", help="The file written by `openmrc eval plan --json`.")
    ],
    transport: Annotated[list[str] | None, typer.Option(help="mrc, roce or dctcp; repeatable. Without: mrc.")] = None,
    beside: Annotated[
        Path | None, typer.Option("--with", help="YAML of a training workload on the same fabric.")
    ] = None,
    fault: Annotated[list[str] | None, typer.Option(help='Such as "t0 1 t1 0 down"; repeatable.')] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 1,
    packets: Annotated[int, typer.Option(min=1000, max=10**9, help="Simulated in each phase, about.")] = 2_000_000,
    threads: Annotated[
        int, typer.Option(min=1, max=256, help="Threads of the simulation; they change its speed only.")
    ] = 1,
    as_json: Json = None,
) -> None:
    """Simulate the transfers of a plan on its fabric, with a training job if given."""
    from dataclasses import asdict

    from openmrc.evals.plan_record import read_plan
    from openmrc.evals.simulation import check_transports, conclusion, load_training, simulate_plan
    from openmrc.reports.campaign_sheets import simulation_sheets

    names = list(dict.fromkeys(transport or ["mrc"]))
    check_transports(names)
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    training = None if beside is None else load_training(beside)
    found_plan = read_plan(plan_file)
    with console.status("simulating") as status:

        def progress(words: str) -> None:
            status.update(words)
            if not console.is_terminal:
                console.print(words)

        found = simulate_plan(
            found_plan,
            names,
            training=training,
            faults=fault or (),
            seed=seed,
            packets_max=packets,
            threads=threads,
            progress=progress,
        )
    words = conclusion(found)
    campaigns = [{**asdict(one), "network_share": one.network_share} for one in found]
    record = {"plan": str(plan_file), "seed": seed, "faults": fault or [], "conclusion": words, "campaigns": campaigns}
    _show(simulation_sheets(found), as_json, record, words)


def _show(sheets: Sequence[Sheet], as_json: Path | None, record: dict[str, Any], words: str = "") -> None:
    """Print the sheets, unless numbers go to stdout, and write the numbers."""
    from openmrc.reports.plan_tables import WIDTH_MAX, print_sheets

    if as_json is None or str(as_json) != "-":
        console = Console(highlight=False)
        console.width = min(console.width, WIDTH_MAX) if console.is_terminal else WIDTH_MAX
        print_sheets(sheets, console)
        if words:
            print(f"\n{words}")
    if as_json is not None:
        write_file("--json", as_json, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
