"""Rows, the output format of every benchmark: measured values, targets, and their variation."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_TARGET = re.compile(r"^\s*(>=|<=|>|<|==)\s*(-?[0-9.]+(?:e-?[0-9]+)?)")


@dataclass(frozen=True, slots=True)
class Row:
    """One measured number: the median of `repeats` runs, the smallest and largest, and whether it reached the target.

    `target` is a comparison such as ">= 0.97", or empty for a number that is only reported (then `met` is None).
    """

    case: str
    metric: str
    value: float | None
    unit: str
    target: str = ""
    met: bool | None = None
    repeats: int = 1
    min: float | None = None
    max: float | None = None


def row(case: str, metric: str, values: Sequence[float | None], unit: str, target: str = "") -> Row:
    """The row of several runs. A run without a value (None) fails the target instead of being omitted."""
    known = [value for value in values if value is not None]
    median = statistics.median(known) if known else None
    met = None
    if target:
        met = len(known) == len(values) and median is not None and reaches(median, target)
    return Row(
        case=case,
        metric=metric,
        value=median,
        unit=unit,
        target=target,
        met=met,
        repeats=len(values),
        min=min(known) if known else None,
        max=max(known) if known else None,
    )


def reaches(value: float, target: str) -> bool:
    """True if a value satisfies a target such as "<= 50 ms". Raises ValueError if the target is not a comparison."""
    match = _TARGET.match(target)
    if match is None:
        raise ValueError(f"target: {target!r} is not a comparison such as '>= 0.97'")
    operator, bound = match.group(1), float(match.group(2))
    return {
        ">=": value >= bound,
        "<=": value <= bound,
        ">": value > bound,
        "<": value < bound,
        "==": value == bound,
    }[operator]


def describe_machine() -> dict[str, Any]:
    """Processor, cores, memory, kernel and Python of this machine."""
    model, memory_gib = platform.processor() or platform.machine(), None
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
        total = re.search(r"MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="utf-8"))
        memory_gib = round(int(total.group(1)) / 1048576, 1) if total else None
    except OSError:
        pass
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": memory_gib,
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def current_commit() -> str:
    """The commit of this program's checkout, with "-dirty" if files differ; "unknown" outside one."""
    here = Path(__file__).resolve().parent
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return found.stdout.strip() or "unknown"


@dataclass(slots=True)
class Report:
    """The rows of one benchmark program with the machine and the commit they were measured on."""

    machine: dict[str, Any] = field(default_factory=describe_machine)
    commit: str = field(default_factory=current_commit)
    rows: list[Row] = field(default_factory=list)

    def add(self, rows: Iterable[Row]) -> None:
        """Appends rows."""
        self.rows.extend(rows)

    def to_json(self) -> str:
        """The common JSON form: `machine`, `commit`, `rows`."""
        document = {"machine": self.machine, "commit": self.commit, "rows": [asdict(one) for one in self.rows]}
        return json.dumps(document, indent=2) + "\n"

    def write(self, path: Path) -> None:
        """Writes the JSON form to a file."""
        path.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Report:
        """The report in a file. Raises ValueError if the file is not in this form, naming the file and the key."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            rows = [Row(**one) for one in document["rows"]]
            return cls(machine=document["machine"], commit=document["commit"], rows=rows)
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path}: not a benchmark report: {error}") from error
