"""The programs printed in the README work as described."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from own_ports import on_own_ports

pytestmark = pytest.mark.live


def test_one_program_writes_into_the_memory_of_the_other(repository: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (repository / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    offers, writes = (
        next(block for block in blocks if word in block) for word in ("openmrc.listen", "openmrc.connect")
    )
    offers, writes = on_own_ports(offers), on_own_ports(writes)
    with subprocess.Popen([sys.executable, "-c", offers], stdout=subprocess.PIPE, text=True) as listener:
        try:
            writer = connect_when_it_listens(writes, listener)
            output, _ = listener.communicate(timeout=30)
        finally:
            listener.kill()
    assert writer.returncode == 0, writer.stderr
    assert output.split(maxsplit=1) == ["42", "[0 0 0 0 1]\n"]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_simulation_runs_as_printed(repository: Path, tmp_path: Path) -> None:
    text = (repository / "README.md").read_text()
    name, scenario, console = re.search(
        r"`(\w+\.yaml)`:\n\n```yaml\n(.*?)^```\n\n```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL
    ).groups()
    (tmp_path / name).write_text(scenario)
    output = ""
    commands = re.findall(r"^\$ openmrc (.*)$", console, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "openmrc.cli.main", *shlex.split(command)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        output += done.stdout
    rows = [line.split("│")[1].strip() for line in console.splitlines() if line.startswith("│")]
    assert len(rows) > 5
    assert [row for row in rows if row not in output] == []
    ratios = re.findall(r"slowest / ideal\D*([\d.]+)\D+([\d.]+)\D+([\d.]+)", output)
    (mrc, roce, dctcp), (*calm,) = (list(map(float, each)) for each in ratios)
    assert 1 <= mrc < 4
    assert min(roce, dctcp) > 4 * mrc
    assert max(calm) < 4, "what the baselines lose by the fault is not what they lose without it"
    assert (tmp_path / "compare.run" / "report" / "fct.png").stat().st_size > 0


def connect_when_it_listens(program: str, listener: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    """Runs the writer, repeatedly until the other program listens."""
    for _ in range(20):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
        if "PeerUnreachableError" not in done.stderr or listener.poll() is not None:
            break
    return done
