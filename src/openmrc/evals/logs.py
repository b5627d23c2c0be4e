"""Conversion of evaluation logs into one profile; the kind of a log follows from its name and its keys."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

from openmrc.evals.errors import LogError
from openmrc.evals.trial_profile import COLUMNS, Profile, Trial, checked_trial

__all__ = ["read_logs", "seconds_between"]

KINDS = (
    "an Inspect log (.eval), samples_*.jsonl of lm-evaluation-harness, results.json of Terminal-Bench, .csv, .parquet"
)
_WHOLE = tuple(name for name in COLUMNS if name.endswith(("calls", "tokens")) or name == "epoch")
_DECIMAL = ("total_s", "agent_s", "judge_s", "score")


def read_logs(paths: Iterable[Path]) -> Profile:
    """The trials of all logs; a repeated sample counts as a further epoch.

    Raises:
        LogError: a log cannot be used: file, member and reason.
        OpenmrcError: the package that reads a log is not installed.
    """
    return Profile(chain.from_iterable(_reader(path)(path) for path in paths))


def _reader(path: Path) -> Callable[[Path], Iterable[Trial]]:
    if not path.is_file():
        what = "a folder" if path.is_dir() else "no such file"
        raise LogError(path, "", f"it is {what}" if path.is_dir() else what, "name the logs themselves")
    suffix = path.suffix.lower()
    if suffix == ".eval":
        from openmrc.evals.log_inspect import read_inspect

        return read_inspect
    if suffix == ".jsonl":
        from openmrc.evals.log_harness import read_harness

        return read_harness
    if suffix == ".json":
        return _read_json
    readers: dict[str, Callable[[Path], Iterable[Trial]]] = {".csv": _read_csv, ".parquet": Profile.read}
    if suffix not in readers:
        raise LogError(path, "", f"not {KINDS}")
    return readers[suffix]


def _read_json(path: Path) -> Iterable[Trial]:
    """A .json file of Terminal-Bench, or a hint at the file that has the samples."""
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise LogError(path, "", f"not JSON: {error}") from None
    if isinstance(values, dict) and isinstance(values.get("eval"), dict) and "version" in values:
        from openmrc.evals.log_inspect import read_inspect

        return read_inspect(path)
    if isinstance(values, dict) and ("task_id" in values or isinstance(values.get("results"), list)):
        rows = values.get("results", [values])
        return [_terminal_bench_trial(row, path, f"results.{at}") for at, row in enumerate(rows)]
    hint = "lm-evaluation-harness writes samples_*.jsonl beside it with --log_samples"
    raise LogError(path, "", "no trials in it: neither Terminal-Bench nor Inspect wrote it", hint)


def seconds_between(begin: Any, end: Any, path: Path, member: str) -> float | None:
    """Seconds between two ISO times; None if one is missing.

    Raises:
        LogError: an invalid time, or an end before its start.
    """
    if not begin or not end:
        return None
    try:
        seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
    except (TypeError, ValueError):
        raise LogError(path, member, f"{begin!r} and {end!r} are not two times") from None
    if seconds < 0:
        raise LogError(path, member, f"it ends {-seconds:g} s before it begins")
    return seconds


def _terminal_bench_trial(row: Any, path: Path, member: str) -> Trial:
    if not isinstance(row, dict) or not isinstance(row.get("task_id"), str):
        raise LogError(path, member, "no task_id")
    values = {
        "task": "terminal-bench",
        "sample": row["task_id"],
        "epoch": 1,
        "total_s": seconds_between(row.get("trial_started_at"), row.get("trial_ended_at"), path, member),
        "prompt_tokens": row.get("total_input_tokens") or 0,
        "output_tokens": row.get("total_output_tokens") or 0,
        "score": None if row.get("is_resolved") is None else float(bool(row["is_resolved"])),
        "source": path.name,
    }
    return checked_trial(values, path, member)


def _read_csv(path: Path) -> Iterator[Trial]:
    """Rows of a table with columns of a profile; `sample` and `total_s` are required."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            head = list(reader.fieldnames or ())
            unknown = [name for name in head if name not in COLUMNS]
            missing = [name for name in ("sample", "total_s") if name not in head]
            if unknown or missing:
                words = f"unknown column {unknown[0]!r}" if unknown else f"no column {missing[0]!r}"
                raise LogError(path, "line 1", words, f"columns: {', '.join(COLUMNS)}")
            for row in reader:
                yield _csv_trial(row, path, f"line {reader.line_num}")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise LogError(path, "", f"not a CSV text: {error}") from None


def _csv_trial(row: dict[str | None, Any], path: Path, member: str) -> Trial:
    if None in row or None in row.values():
        raise LogError(path, member, "more or fewer fields than the head")
    values: dict[str, Any] = {"task": path.stem, "source": path.name}
    for name, text in row.items():
        assert name is not None
        if text.strip() == "" and name != "sample":
            continue
        try:
            number = int if name in _WHOLE else float if name in _DECIMAL else None
            values[name] = text == "true" if name == "estimated" else text if number is None else number(text)
        except ValueError:
            kind = "a whole number" if name in _WHOLE else "a number"
            raise LogError(path, f"{member}: {name}", f"{text!r} is not {kind}") from None
    if not values["sample"]:
        raise LogError(path, f"{member}: sample", "it has no name")
    return checked_trial(values, path, member)
