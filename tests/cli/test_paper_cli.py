"""`openmrc paper` from the outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from process_tree import descendants
from waiting import until

from openmrc.paper import experiments


def openmrc(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "openmrc.cli.main", "paper", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)


def test_the_list_names_every_figure_and_runs_nothing() -> None:
    done = openmrc("--list")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == [each.figure for each in experiments()]


@pytest.mark.slow
def test_a_figure_that_is_not_there_is_named_with_what_there_is() -> None:
    done = openmrc("9z")
    assert done.returncode == 2
    assert "9z" in done.stderr
    assert "9a" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_run_ends_in_a_table_a_page_pictures_and_json(tmp_path: Path) -> None:
    done = openmrc(
        "12", "10", "--quick", "--workers", "2", "--out", str(tmp_path), "--json", str(tmp_path / "all.json")
    )
    assert done.returncode == 0, done.stderr
    assert "as in the paper" in done.stdout
    assert "EV-A leaves at once" in done.stdout
    table = (tmp_path / "table.md").read_text()
    assert table.count("**as in the paper**") == 2
    assert "(fig13.png)" in table
    page = (tmp_path / "index.html").read_text()
    assert page.count("data:image/png;base64,") == 3  # of 10, 12 and 13
    assert "quick" in page
    assert (tmp_path / "fig10.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads((tmp_path / "all.json").read_text())
    assert found["quick"] is True
    assert [each["figure"] for each in found["findings"]] == ["12/13", "10"]
    assert all(number["met"] for each in found["findings"] for number in each["numbers"])


@pytest.mark.slow
def test_an_interrupt_ends_it_without_a_table_of_half_runs() -> None:
    command = [sys.executable, "-m", "openmrc.cli.main", "paper", "16", "--workers", "2"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        until(lambda: len(descendants(process.pid)) >= 3)  # two workers, whose simulations take minutes, and a tracker
        time.sleep(1)
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "verdict" not in output
    assert "Traceback" not in errors
