"""Summaries and tables of runs have exactly the keys, columns and types that `spec/results.toml` describes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

from openmrc.sim import make_scenario, result_schema, run
from openmrc.sim.checks import METRICS
from openmrc.sim.recorder import DROP_CAUSES
from openmrc.sim.result import Result
from openmrc.sim.result_schema import DropCounts, RunSummary, TransportSummary

MRC_ONLY = {"evs", "active_per_port", "paths_per_plane"}
TABLES = {
    "flows": result_schema.FlowColumns,
    "series_goodput": result_schema.GoodputSeries,
    "series_planes": result_schema.PlaneSeries,
    "series_hosts": result_schema.HostSeries,
    "series_queues": result_schema.QueueSeries,
    "series_pauses": result_schema.PauseSeries,
    "drops": result_schema.DropSeries,
    "path_events": result_schema.PathEventColumns,
}


@pytest.fixture(scope="module")
def result() -> Result:
    """A run with every table: PFC pauses an incast, and a dead link loses packets and changes paths."""
    fabric = {"hosts": 8, "hosts_per_t0": 4, "t1s": 2, "planes": 2, "rate": "10Gbit", "pfc": "on", "trim": "off"}
    return run(
        make_scenario(
            name="every-table",
            fabric=fabric,
            workload={"name": "incast", "bytes": "1MiB", "senders": 6},
            transports={"mrc": {"probe_interval": "1ms"}, "roce": None},
            faults=["plane 0 blackhole at 100us for 300us"],
            watch={"series": ["planes", "hosts", "queues", "paths"], "hosts": [0, 1]},
        )
    )


def test_every_table_has_the_described_columns_and_types(result: Result, tmp_path: Path) -> None:
    assert set().union(*(one.tables for one in result)) == set(TABLES)
    loaded = Result.load(result.save(tmp_path / "run"))
    for one in (*result, *loaded):
        for name, table in one.tables.items():
            described = {column: _dtype(hint) for column, hint in get_type_hints(TABLES[name]).items()}
            assert list(table) == list(described), name
            for column, values in table.items():
                text = described[column] is np.str_
                assert (values.dtype.kind in "UO") if text else (values.dtype == described[column]), (name, column)


def _dtype(hint: Any) -> Any:
    """The scalar type in `numpy.typing.NDArray[...]`."""
    return hint.__args__[1].__args__[0]


def test_every_summary_has_the_described_keys_in_json_types(result: Result) -> None:
    whole = json.loads(json.dumps(result.summary))
    assert set(whole) == set(RunSummary.__annotations__)
    for name, figures in whole["transports"].items():
        assert set(figures) == set(TransportSummary.__annotations__) - (set() if name == "mrc" else MRC_ONLY)
        assert set(figures["drops"]) == set(DropCounts.__annotations__) == set(DROP_CAUSES)
    assert set(whole["faults"][0]) == set(result_schema.FaultSummary.__annotations__)


def test_expectations_are_about_figures_of_the_summary() -> None:
    known = {*TransportSummary.__annotations__, *(f"drops.{cause}" for cause in DROP_CAUSES)}
    assert {metric.key for metric in METRICS.values()} <= known
