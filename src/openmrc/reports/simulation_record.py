"""A run directory of the simulator, read for reports: summary, settings and the tables of each transport.

The layout is described in docs/reference/run-directory.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from openmrc.charts.style import MRC_COLOUR, PLANE_COLOURS, RC_COLOUR
from openmrc.errors import ConfigError
from openmrc.reports.simulation_charts import Band

if TYPE_CHECKING:
    import polars as pl

__all__ = ["PS", "RunRecord", "TransportRecord", "load_run", "load_runs"]

PS = 1e-12
_TIMED = ("series_goodput", "series_planes", "series_queues", "drops", "path_events")
_COLOURS = {"mrc": MRC_COLOUR, "roce": RC_COLOUR}
_OTHER_COLOURS = (PLANE_COLOURS[3], PLANE_COLOURS[1], PLANE_COLOURS[4], PLANE_COLOURS[5], PLANE_COLOURS[6])


@dataclass(slots=True)
class TransportRecord:
    """One transport of one run. `label` identifies it in the report, `colour` draws it."""

    name: str
    label: str
    colour: str
    folder: Path
    summary: Mapping[str, Any]
    _tables: dict[str, pl.DataFrame | None] = field(default_factory=dict)

    def table(self, name: str) -> pl.DataFrame | None:
        """The Parquet table of that name, or None if the run has not recorded it or it has no rows."""
        if name not in self._tables:
            import polars as pl

            path = self.folder / f"{name}.parquet"
            frame = pl.read_parquet(path) if path.exists() else None
            self._tables[name] = frame if frame is not None and frame.height else None
        return self._tables[name]

    def fct_s(self) -> npt.NDArray[np.float64]:
        """Completion times of the finished flows in seconds, sorted."""
        flows = self.table("flows")
        if flows is None:
            return np.empty(0)
        times: npt.NDArray[np.float64] = flows.filter(flows["received_ps"] >= 0)["fct_ps"].to_numpy() * PS
        return np.sort(times)

    @property
    def flows_total(self) -> int:
        """Number of flows in the scenario."""
        flows = self.table("flows")
        return 0 if flows is None else flows.height

    @property
    def end_ps(self) -> int:
        """The latest recorded time."""
        latest = [frame["time_ps"].max() for name in _TIMED if (frame := self.table(name)) is not None]
        flows = self.table("flows")
        if flows is not None:
            latest += [flows["received_ps"].max(), flows["completed_ps"].max()]
        return max((int(cast("int", time)) for time in latest if time is not None), default=0)

    @property
    def end_s(self) -> float:
        """The same in seconds."""
        return self.end_ps * PS


@dataclass(slots=True)
class RunRecord:
    """One run directory: its description, and one record per transport."""

    path: Path
    summary: Mapping[str, Any]
    settings: str
    faults: tuple[Band, ...]
    transports: tuple[TransportRecord, ...]

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return str(self.summary.get("name", self.path.name))

    @property
    def interrupted(self) -> bool:
        """True if the run was stopped before its end."""
        return bool(self.summary.get("interrupted"))

    @property
    def command(self) -> str:
        """Command that repeats the run, as typed."""
        return str(self.summary.get("command", ""))


def load_runs(paths: Sequence[Path]) -> list[RunRecord]:
    """The runs of several directories, each transport with a label and colour of its own.

    Raises:
        ConfigError: no directory, or one without a run.
    """
    if not paths:
        raise ConfigError("runs", [], "at least one run directory")
    runs = [load_run(path) for path in paths]
    _tell_apart(runs)
    return runs


def load_run(path: Path) -> RunRecord:
    """The run in one directory.

    Raises:
        ConfigError: the directory holds no run, or an invalid summary.
    """
    try:
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        transports = summary["transports"]
    except (OSError, json.JSONDecodeError, KeyError, TypeError) as error:
        words = "a run directory with a summary.json"
        raise ConfigError("run directory", str(path), words, hint=f"{type(error).__name__}: {error}") from None
    settings = path / "settings.yaml"
    records = [
        TransportRecord(name, name, _COLOURS.get(name, ""), path / name, figures)
        for name, figures in transports.items()
    ]
    end_s = max((record.end_s for record in records), default=0.0)
    return RunRecord(
        path=path,
        summary=summary,
        settings=settings.read_text(encoding="utf-8") if settings.exists() else "",
        faults=tuple(_band(fault, end_s) for fault in summary.get("faults", ()) if fault["start_ps"] * PS <= end_s),
        transports=tuple(records),
    )


def _band(fault: Mapping[str, Any], end_s: float) -> Band:
    until = fault.get("end_ps")
    return Band(
        text=str(fault["text"]),
        start_s=fault["start_ps"] * PS,
        end_s=end_s if until is None else until * PS,
        plane=fault.get("plane"),
    )


def _tell_apart(runs: Sequence[RunRecord]) -> None:
    """Unique labels: with the run's name if there are several, with its directory if names repeat; colours by label."""
    names = [run.name for run in runs]
    taken: set[str] = set()
    spare = iter(_OTHER_COLOURS * 8)
    for run in runs:
        prefix = "" if len(runs) == 1 else run.path.name if names.count(run.name) > 1 else run.name
        for record in run.transports:
            record.label = f"{prefix} · {record.name}" if prefix else record.name
            if not record.colour or record.colour in taken:
                record.colour = next(colour for colour in spare if colour not in taken or len(taken) > 6)
            taken.add(record.colour)
