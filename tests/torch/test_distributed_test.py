"""The script that runs PyTorch's own DistributedTest: its subset passes on four ranks, and it can be interrupted."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.live]

RANKS = 4
ROOT = Path(__file__).parents[2]
SCRIPT = [sys.executable, str(ROOT / "tools" / "distributed_test.py"), "--ranks", str(RANKS)]


@pytest.mark.timeout(300)
def test_the_subset_passes_on_four_ranks(tmp_path: Path):
    file = tmp_path / "found.json"
    done = subprocess.run([*SCRIPT, "--subset", "--json", str(file)], capture_output=True, text=True, check=False)
    (found,) = json.loads(file.read_text())
    assert found["differences"] == [], done.stdout
    assert done.returncode == 0
    outcomes = found["outcomes"]["mrc"]
    assert len(outcomes) >= 30
    assert {one["outcome"] for one in outcomes} == {"passed"}


def test_an_interrupt_ends_the_ranks_and_lists_what_was_found(tmp_path: Path):
    file = tmp_path / "found.json"
    process = subprocess.Popen(
        [*SCRIPT, "--tests", "test_barrier*", "test_get_rank", "--jobs", "1", "--json", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    started: list[int] = []
    while len(started) < RANKS and process.poll() is None:
        started = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in output
    assert [one["ranks"] for one in json.loads(file.read_text())] == [RANKS]
    while any(alive(one) for one in started):  # killed, and gone as soon as the kernel comes to it
        pass


def descendants(process: int) -> list[int]:
    found = []
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended
            for child in map(int, listed.read_text().split()):
                found += [child, *descendants(child)]
    return found


def alive(process: int) -> bool:
    status = Path(f"/proc/{process}/status")
    return status.exists() and "State:\tZ" not in status.read_text()
