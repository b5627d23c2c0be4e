"""The example is an ordinary script: it imports nothing of openmrc, and trains what it trains on Gloo."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytestmark = [pytest.mark.live]


def train(repository: Path, backend: str) -> list[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += [str(repository / "examples" / "train_ddp.py"), "--backend", backend]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert (backend == "mrc") == ("openmrc: rank 0 of 2, " in done.stderr)
    return done.stdout.splitlines()


def test_an_unmodified_script_trains_the_same_on_both_backends(repository: Path):
    assert "openmrc" not in (repository / "examples" / "train_ddp.py").read_text()
    assert [one.value for one in entry_points(group="torch.backends", name="openmrc")] == [
        "openmrc.torch.entry:register"
    ]
    ours = train(repository, "mrc")
    assert ours == train(repository, "gloo")
    assert "the same at all ranks" in ours[-1]
