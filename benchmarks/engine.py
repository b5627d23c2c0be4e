"""The engine without a driver: two engines in one thread, 4 KiB packets passed in memory, no sockets.

    python benchmarks/engine.py [--repeats 5] [--packets 1000000] [--json FILE] [--profile]

Builds `openmrc_engine_bench` in build/bench. `--profile` also builds it for gprof and prints the five functions that
take the most time. A simulator needs 1 M packets/s on one core.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from openmrc.cli.output_files import file_argument
from openmrc.reports.benchmark_tables import rows_table
from openmrc.runs.bench.rows import Report, Row, row

REPOSITORY = Path(__file__).resolve().parent.parent
TARGET = "openmrc_engine_bench"


def build(folder: Path, *settings: str) -> Path:
    """The benchmark program, built from this checkout."""
    beside = Path(sys.executable).parent / "cmake"
    cmake = str(beside) if beside.exists() else shutil.which("cmake")
    if cmake is None:
        sys.exit("benchmarks/engine.py needs cmake; `make bench` installs it")
    configure = [cmake, "-S", str(REPOSITORY), "-B", str(folder), "-DOPENMRC_BENCH=ON", *settings]
    for command in (configure, [cmake, "--build", str(folder), "--target", TARGET, "--parallel", "2"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return folder / TARGET


def measure(program: Path, packets: int, repeats: int) -> Iterator[Row]:
    """Rows of every case of the program."""
    rates: dict[str, list[float | None]] = defaultdict(list)
    times: dict[str, list[float | None]] = defaultdict(list)
    for _ in range(repeats):
        done = subprocess.run([program, str(packets)], capture_output=True, text=True, check=True)
        for line in done.stdout.splitlines():
            result = json.loads(line)
            rates[result["case"]].append(result["packets_per_second"] / 1e6)
            times[result["case"]].append(result["ns_per_packet"])
    for case, values in rates.items():
        target = ">= 1" if case.startswith("phantom") else ""
        yield row(f"engine alone, {case}", "packets on one core", values, "M/s", target)
        yield row(f"engine alone, {case}", "time of a packet, both ends", times[case], "ns")


def profile(packets: int) -> list[str]:
    """The five most expensive functions, as gprof names them."""
    if shutil.which("gprof") is None:
        return ["gprof is not installed"]
    # Position-independent executables leave gprof without symbols.
    flags = "-pg -no-pie -O2 -DNDEBUG"
    program = build(
        REPOSITORY / "build" / "bench-profile",
        f"-DCMAKE_CXX_FLAGS_RELEASE={flags}",
        "-DCMAKE_EXE_LINKER_FLAGS=-pg -no-pie",
    )
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([program, str(packets)], cwd=scratch, capture_output=True, check=True)
        done = subprocess.run(
            ["gprof", "-b", "-p", str(program), f"{scratch}/gmon.out"], capture_output=True, text=True, check=True
        )
    lines = [line for line in done.stdout.splitlines() if line.strip()[:1].isdigit()]
    return lines[:5]


def main() -> int:
    parser = argparse.ArgumentParser(description="The engine alone, without sockets.")
    parser.add_argument("--repeats", type=int, default=5, help="runs; the median counts")
    parser.add_argument("--packets", type=int, default=1_000_000, help="data packets of a run")
    parser.add_argument("--json", type=file_argument, help="write the rows to this file")
    parser.add_argument("--profile", action="store_true", help="print the five most expensive functions")
    options, _ = parser.parse_known_args()
    if options.repeats < 1 or options.packets < 10:
        parser.error("--repeats must be at least 1 and --packets at least 10")
    report = Report()
    report.add(measure(build(REPOSITORY / "build" / "bench"), options.packets, options.repeats))
    Console(width=150).print(rows_table(report.rows, title=f"commit {report.commit}"))
    if options.profile:
        print("profile, share of time first:")
        print("\n".join(profile(options.packets)))
    if options.json:
        report.write(options.json)
    return 0 if all(entry.met is not False for entry in report.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
