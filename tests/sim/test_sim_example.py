"""The example program of the simulator runs unchanged and draws its picture."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "simulate_cluster.py"


@pytest.mark.slow
def test_the_example_prints_its_table_and_draws_its_picture(tmp_path: Path):
    picture = tmp_path / "flaps.png"
    done = subprocess.run([sys.executable, EXAMPLE, picture], capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    assert "ratio_p100" in done.stdout
    assert picture.read_bytes().startswith(b"\x89PNG")
