"""The plans in the README can be made as printed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_the_readmes_plans_work_as_printed(repository: Path, tmp_path: Path):
    text = (repository / "README.md").read_text()
    commands = re.findall(r"^\$ openmrc (plan .*)$", text, re.MULTILINE)
    assert len(commands) == 3
    (tmp_path / "fabrics").symlink_to(repository / "fabrics")
    for command in commands:
        argv = [sys.executable, "-m", "openmrc.cli.main", *shlex.split(command)]
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
    assert "6,144 switches" in (tmp_path / "plan.html").read_text()
    assert any((tmp_path / "configuration" / "hosts").iterdir())
