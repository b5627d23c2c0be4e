"""`benchmarks/startup.py`: reports times and descriptors of both backends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "benchmarks" / "startup.py"

pytest.importorskip("torch", reason="the extra `torch` is not installed")
pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


@pytest.mark.slow
def test_a_start_of_ours_is_beside_one_of_gloo(tmp_path: Path) -> None:
    output = tmp_path / "rows.json"
    command = [sys.executable, str(PROGRAM), "--repeats", "1", "--only", "ranks_4", "--json", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["metric"]: row["value"] for row in json.loads(output.read_text())["rows"]}
    assert rows["Gloo, init_process_group"] > 0
    assert rows["mrc, init_process_group"] > 0
    # One connection for each of three others, beside the device's sockets.
    assert 3 < rows["mrc, descriptors of a rank"] < 110
