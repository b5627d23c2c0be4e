"""Common part of the benchmark programs: named cases, each measured several times, into one report and one table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from rich.console import Console

from openmrc.cli.output_files import file_argument
from openmrc.errors import OpenmrcError
from openmrc.reports.benchmark_tables import rows_table
from openmrc.runs.bench.rows import Report, Row
from openmrc.runs.processes.veth_pairs import namespaces_allowed

Repeat = Callable[[Callable[[int], Any]], list[Any]]
Case = Callable[[Repeat], Iterator[Row]]


def every_seed(value: Any) -> Callable[[int], Any]:
    """The same value for each seed."""
    return lambda _seed: value


def run_cases(
    name: str,
    description: str,
    cases: Mapping[str, Case],
    *,
    as_root: Collection[str] = (),
    left_out: Iterable[str] = (),
    missing: str | None = None,
    repeats: int,
) -> int:
    """Runs the cases selected on the command line and prints their rows; returns the exit code, 1 if a case failed.

    Args:
        name: Of the program, for the table's title.
        description: For `--help`.
        cases: Each gets `repeat`, which calls a function once for every seed from 1 on.
        as_root: Cases that need network namespaces, left out if none can be created.
        left_out: Further measurements that this machine does not support, each with the reason.
        missing: The reason why this machine supports none of the cases, if so.
        repeats: Default number of runs per figure.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--repeats", type=int, default=repeats, help="runs per number; the median counts")
    parser.add_argument("--only", nargs="+", choices=sorted(cases), help="only these cases")
    parser.add_argument("--json", type=file_argument, help="write the rows to this file")
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error("--repeats: at least 1")
    console = Console(width=None if sys.stdout.isatty() else 150)
    wanted = options.only or list(cases)
    if missing is not None:
        left_out, wanted = [*left_out, *(f"{case}: {missing}" for case in wanted)], []
    for words in left_out:
        console.print(f"[yellow]left out: {words}[/]")
    rooted = [case for case in wanted if case in as_root]
    if rooted and not namespaces_allowed():
        console.print(f"[yellow]no network namespaces here (they need root); left out: {', '.join(rooted)}[/]")
        wanted = [case for case in wanted if case not in as_root]

    def repeat(once: Callable[[int], Any]) -> list[Any]:
        return [once(seed) for seed in range(1, options.repeats + 1)]

    report, failed = Report(), False
    for case in wanted:
        console.print(f"  {case} ...", style="dim")
        try:
            report.add(cases[case](repeat))
        except OpenmrcError as error:
            failed = True
            console.print(f"  {case} failed: {error}", style="red", markup=False)
    console.print(rows_table(report.rows, title=f"{name}, commit {report.commit}"))
    if options.json:
        report.write(options.json)
    return int(failed)
