"""Results of a simulation: a summary, the flows, and time series, for each transport."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from openmrc.errors import ConfigError, did_you_mean
from openmrc.sim.checks import Expectation, Failure, unmet
from openmrc.sim.result_schema import FaultSummary, FlowColumns, RunSummary, TransportSummary
from openmrc.sim.store import StoredRun, load_run, save_run
from openmrc.sim.tables import Table

__all__ = ["Result", "TransportResult"]


@dataclass(frozen=True)
class TransportResult:
    """Results of one transport.

    Args:
        name: Of the transport in the scenario.
        summary: Figures, units in the names; None if a run has no such figure.
        tables: `flows`, and the recorded series; docs/reference/simulation-results.md lists them with their columns.
    """

    name: str
    summary: TransportSummary
    tables: Mapping[str, Table[Any]] = field(repr=False)

    @property
    def flows(self) -> Table[FlowColumns]:
        """One row per message."""
        return self.tables["flows"]

    @property
    def series(self) -> dict[str, Table[Any]]:
        """All time series, by name."""
        return {name: table for name, table in self.tables.items() if name != "flows"}


@dataclass(frozen=True)
class Result:
    """Results of a scenario, transport by transport: `result["mrc"].summary`, `result["mrc"].flows.polars()`.

    A run is identified by (commit, seed, scenario hash): the same three give the same result.
    """

    name: str
    seed: int
    commit: str
    scenario_hash: str
    settings: Mapping[str, Any] = field(repr=False)
    transports: Mapping[str, TransportResult]
    faults: tuple[FaultSummary, ...] = ()
    expect: tuple[Expectation, ...] = ()
    interrupted: bool = False
    command: str = ""

    def __getitem__(self, name: str) -> TransportResult:
        if name not in self.transports:
            known = list(self.transports)
            raise ConfigError("transport", name, ", ".join(known), hint=did_you_mean(name, known))
        return self.transports[name]

    def __iter__(self) -> Iterator[TransportResult]:
        return iter(self.transports.values())

    def __len__(self) -> int:
        return len(self.transports)

    @property
    def summary(self) -> RunSummary:
        """All figures: identification of the run, and under `transports` the summary of each; consists of JSON objects
        only.
        """
        return {
            "name": self.name,
            "seed": self.seed,
            "commit": self.commit,
            "scenario_hash": self.scenario_hash,
            "interrupted": self.interrupted,
            "command": self.command,
            "faults": list(self.faults),
            "transports": {each.name: each.summary for each in self},
        }

    @property
    def flows(self) -> Table[Any]:
        """The flows of all transports, with a column `transport`."""
        columns = [{"transport": np.full(each.flows.rows, each.name), **each.flows} for each in self]
        return Table({name: np.concatenate([one[name] for one in columns]) for name in columns[0]} if columns else {})

    def unmet(self) -> list[Failure]:
        """Violations of the scenario's `expect:` in this run, including an end other than by itself."""
        return unmet(self.expect, {each.name: each.summary for each in self})

    def save(self, folder: str | Path) -> Path:
        """Writes a run directory; replaces an existing run.

        Raises:
            OpenmrcError: Polars is not installed.
            ConfigError: the folder contains something other than a run.
        """
        tables = {each.name: each.tables for each in self}
        return save_run(StoredRun(self.summary, self.settings, tables), Path(folder))

    @staticmethod
    def load(folder: str | Path) -> Result:
        """The run in a directory; expectations are not stored in it.

        Raises:
            ConfigError: the folder holds no run.
            OpenmrcError: Polars is not installed.
        """
        summary, settings, tables = load_run(Path(folder))
        return Result(
            name=summary["name"],
            seed=summary["seed"],
            commit=summary["commit"],
            scenario_hash=summary["scenario_hash"],
            settings=settings,
            transports={
                name: TransportResult(name, figures, tables[name]) for name, figures in summary["transports"].items()
            },
            faults=tuple(summary["faults"]),
            interrupted=summary["interrupted"],
            command=summary["command"],
        )
