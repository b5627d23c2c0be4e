"""Profile of evaluation runs: one row for each trial, kept as Parquet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from openmrc.errors import ConfigError, OpenmrcError

__all__ = ["COLUMNS", "Profile", "Trial", "require_pyarrow"]

PARQUET_KEY = b"openmrc.profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run of one sample. Times in seconds; None: the log does not contain it.

    Args:
        total_s: Wall-clock time of the trial.
        agent_s: Part of it in which the agent's model was generating.
        judge_s: Part of it in which the judge was generating.
        calls: Calls of the agent's model.
        prompt_tokens: Tokens that these calls sent, repeated context included.
        cached_tokens: Those of them that a prefix cache held.
        context_tokens: Longest context of a call, prompt and output.
        score: The scorer's result, usually 0 to 1.
        estimated: Times or tokens are estimated from the length of texts, because the log has none of its own.
        source: Name of the log.
    """

    task: str
    sample: str
    epoch: int = 1
    model: str = ""
    total_s: float | None = None
    agent_s: float | None = None
    judge_s: float | None = None
    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    context_tokens: int = 0
    judge_calls: int = 0
    judge_prompt_tokens: int = 0
    judge_output_tokens: int = 0
    score: float | None = None
    estimated: bool = False
    source: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Identifies the sample in every run."""
        return self.task, self.sample

    @property
    def known_context_tokens(self) -> int:
        """Longest context; without one in the log, that of a conversation that grows evenly from call to call."""
        growing = 2 * self.prompt_tokens // (self.calls + 1) if self.calls else self.prompt_tokens
        return self.context_tokens or growing + self.output_tokens


COLUMNS = tuple(field.name for field in fields(Trial))
_TEXTS = ("task", "sample", "model", "source")
_TIMES = ("total_s", "agent_s", "judge_s")
_NUMBERS = (*_TIMES, "score")
_COUNTS = tuple(name for name in COLUMNS if name not in (*_TEXTS, *_NUMBERS, "estimated"))


def require_pyarrow() -> Any:
    """The modules for Parquet.

    Raises:
        OpenmrcError: pyarrow is not installed.
    """
    try:
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise OpenmrcError("profiles need pyarrow; install it with: pip install 'openmrc[eval]'") from None
    return pyarrow


class Profile:
    """Trials of one or several runs; no two have the same task, sample and epoch.

    Args:
        trials: In the order of the logs. A repeated (task, sample, epoch) becomes the next free epoch.
    """

    def __init__(self, trials: Iterable[Trial]) -> None:
        seen: dict[tuple[str, str], set[int]] = {}
        kept = []
        for trial in trials:
            epochs = seen.setdefault(trial.key, set())
            if trial.epoch in epochs:
                trial = Trial(**{**asdict(trial), "epoch": max(epochs) + 1})
            epochs.add(trial.epoch)
            kept.append(trial)
        self.trials = tuple(kept)

    def __len__(self) -> int:
        return len(self.trials)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.trials)

    @property
    def samples(self) -> tuple[tuple[str, str], ...]:
        """Task and id of every sample, in the order of the logs."""
        return tuple(dict.fromkeys(trial.key for trial in self.trials))

    @property
    def epochs(self) -> int:
        """Most trials of a sample."""
        counts: dict[tuple[str, str], int] = {}
        for trial in self.trials:
            counts[trial.key] = counts.get(trial.key, 0) + 1
        return max(counts.values(), default=0)

    def by_sample(self) -> dict[tuple[str, str], list[Trial]]:
        """Trials of every sample."""
        found: dict[tuple[str, str], list[Trial]] = {}
        for trial in self.trials:
            found.setdefault(trial.key, []).append(trial)
        return found

    def write(self, path: Path) -> None:
        """Write the table as Parquet.

        Raises:
            ConfigError: the file cannot be written.
            OpenmrcError: pyarrow is not installed.
        """
        arrow = require_pyarrow()
        columns = {name: [getattr(trial, name) for trial in self.trials] for name in COLUMNS}
        types = {
            **dict.fromkeys(_TEXTS, arrow.string()),
            **dict.fromkeys(_NUMBERS, arrow.float64()),
            **dict.fromkeys(_COUNTS, arrow.int64()),
            "estimated": arrow.bool_(),
        }
        schema = arrow.schema([(name, types[name]) for name in COLUMNS], metadata={PARQUET_KEY: b"1"})
        try:
            arrow.parquet.write_table(arrow.table(columns, schema=schema), path)
        except OSError as error:
            raise ConfigError("--out", str(path), f"a writable file: {error.strerror or error}") from None

    @staticmethod
    def read(path: Path) -> Profile:
        """The table in a Parquet file.

        Raises:
            ConfigError: it cannot be read, is no profile, or holds a value that no trial has.
            OpenmrcError: pyarrow is not installed.
        """
        arrow = require_pyarrow()
        try:
            table = arrow.parquet.read_table(path)
        except (OSError, arrow.ArrowException) as error:
            reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
            raise ConfigError("profile", str(path), f"a readable Parquet file: {reason}") from None
        if PARQUET_KEY not in (table.schema.metadata or {}) or set(table.column_names) != set(COLUMNS):
            raise ConfigError("profile", str(path), "a table written by openmrc eval profile --out")
        return Profile([checked_trial(row, path, f"row {at}") for at, row in enumerate(table.to_pylist(), 1)])


def checked_trial(values: dict[str, Any], source: Path, member: str) -> Trial:
    """The trial with these values.

    Raises:
        ConfigError: an invalid value, with file and member.
    """
    for name, value in values.items():
        if name in _NUMBERS:
            good = value is None or (isinstance(value, int | float) and math.isfinite(value))
            good = good and (name not in _TIMES or value is None or value >= 0)
            allowed = "seconds of 0 or more" if name in _TIMES else "a finite number"
        elif name in _COUNTS:
            good, allowed = isinstance(value, int) and 0 <= value < 2**53, "a whole number of 0 or more"
            if name == "epoch":
                good, allowed = good and value >= 1, "a whole number from 1"
        else:
            continue
        if not good:
            raise ConfigError(f"{member}: {name}", value, allowed, source=source)
    return Trial(**values)
