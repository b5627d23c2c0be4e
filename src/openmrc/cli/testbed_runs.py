"""`openmrc testbed run` and `compare`: real transports between the hosts of a test bed that is made for the run."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from openmrc.cli.outcomes import show_outcomes
from openmrc.cli.output_files import writable_file, write_file

if TYPE_CHECKING:
    from openmrc.fabric import Fabric
    from openmrc.runs.compare.contenders import Contender
    from openmrc.runs.compare.outcome import Outcome
    from openmrc.testbed import TestBed


def run(
    scenario_file: Annotated[Path, typer.Argument(metavar="SCENARIO.yaml", help="The scenario file.")],
    mode: Annotated[str, typer.Option(help="Choice of paths: srv6 by MRC, or udp by the switches' ECMP.")] = "srv6",
    beside: Annotated[
        bool,
        typer.Option(
            "--everywhere", help="Also run in the simulator and over the emulated fabric, and show all results."
        ),
    ] = False,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed instead of the scenario's.")] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="Write the results to this file; - is stdout.")
    ] = None,
) -> None:
    """Run the flows and faults of SCENARIO.yaml between hosts of a test bed of its fabric, made for the run."""
    from openmrc.errors import ConfigError, did_you_mean
    from openmrc.runs.environment import MODES, TestBedEnvironment
    from openmrc.runs.scenario_outcome import emulate, run_in, simulate
    from openmrc.runs.scenario_plan import plan_of
    from openmrc.sim import load_scenario

    if mode not in MODES:
        raise ConfigError("--mode", mode, " or ".join(MODES), hint=did_you_mean(mode, MODES))
    scenario = load_scenario(scenario_file)
    scenario = scenario if seed is None else scenario.with_seed(seed)
    plan_of(scenario)  # impossible scenarios are refused before anything is created
    console = Console()
    outcomes = []
    with console.status(f"running for {scenario.duration_ps / 1e12:g} s"):
        if beside:
            outcomes = [simulate(scenario), emulate(scenario)]
        with _own_bed(scenario.fabric) as bed:
            outcomes.append(run_in(TestBedEnvironment(bed, mode), "test bed", scenario))
    show_outcomes(console, outcomes, json_file)


def compare(
    fabric_file: Annotated[
        Path | None,
        typer.Argument(metavar="[FABRIC.yaml]", help="Default: two hosts, four planes of 100 Mb/s, four T1s each."),
    ] = None,
    faults: Annotated[
        list[str] | None,
        typer.Option("--faults", help="A fault instead of a dead T1, then a dead host port. Repeatable."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Duration of each transport. Default: until 10 s after the last fault.")
    ] = None,
    only: Annotated[str, typer.Option(help="One or more of mrc-srv6,mrc-udp,tcp,tcp-planes,mptcp,gloo,mpi.")] = "",
    seed: Annotated[int, typer.Option(min=0, help="Seed of MRC's random choices.")] = 1,
    json_file: Annotated[
        Path | None, typer.Option("--json", callback=writable_file, help="Write the results to this file; - is stdout.")
    ] = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", callback=writable_file, help="Write a page with pictures to this file.")
    ] = None,
) -> None:
    """Run MRC, TCP, MPTCP, Gloo and Open MPI, one after the other, over the same fabric with the same faults."""
    from openmrc.reports.comparison_page import comparison_html
    from openmrc.runs.compare.comparison import DEFAULT_FAULTS, chosen
    from openmrc.runs.compare.comparison import compare as run_all

    names = [name.strip() for name in only.split(",") if name.strip()]
    chosen(names)
    fabric = _compared_fabric(fabric_file)
    console = Console()
    with _own_bed(fabric) as bed, console.status("") as status:

        def told(contender: Contender, outcome: Outcome | None) -> None:
            status.update(contender.title)
            if outcome is not None:
                console.print(f"{contender.title}: {outcome.ending}")

        result = run_all(bed, faults=faults or DEFAULT_FAULTS, seconds=seconds, only=names, seed=seed, told=told)
    console.print(result.table())
    console.print(result.processor_table())
    if json_file is not None:
        write_file("--json", json_file, json.dumps(result.to_dict()) + "\n")
    if html_file is not None:
        write_file("--html", html_file, comparison_html(result))


def _compared_fabric(path: Path | None) -> Fabric:
    from openmrc.fabric import load_fabric, make_fabric

    if path is not None:
        return load_fabric(path)
    shape: dict[str, Any] = {"planes": 4, "hosts": 2, "hosts_per_t0": 1, "t1s": 4}
    return make_fabric(name="compare", rate="100Mbit", delay="20us", framing="ipv6", **shape)


@contextlib.contextmanager
def _own_bed(fabric: Fabric) -> Iterator[TestBed]:
    """A test bed with a name of its own, removed afterwards."""
    from openmrc.testbed import TestBed
    from openmrc.testbed.errors import TestBedError
    from openmrc.testbed.rootless import needed

    if (why := needed()) is not None:
        raise TestBedError(f"a test bed for one command needs root, and {why}", "run it as root")

    with TestBed.up(fabric, f"run-{os.getpid()}") as bed:
        yield bed
