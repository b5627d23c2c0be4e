"""Final output of all commands that run a scenario."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from openmrc.cli.output_files import write_file

if TYPE_CHECKING:
    from openmrc.runs.scenario_outcome import Outcome

__all__ = ["show_outcomes"]


def show_outcomes(console: Console, outcomes: Sequence[Outcome], json_file: Path | None) -> None:
    """Prints and writes the outcomes; exits with 1 unless the last one's flows arrived complete."""
    from openmrc.runs.scenario_outcome import outcome_table

    if json_file is not None:
        write_file("--json", json_file, json.dumps([outcome.to_dict() for outcome in outcomes]) + "\n")
    console.print(outcome_table(outcomes))
    wrong = [flow for flow in outcomes[-1].run.flows if flow.error or not flow.content_ok]
    for flow in wrong:
        console.print(f"[bold red]{flow.name}: {flow.error or 'the memory differs from the sent data'}[/]")
    if wrong:
        raise typer.Exit(1)
