"""`openmrc plan --out` from the outside."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import until

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "fabrics" / "small.yaml"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "openmrc.cli.main", "plan", *arguments]


def plan(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_files_of_all_formats_and_hosts(tmp_path: Path) -> None:
    done = plan(tmp_path, str(SMALL), "--out", "configs", "--format", "linux,sonic,eos,frr", "--hosts", "--encap")
    assert (done.returncode, done.stdout, done.stderr) == (0, "38 files below configs\n", "")
    assert len(list((tmp_path / "configs").rglob("*.*"))) == 38


def test_json_on_stdout_stays_json(tmp_path: Path) -> None:
    done = plan(tmp_path, str(SMALL), "--out", "configs", "--nodes", "p0-*", "--json", "-")
    assert json.loads(done.stdout)["name"] == "small"
    assert len(list((tmp_path / "configs").rglob("*.sh"))) == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--hosts"], "only with --out DIR"),
        (["--out", "configs", "--encap"], "only with --hosts"),
        (["--out", "configs", "--format", "none"], "add --hosts"),
        (["--out", "configs", "--format", "sonik"], "did you mean 'sonic'?"),
        (["--out", "configs", "--ports", "swp{1}"], "FORMAT=PATTERN"),
        (["--out", "configs", "--nodes", "p7-*"], "p7-*"),
    ],
)
def test_wrong_options_are_one_sentence(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = plan(tmp_path, str(SMALL), *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_interrupted_it_leaves_whole_files(tmp_path: Path) -> None:
    design = str(ROOT / "fabrics" / "design-131072.yaml")
    with subprocess.Popen(
        command(design, "--out", "configs"), cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as running:
        until(lambda: list(tmp_path.rglob("*.sh")))
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=60)[1]
    assert running.returncode == 130
    assert "Traceback" not in said
    left = list((tmp_path / "configs" / "linux").iterdir())
    assert 0 < len(left) < 6144
    assert all(path.read_text().endswith("\nEND\n") for path in left)
