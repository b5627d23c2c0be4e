"""The command `openmrc`: its list of commands, and its failures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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


def subcommands(name: str) -> list[list[str]]:
    """Every command line without options that begins with this command."""
    from importlib import import_module

    import typer

    found = typer.main.get_command(import_module(f"openmrc.cli.{name}").app)
    return [[name], *([name, each] for each in getattr(found, "commands", {}))]


@pytest.mark.parametrize("words", [words for name in COMMANDS for words in subcommands(name)], ids=" ".join)
def test_h_is_help_everywhere(words: list[str]) -> None:
    done = openmrc(*words, "-h")
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def completions(*words: str) -> set[str]:
    """Suggestions of Bash's completion script for the last of the words."""
    settings = {
        "_OPENMRC_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["openmrc", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        [sys.executable, "-m", "openmrc.cli.main"],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return set(done.stdout.split())


def test_commands_and_their_options_are_completed() -> None:
    assert completions("de") == {"demo"}
    assert completions("testbed", "f") == {"fault"}
    assert {"--name", "--clean", "--json"} <= completions("testbed", "up", "--")


def test_the_completion_script_of_bash_is_shell() -> None:
    script = openmrc("--show-completion", "bash")
    assert script.returncode == 0
    assert "complete -o default -F _openmrc_completion openmrc" in script.stdout
    assert subprocess.run(["bash", "-n"], input=script.stdout, text=True, check=False).returncode == 0


COMMANDS_WITH_JSON = {
    "bench": ["bench", "live", "--planes", "1", "--rate", "20Mbit", "--seconds", "1"],
    "doctor": ["doctor"],
    "paper": ["paper", "D2", "--quick"],
    "plan": ["plan", "fabrics/demo.yaml"],
    "sim": ["sim", "run", "scenarios/permutation.yaml"],
}


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS_WITH_JSON)
def test_json_to_stdout_is_json_alone(
    name: str, monkeypatch: pytest.MonkeyPatch, repository: Path, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [str(repository / word) if word.endswith(".yaml") else word for word in COMMANDS_WITH_JSON[name]]
    done = openmrc(*words, "--json", "-")
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)


def test_two_files_on_stdout_are_refused() -> None:
    done = openmrc("bench", "profile", "--json", "-", "--html", "-")
    assert done.returncode == 2
    assert "another option writes to stdout" in done.stderr


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
