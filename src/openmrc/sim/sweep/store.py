"""The folder of a sweep: a small file per finished run, and the table made of them.

DIR/runs/KEY.json      figures or error of one run; written whole or not at all
DIR/results.parquet    one row per run of the sweep as it was last asked for
DIR/sweep.json         what was asked for
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmrc.errors import OpenmrcError
from openmrc.sim.sweep.combinations import PlannedRun, RunSpec
from openmrc.sim.sweep.outcome import Outcome

if TYPE_CHECKING:
    import polars as pl

__all__ = ["SweepFolder"]


class SweepFolder:
    """Reads and writes one sweep's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._runs = path / "runs"

    @property
    def table(self) -> Path:
        """Path of the results."""
        return self.path / "results.parquet"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps a second sweep out of the folder; the lock ends with the process in any case.

        Raises:
            OpenmrcError: another process uses the folder.
        """
        self._runs.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise OpenmrcError(f"another sweep is writing to {self.path}") from None
            yield

    def describe(self, document: Mapping[str, Any]) -> None:
        """Writes the description of the sweep."""
        _write(self.path / "sweep.json", json.dumps(document, indent=2, default=str) + "\n")

    def keep(self, spec: RunSpec, outcome: Outcome) -> None:
        """Writes the outcome of one run."""
        document = {"key": spec.key, "transport": spec.transport, "seed": spec.seed, **outcome}
        _write(self._runs / f"{spec.key}.json", json.dumps(document, indent=1) + "\n")

    def outcome(self, key: str) -> Outcome | None:
        """Stored outcome of a run, or None if it has not ended yet."""
        try:
            found: Outcome = json.loads((self._runs / f"{key}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return found

    def write_table(self, runs: Sequence[PlannedRun]) -> pl.DataFrame:
        """Builds the table of finished runs, in their order, and writes it."""
        rows = [
            {**_parameters(run), "seed": run.spec.seed, "transport": run.spec.transport, "error": outcome["error"]}
            | outcome["figures"]
            | {"wall_s": outcome["wall_s"], "run": run.spec.key}
            for run in runs
            if (outcome := self.outcome(run.spec.key)) is not None
        ]
        frame = _frame(rows)
        part = self.table.with_suffix(".part")
        frame.write_parquet(part)
        part.replace(self.table)
        return frame


def _parameters(run: PlannedRun) -> dict[str, Any]:
    """Parameter values in types that columns support."""
    return {
        path: json.dumps(value) if isinstance(value, dict | list) else value for path, value in run.parameters.items()
    }


def _frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """A column for every name; a column with numbers and words holds words."""
    import polars as pl

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns: list[pl.Series] = []
    for name in names:
        values = [row.get(name) for row in rows]
        kinds = {type(value) for value in values if value is not None}
        if not kinds <= {int, float} and len(kinds) > 1:
            values = [None if value is None else str(value) for value in values]
        elif kinds == {int, float}:
            values = [None if value is None else float(value) for value in values]
        columns.append(pl.Series(name, values, dtype=None if kinds else pl.String))
    return pl.DataFrame(columns)


def _write(path: Path, text: str) -> None:
    """Writes atomically, even if the machine stops."""
    part = path.with_name(f".{path.name}.part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
