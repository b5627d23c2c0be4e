"""Samples of lm-evaluation-harness, which have texts and scores but neither times nor tokens.

Tokens are estimated from characters, and the time of the whole run, contained in the results beside the samples, is
divided in proportion. Such trials have `estimated` set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from openmrc.evals.errors import LogError
from openmrc.evals.trial_profile import Trial, checked_trial

__all__ = ["read_harness"]

CHARACTERS_PER_TOKEN = 4  # usual rule of thumb for English text and byte-pair vocabularies
_NAME = re.compile(r"samples_(?P<task>.+)_(?P<stamp>\d{4}-\d\d-\d\dT[\d.-]+)")


def read_harness(path: Path) -> Iterator[Trial]:
    """Every document of a `samples_TASK_TIME.jsonl`, once, even if several filters scored it.

    Raises:
        LogError: file, line and reason.
    """
    name = _NAME.fullmatch(path.stem)
    task = name["task"] if name else path.stem
    trials: dict[str, Trial] = {}
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    trial = _trial(line, task, path, f"line {number}")
                    trials.setdefault(trial.sample, trial)
    except (OSError, UnicodeDecodeError) as error:
        raise LogError(path, "", f"not readable: {error}") from None
    if not trials:
        raise LogError(path, "", "no samples in it")
    yield from _with_times(list(trials.values()), path, name["stamp"] if name else None)


def _trial(line: str, task: str, path: Path, member: str) -> Trial:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LogError(path, member, f"not JSON: {error}") from None
    if not isinstance(row, dict) or "doc_id" not in row or not isinstance(row.get("arguments"), dict | list):
        raise LogError(path, member, "no doc_id and arguments", "run lm-evaluation-harness with --log_samples")
    arguments = row["arguments"]
    requests = list(arguments.values()) if isinstance(arguments, dict) else arguments
    prompts = [_characters(list(one.values())[:1] if isinstance(one, dict) else one[:1]) for one in requests]
    values = {
        "task": task,
        "sample": str(row["doc_id"]),
        "calls": len(requests),
        "prompt_tokens": sum(-(-count // CHARACTERS_PER_TOKEN) for count in prompts),
        "output_tokens": -(-_characters(row.get("resps", [])) // CHARACTERS_PER_TOKEN),
        "context_tokens": -(-(max(prompts, default=0) + _characters(row.get("resps", []))) // CHARACTERS_PER_TOKEN),
        "score": _score(row),
        "estimated": True,
        "source": path.name,
    }
    return checked_trial(values, path, member)


def _characters(value: Any) -> int:
    """Characters of all texts in nested lists."""
    if isinstance(value, str):
        return len(value)
    return sum(map(_characters, value)) if isinstance(value, list | tuple) else 0


def _score(row: dict[str, Any]) -> float | None:
    """The first metric with a number of its own, as opposed to an input of an aggregate."""
    names = row.get("metrics") or [name for name in ("acc", "exact_match") if name in row]
    values = [row.get(name) for name in names if isinstance(name, str)]
    return next((float(value) for value in values if isinstance(value, int | float)), None)


def _with_times(trials: list[Trial], path: Path, stamp: str | None) -> list[Trial]:
    """The trials with their shares of the run's time, if the results of the same run are beside them."""
    found = sorted(path.parent.glob(f"*_{stamp}.json")) if stamp else []
    if not found:
        return trials
    try:
        total_s = float(json.loads(found[0].read_bytes())["total_evaluation_time_seconds"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise LogError(found[0], "total_evaluation_time_seconds", "not a number of seconds") from None
    weights = [trial.prompt_tokens + 10 * trial.output_tokens for trial in trials]  # decoding is the slow part
    whole = sum(weights) or len(weights)
    return [replace(one, total_s=total_s * (weight or 1) / whole) for one, weight in zip(trials, weights, strict=True)]
