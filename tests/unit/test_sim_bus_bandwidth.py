"""Bus bandwidth of collectives: computed by hand for every kind, and as reported by a run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openmrc import sim
from openmrc.sim.bus_bandwidth import bus_bandwidths
from openmrc.sim.tables import Table

US = 1_000_000


def flows(*jobs: tuple[str, int, int]) -> Table[Any]:
    """Flows of jobs (name, ranks, end in us): one of each rank from 10 us on."""
    rows = [(job, rank, 10 * US, end * US) for job, ranks, end in jobs for rank in range(ranks)]
    names, hosts, started, received = zip(*rows, strict=True)
    columns: dict[str, Any] = {"job": np.array(names), "host": np.array(hosts)}
    return Table({**columns, "started_ps": np.array(started), "received_ps": np.array(received)})


@pytest.mark.parametrize(
    ("settings", "gbps"),
    [
        ({"name": "all_reduce"}, 2 * 3 / 4 * 8),
        ({"name": "all_reduce", "repeat": 2}, 2 * 2 * 3 / 4 * 8),
        ({"name": "all_reduce", "group_size": 2}, 2 * 1 / 2 * 8),
        ({"name": "all_gather"}, 3 / 4 * 8),
        ({"name": "reduce_scatter"}, 3 / 4 * 8),
        ({"name": "all_to_all"}, 3 * 8),
    ],
)
def test_bus_bandwidth_is_the_bytes_of_a_nic_over_the_time_of_a_pass(settings: dict[str, Any], gbps: float):
    spec = {**settings, "bytes": "100kB"}  # in 100 us: 8 Gb/s
    found = bus_bandwidths(spec, flows((settings["name"], 4, 110)))
    assert found == {settings["name"]: pytest.approx(gbps * 1e9)}


def test_every_collective_of_several_jobs_has_its_own():
    jobs = [
        {"name": "all_reduce", "bytes": "100kB", "job": "one"},
        {"name": "all_gather", "bytes": "100kB"},
        {"name": "permutation", "bytes": "100kB"},
    ]
    found = bus_bandwidths(jobs, flows(("one", 4, 110), ("all_gather", 2, 60), ("permutation", 2, 50)))
    assert found == {"one": pytest.approx(12e9), "all_gather": pytest.approx(8e9)}


def test_a_collective_that_did_not_end_has_none():
    table = flows(("all_reduce", 3, 110), ("all_reduce", 1, -1))
    assert bus_bandwidths({"name": "all_reduce", "bytes": "1MB"}, table) == {"all_reduce": None}


def test_a_run_reports_it_below_the_rate_of_a_nic():
    fabric = {"planes": 2, "hosts": 4, "hosts_per_t0": 2, "t1s": 2, "rate": "100Gbit", "delay": "500ns"}
    workload = {"name": "all_reduce", "bytes": "4MB"}
    summary = sim.run(sim.make_scenario(fabric=fabric, workload=workload, transports=["mrc"]))["mrc"].summary
    assert summary["bus_bps_by_job"] == {"all_reduce": summary["bus_bps"]}
    assert 100e9 < summary["bus_bps"] < 200e9
    assert summary["bus_bps"] == pytest.approx(1.5 * 4e6 * 8e12 / summary["finish_ps"])
