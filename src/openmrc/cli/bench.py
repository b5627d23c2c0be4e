"""`openmrc bench`: measured runs on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from openmrc.cli.outcomes import show_outcomes
from openmrc.cli.output_files import writable_file, write_file
from openmrc.units import parse_percent, parse_rate

app = typer.Typer(no_args_is_help=True, help="Benchmarks with both ends and the fabric on this machine.")


@app.callback()
def bench() -> None:
    """Benchmarks with both ends and the fabric on this machine."""


@app.command()
def live(
    planes: Annotated[int, typer.Option(help="Planes of the fabric, and ports of each NIC.")] = 4,
    rate: Annotated[
        str, typer.Option(help="Rate of each link, such as 250Mbit; 0: no fabric, direct over loopback.")
    ] = ("250Mbit"),
    transport: Annotated[str, typer.Option(help="mrc, or rc for the single-path fallback.")] = "mrc",
    fault: Annotated[
        list[str] | None,
        typer.Option(help="A fault, such as 'plane 2 blackhole at 2s for 3s'. Repeatable."),
    ] = None,
    loss: Annotated[str, typer.Option(help="Random loss on every plane in percent.")] = "0",
    seconds: Annotated[float, typer.Option(help="Duration of the transfer in seconds.")] = 10.0,
    t1s: Annotated[int, typer.Option(help="T1 switches per plane: paths between two hosts on one plane.")] = 4,
    payload_mtu: Annotated[int, typer.Option(help="Payload bytes per packet.")] = 4096,
    message_bytes: Annotated[int, typer.Option(help="Size of each checked message.")] = 256 * 1024,
    depth: Annotated[int, typer.Option(help="Messages in flight.")] = 12,
    burst: Annotated[int | None, typer.Option(help="Packets that share one EV; 1: a new path for each packet.")] = None,
    namespaces: Annotated[
        int | None, typer.Option(help="With --rate 0: use a veth pair of this MTU between two namespaces (root).")
    ] = None,
    tcp: Annotated[bool, typer.Option(help="With --rate 0: also run one TCP stream over the same pair.")] = False,
    udp: Annotated[bool, typer.Option(help="With --rate 0: also run a bare UDP stream over the same pair.")] = False,
    seed: Annotated[int | None, typer.Option(help="Repeat a run with the seed that it printed.")] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="Write the result to this file; - is stdout.")
    ] = None,
) -> None:
    """One host writes to another as fast as it can, every byte is checked, and the numbers are printed."""
    from openmrc.runs.bench.stream_benchmark import bench_live, result_table
    from openmrc.runs.run_plan import RunPlan, draw_seed

    plan = RunPlan(
        hosts=2,
        planes=planes,
        rate_bps=parse_rate(rate, "--rate"),
        transport=transport,  # type: ignore[arg-type]  # RunPlan checks it
        seconds=seconds,
        faults=tuple(fault or ()),
        loss=parse_percent(loss, "--loss"),
        seed=draw_seed(seed),
        t1s=t1s,
        payload_mtu=payload_mtu,
        message_bytes=message_bytes,
        depth=depth,
        burst_packets=burst,
    )
    console = Console()
    console.print(f"bench live: {transport} over {planes} planes of {rate}, {seconds:g} s, seed {plan.seed}")
    with console.status(f"running for {seconds:g} s"):
        result = bench_live(plan, namespaces_mtu=namespaces, compare_tcp=tcp, compare_udp=udp)
    if json_file is not None:
        write_file("--json", json_file, json.dumps(result, indent=2) + "\n")
    console.print(result_table(result))
    if not result["content_ok"]:
        console.print("[bold red]the receiver's memory differs from the sent data[/]")
        raise typer.Exit(1)
    if result["error"] is not None:
        console.print(f"[bold red]the transfer ended with an error: {result['error']}[/]")
        raise typer.Exit(1)


@app.command()
def profile(
    planes: Annotated[int, typer.Option(help="Ports of each NIC, over loopback.")] = 1,
    transport: Annotated[str, typer.Option(help="mrc, or rc for the single-path fallback.")] = "mrc",
    seconds: Annotated[float, typer.Option(help="Duration of the transfer in seconds.")] = 3.0,
    payload_mtu: Annotated[int, typer.Option(help="Payload bytes per packet.")] = 4096,
    message_bytes: Annotated[int, typer.Option(help="Size of each message.")] = 256 * 1024,
    depth: Annotated[int, typer.Option(help="Messages in flight.")] = 12,
    burst: Annotated[int | None, typer.Option(help="Packets that share one EV.")] = None,
    namespaces: Annotated[
        int | None, typer.Option(help="Use a veth pair of this MTU between two namespaces (root).")
    ] = None,
    tcp: Annotated[bool, typer.Option(help="Also run one TCP stream over the same pair.")] = False,
    sampler: Annotated[
        str, typer.Option(help="perf, counters, or auto: perf if it is installed and permitted.")
    ] = "auto",
    frequency: Annotated[int, typer.Option(help="Samples per second and processor.")] = 997,
    seed: Annotated[int | None, typer.Option(help="Repeat a run with the seed that it printed.")] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="Write the profile to this file; - is stdout.")
    ] = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", callback=writable_file, help="Write a page with pictures to this file.")
    ] = None,
) -> None:
    """One process writes to another without a fabric; shows which stages the processor time goes to."""
    from openmrc.reports.profile_page import profile_html
    from openmrc.reports.stream_profile_table import profile_table, summary_lines
    from openmrc.runs.profile.stream_profile import profile as run_profile
    from openmrc.runs.run_plan import RunPlan, draw_seed

    plan = RunPlan(
        planes=planes,
        rate_bps=0,
        transport=transport,  # type: ignore[arg-type]  # RunPlan checks it
        seconds=seconds,
        seed=draw_seed(seed),
        payload_mtu=payload_mtu,
        message_bytes=message_bytes,
        depth=depth,
        burst_packets=burst,
    )
    console = Console()
    console.print(f"bench profile: {transport} over {planes} planes, {seconds:g} s, seed {plan.seed}")
    with console.status(f"running for {seconds:g} s"):
        found = run_profile(plan, namespaces_mtu=namespaces, compare_tcp=tcp, sampler=sampler, frequency_hz=frequency)
    if json_file is not None:
        write_file("--json", json_file, json.dumps(found.to_dict(), indent=2) + "\n")
    if html_file is not None:
        names = ("transport", "planes", "seconds", "seed", "namespaces_mtu", "machine", "commit")
        write_file("--html", html_file, profile_html(found, {name: found.result[name] for name in names}))
    for line in summary_lines(found):
        console.print(line, markup=False, highlight=False)
    console.print(profile_table(found, console.width))
    if not found.result["content_ok"]:
        console.print("[bold red]the receiver's memory differs from the sent data[/]")
        raise typer.Exit(1)


@app.command()
def scenario(
    scenario_file: Annotated[Path, typer.Argument(metavar="SCENARIO.yaml", help="The scenario file.")],
    beside: Annotated[
        bool, typer.Option("--simulated", help="Also simulate the scenario, and show both results.")
    ] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed instead of the scenario's.")] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="Write the results to this file; - is stdout.")
    ] = None,
) -> None:
    """Run the flows and faults of SCENARIO.yaml between real processes over the emulated fabric."""
    from openmrc.runs.scenario_outcome import emulate, simulate
    from openmrc.sim import load_scenario

    loaded = load_scenario(scenario_file)
    loaded = loaded if seed is None else loaded.with_seed(seed)
    outcomes = [simulate(loaded)] if beside else []
    console = Console()
    with console.status(f"running for {loaded.duration_ps / 1e12:g} s"):
        outcomes.append(emulate(loaded))
    show_outcomes(console, outcomes, json_file)
