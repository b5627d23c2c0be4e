"""Survey of drawn networks: shape of its output, equal output for equal seeds, shares."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest


def survey(native_tests: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = native_tests / "openmrc_survey"
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=600)


def test_drawn_networks_are_filled(native_tests: Path) -> None:
    """Most drawn networks are filled almost completely, and none is left to a large part."""
    done = survey(native_tests, "--seeds", "0..12")
    assert done.returncode == 0, done.stderr
    *networks, summary = done.stdout.splitlines()
    shares = [float(line.split()[0]) for line in networks]
    assert [int(re.findall(r"seed (\d+):", line)[0]) for line in networks] == list(range(12))
    assert summary.startswith("12 networks: mean ")
    assert min(shares) > 0.8
    assert sum(min(share, 1.0) for share in shares) / len(shares) > 0.95


def test_planes_that_become_longer_are_filled(native_tests: Path) -> None:
    """A change of routes is no queue."""
    done = survey(native_tests, "--seeds", "30..36", "--longer")
    assert done.returncode == 0, done.stderr
    shares = [min(float(line.split()[0]), 1.0) for line in done.stdout.splitlines()[:-1]]
    assert len(shares) == 6
    assert sum(shares) / len(shares) > 0.9


def test_packets_with_jitter_fill_planes(native_tests: Path) -> None:
    """Delays that vary hide short buffers and are no overflow of long ones."""
    done = survey(native_tests, "--seeds", "4..5", "--jitter")
    assert done.returncode == 0, done.stderr
    assert " jitter " in done.stdout
    assert float(done.stdout.split()[0]) > 0.85


def test_a_seed_gives_the_same_line_every_time(native_tests: Path) -> None:
    """The whole output of a seed is reproducible."""
    assert survey(native_tests, "--seeds", "1..2").stdout == survey(native_tests, "--seeds", "1..2").stdout


@pytest.mark.parametrize(
    "arguments",
    [(), ("--seeds", "3"), ("--seeds", "5..5"), ("--seeds", "a..b"), ("--seed", "1..2"), ("--seeds", "1..2", "--long")],
)
def test_wrong_arguments_are_explained(native_tests: Path, arguments: tuple[str, ...]) -> None:
    """Exit code 2 and the usage."""
    done = survey(native_tests, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("openmrc_survey: usage: ")
