"""The example is an ordinary script without imports of openmrc."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytestmark = [pytest.mark.live]


@pytest.mark.slow
def test_an_unmodified_script_trains(repository: Path):
    script = repository / "examples" / "train_ddp.py"
    assert "openmrc" not in script.read_text()
    (entry,) = entry_points(group="torch.backends", name="openmrc")
    assert entry.value == "openmrc.torch.entry:register"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run([*launcher, script, "--backend", "mrc"], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    assert "openmrc: rank 0 of 2, " in done.stderr
    assert "the same at all ranks" in done.stdout
