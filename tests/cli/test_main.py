"""The command `openmrc`: what it lists, how it fails."""

from __future__ import annotations

import subprocess
import sys

import pytest

from openmrc.cli.main import COMMANDS


def openmrc(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "openmrc.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_help_lists_every_command() -> None:
    done = openmrc("--help")
    assert done.returncode == 0
    assert not [name for name in COMMANDS if name not in done.stdout]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    done = openmrc(name, "--help")
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def test_version() -> None:
    done = openmrc("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("openmrc ")


def test_no_arguments_is_a_usage_error_that_shows_the_commands() -> None:
    done = openmrc()
    assert done.returncode == 2
    assert "demo" in done.stdout + done.stderr


def test_a_misspelt_command_is_suggested_and_no_traceback() -> None:
    done = openmrc("dmeo")
    assert done.returncode == 2
    assert "demo" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_value_is_one_sentence_and_exit_code_2() -> None:
    done = openmrc("bench", "live", "--rate", "fast")
    assert done.returncode == 2
    assert "--rate is 'fast'" in done.stderr
    assert "Traceback" not in done.stderr
