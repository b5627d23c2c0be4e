"""Runs every benchmark program of this folder and prints one table.

    python benchmarks/run.py [--only NAME ...] [--json FILE] [-- arguments for the programs]

A program is any other .py file here that takes `--json FILE` and writes the form of `openmrc.runs.bench.rows`. Exit
code 0 even when a target is missed (a busy machine is no bug); 1 when a program fails.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from openmrc.cli.output_files import file_argument
from openmrc.reports.benchmark_tables import rows_table
from openmrc.runs.bench.rows import Report

HERE = Path(__file__).resolve().parent


def programs() -> dict[str, Path]:
    """Every benchmark program by name."""
    own = {Path(__file__).name, "__init__.py", "__main__.py"}
    return {path.stem: path for path in sorted(HERE.glob("*.py")) if path.name not in own and path.stem[0] != "_"}


def run_program(path: Path, arguments: list[str], output: Path) -> Report | None:
    """Runs one program; returns its rows, or None if it failed."""
    command = [sys.executable, str(path), "--json", str(output), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if not output.exists():
        print(done.stdout)
        return None
    return Report.read(output)


def main() -> int:
    known = programs()
    parser = argparse.ArgumentParser(description="Run all benchmarks and print one table.")
    parser.add_argument("--only", nargs="+", choices=sorted(known), help="only these programs")
    parser.add_argument("--json", type=file_argument, help="write all rows to this file")
    parser.add_argument("rest", nargs="*", help="arguments for the programs, after --")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 150)
    total, failed = Report(), []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only or known:
            console.print(f"[bold]{name}[/]")
            start = time.monotonic()
            report = run_program(known[name], options.rest, Path(folder) / f"{name}.json")
            console.print(f"  {time.monotonic() - start:.0f} s")
            if report is None:
                failed.append(name)
            else:
                total.add(report.rows)
    console.print(rows_table(total.rows, title=f"commit {total.commit}, {total.machine['processor']}"))
    if options.json:
        total.write(options.json)
    for name in failed:
        console.print(f"[red]{name} failed[/]")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
