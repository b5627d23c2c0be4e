"""`openmrc demo train`: the same weights with and without faults, and a page that stands alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openmrc.testbed import rootless

pytest.importorskip("torch", reason="the extra `torch` is not installed")
pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(240)]


def train(folder: Path, *arguments: str) -> tuple[dict[str, Any], str, str]:
    """(Record, page, output) of a quick successful run."""
    command = [sys.executable, "-m", "openmrc.cli.main", "demo", "train", "--quick"]
    files = ["--json", "train.json", "--html", "train.html"]
    done = subprocess.run(
        [*command, *files, *arguments], cwd=folder, capture_output=True, text=True, timeout=220, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "train.json").read_text()), (folder / "train.html").read_text(), done.stdout


def losses(run: dict[str, Any]) -> list[float]:
    """Of all steps."""
    return [step[3] for step in run["steps"]]


def check_mrc(record: dict[str, Any]) -> None:
    whole, broken = record["runs"][:2]
    assert (whole["name"], broken["name"]) == ("mrc-whole", "mrc")
    for run in (whole, broken):
        assert run["finished"]
        assert len(run["steps"]) == run["wanted"] >= 12
        assert sum(losses(run)[-3:]) < sum(losses(run)[:3])
        assert all(series["bytes"][-1] > 0 for series in run["planes_rx"])
    assert losses(whole) == losses(broken)
    assert whole["digest"] == broken["digest"]
    assert record["same_weights"]
    assert record["survived"]
    assert {fault["text"].split()[0] for fault in broken["faults"]} == {"Plane", "T1", "The"}
    assert not whole["faults"]


def test_weights_are_those_of_the_run_without_faults_on_the_emulated_fabric(tmp_path: Path):
    record, page, said = train(tmp_path, "--place", "emulated")
    check_mrc(record)
    assert len(record["runs"]) == 2
    assert "TCP" in record["left_out"]
    assert "Gloo is left out" in said
    assert page.count("<svg") == 5
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


@pytest.mark.root
def test_gloo_trains_on_one_plane_of_the_same_bed(tmp_path: Path):
    pytest.importorskip("pyroute2", reason="the extra `testbed` is not installed")
    if (why := rootless.needed()) is not None:
        pytest.skip(f"a test bed needs root: {why}")
    record, page, _ = train(tmp_path, "--place", "testbed")
    check_mrc(record)
    whole, gloo = record["runs"][2:]
    assert (whole["name"], gloo["name"]) == ("gloo-whole", "gloo")
    assert whole["finished"]
    assert len(whole["steps"]) == whole["wanted"]
    assert not whole["faults"]
    assert gloo["planes_rx"][0]["bytes"][-1] > 0
    assert sum(series["bytes"][-1] for series in gloo["planes_rx"][1:]) < gloo["planes_rx"][0]["bytes"][-1] / 10
    assert page.count("<svg") == 7
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert "train-" not in left


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("train", "--place", "testbad"), ("--place", "testbad", "testbed")),
        (("train", "--steps", "3"), ("--steps", "3", "12 to")),
        (("train", "--seconds", "0"), ("--seconds", "0")),
        (("train", "--html", "/no/such/folder/x.html"), ("--html", "a writable file")),
        (("--seconds", "5", "train"), ("--seconds", "after the word `train`")),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(arguments: tuple[str, ...], words: tuple[str, ...]):
    command = [sys.executable, "-m", "openmrc.cli.main", "demo", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr
