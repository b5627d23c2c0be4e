"""Seeded simulation of engine pairs: regression seeds, determinism, and canaries that prove the checkers."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

PASS, USAGE, CRASH, LIVENESS, CORRECTNESS, DETERMINISM = 0, 2, 10, 11, 12, 13
SEEDS: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "seeds.toml").read_text(encoding="utf-8"))["seed"]


def simulate(native_tests: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = native_tests / "openmrc_sim"
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=600)


@pytest.mark.parametrize("entry", SEEDS, ids=lambda entry: str(entry["seed"]))
def test_regression_seeds_stay_fixed(native_tests: Path, entry: dict[str, Any]) -> None:
    """Every seed that ever found a bug passes; the note describes the bug."""
    done = simulate(native_tests, "--seed", str(entry["seed"]))
    assert done.returncode == PASS, f"{entry['note']}\n{done.stderr}"


@pytest.mark.parametrize(
    ("canary", "code"),
    [
        ("memory", CORRECTNESS),
        ("order", CORRECTNESS),
        ("guard", CORRECTNESS),
        ("liveness", LIVENESS),
        ("determinism", DETERMINISM),
        ("crash", CRASH),
    ],
)
def test_broken_on_purpose_fails(native_tests: Path, canary: str, code: int) -> None:
    """A canary's deliberate error is detected, with its own exit code and the command that replays it."""
    done = simulate(native_tests, "--seeds", "0..40", "--canary", canary)
    assert done.returncode == code
    assert "replay: openmrc_sim --seed" in done.stderr


def test_two_processes_agree(native_tests: Path) -> None:
    """The trace hash of a range of seeds is the same in every process."""
    first, second = (simulate(native_tests, "--seeds", "500..520") for _ in range(2))
    assert first.returncode == second.returncode == PASS
    assert first.stdout == second.stdout


def test_a_single_run_prints_its_random_draws(native_tests: Path) -> None:
    done = simulate(native_tests, "--seed", "9", "--verbose")
    assert done.returncode == PASS
    assert done.stdout.startswith("seed 9: ")
    assert "  heals: planes" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [[], ["--seed"], ["--seed", "x"], ["--seeds", "5"], ["--seeds", "5..5"], ["--canary", "dodo"], ["--what", "1"]],
)
def test_wrong_arguments_are_named(native_tests: Path, arguments: list[str]) -> None:
    done = simulate(native_tests, *arguments)
    assert done.returncode == USAGE
    assert done.stderr.startswith("openmrc_sim: ")
