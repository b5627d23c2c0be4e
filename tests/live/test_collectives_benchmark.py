"""`benchmarks/collectives.py`: its rows exist, and a failing backend does not affect the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openmrc.runs.processes.veth_pairs import namespaces_allowed

PROGRAM = Path(__file__).resolve().parents[2] / "benchmarks" / "collectives.py"

pytest.importorskip("torch", reason="the extra `torch` is not installed")
pytestmark = [pytest.mark.live, pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(autouse=True)
def namespaces() -> None:
    """Skips if this process may not create network namespaces."""
    if not namespaces_allowed():
        pytest.skip("network namespaces need root")


def latencies(folder: Path, case: str = "latency", **environment: str) -> tuple[dict[str, dict[str, Any]], str]:
    """(Rows of the first all-reduce by metric, output) of a successful run."""
    command = [sys.executable, str(PROGRAM), "--repeats", "1", "--only", case, "--json", str(folder / "rows.json")]
    env = {**os.environ, **environment}
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    try:
        said, _ = program.communicate(timeout=380)
    finally:
        program.terminate()
        program.wait()
    assert program.returncode == 0, said
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert f"-{program.pid}-" not in left
    rows = json.loads((folder / "rows.json").read_text())["rows"]
    return {row["metric"]: row for row in rows if row["case"].startswith("all-reduce of 8 bytes")}, said


def test_ours_is_beside_gloo(tmp_path: Path):
    rows, _ = latencies(tmp_path)
    assert list(rows)[:2] == ["openmrc", "Gloo"]
    assert rows["openmrc"]["value"] > 0
    assert rows["of Gloo"]["value"] == pytest.approx(rows["openmrc"]["value"] / rows["Gloo"]["value"])


def test_ranks_of_one_host_are_beside_the_same_ranks_over_qps(tmp_path: Path):
    rows, _ = latencies(tmp_path, "one-host")
    assert list(rows)[:3] == ["openmrc", "openmrc over QPs", "Gloo"]
    ratio = rows["openmrc"]["value"] / rows["openmrc over QPs"]["value"]
    assert rows["of openmrc over QPs"]["value"] == pytest.approx(ratio)


def test_a_backend_that_fails_is_a_row_without_a_value(tmp_path: Path):
    """Its transport names no device, so that Gloo's ranks fail before they connect."""
    rows, said = latencies(tmp_path, GLOO_DEVICE_TRANSPORT="NONE")
    assert "Gloo failed" in said
    assert rows["openmrc"]["value"] > 0
    assert rows["Gloo"]["value"] is None
    assert rows["of Gloo"]["met"] is False
