"""`benchmarks/programs.py`: programs beside their comparison, and a row without a value for a program that fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rdma_programs import needs

from openmrc.runs.processes.veth_pairs import namespaces_allowed

PROGRAM = Path(__file__).resolve().parents[2] / "benchmarks" / "programs.py"

pytestmark = [
    *needs("ib_write_lat", "ib_send_lat", "ib_read_lat"),
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.timeout(400),
]


@pytest.fixture(autouse=True)
def namespaces() -> None:
    """Skips if this process may not create network namespaces."""
    if not namespaces_allowed():
        pytest.skip("network namespaces need root")


def rows_of(folder: Path, case: str, **environment: str) -> tuple[dict[str, dict[str, Any]], str]:
    """(Rows by metric, output) of a successful run."""
    command = [sys.executable, str(PROGRAM), "--repeats", "1", "--only", case, "--json", str(folder / "rows.json")]
    env = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=380, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((folder / "rows.json").read_text())["rows"]
    return {row["metric"]: row for row in rows}, done.stderr


def test_a_program_is_beside_openmrc_perf(tmp_path: Path):
    rows, _ = rows_of(tmp_path, "write-latency")
    program = rows["ib_write_lat: half round trip, median"]["value"]
    ours = rows["openmrc perf latency: half round trip, median"]["value"]
    assert rows["ib_write_lat of openmrc perf latency"]["value"] == pytest.approx(program / ours)
    assert rows["ib_write_lat: half round trip, 99th percentile"]["value"] >= program


def test_a_program_that_fails_is_a_row_without_a_value(tmp_path: Path):
    """QPs that only write refuse SENDs."""
    rows, said = rows_of(tmp_path, "rc-latency", OPENMRC_QP="mrc")
    assert "ib_send_lat, " in said
    assert rows["ib_send_lat: median"]["value"] is None
