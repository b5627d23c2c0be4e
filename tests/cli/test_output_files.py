"""Output files of all commands are checked before the run."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from typer.models import OptionInfo

from openmrc.cli.main import COMMANDS, main

COMMANDS_TESTED = [
    ("demo", "--report"),
    ("demo", "--json"),
    ("demo", "--picture"),
    ("demo", "train", "--json"),
    ("demo", "train", "--html"),
    ("bench", "live", "--json"),
    ("bench", "profile", "--json"),
    ("bench", "profile", "--html"),
    ("bench", "scenario", "scenario.yaml", "--json"),
    ("perf", "write", "127.0.0.1", "--json"),
    ("perf", "latency", "127.0.0.1", "--json"),
    ("doctor", "--json"),
    ("plan", "fabrics/demo.yaml", "--json"),
    ("plan", "fabrics/demo.yaml", "--html"),
    ("paper", "--json"),
    ("sim", "run", "scenario.yaml", "--json"),
    ("testbed", "run", "scenario.yaml", "--json"),
    ("testbed", "compare", "fabrics/demo.yaml", "--json"),
    ("testbed", "compare", "fabrics/demo.yaml", "--html"),
    ("eval", "profile", "runs.csv", "--out"),
    ("eval", "profile", "runs.csv", "--html"),
    ("eval", "profile", "runs.csv", "--json"),
    ("eval", "size", "--effect=5%", "--json"),
    ("eval", "plan", "runs.csv", "--cluster=rig.yaml", "--order"),
    ("eval", "plan", "runs.csv", "--cluster=rig.yaml", "--html"),
    ("eval", "plan", "runs.csv", "--cluster=rig.yaml", "--json"),
    ("eval", "simulate", "plan.json", "--json"),
]


@pytest.mark.parametrize("command", COMMANDS_TESTED, ids=" ".join)
def test_a_file_that_cannot_be_written_is_refused_before_the_run(command, tmp_path, capsys):
    for path, reason in (
        (tmp_path / "none" / "file", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (Path("/dev/null/file"), "Not a directory"),
    ):
        with pytest.raises(SystemExit) as ended:
            main([*command, str(path)])
        assert ended.value.code == 2
        shown = capsys.readouterr()
        assert f"{command[-1]} is {path}" in shown.err.replace(repr(str(path)), str(path))
        assert reason in shown.err
        assert shown.out == ""


FOLDER_COMMANDS = [
    ("sim", "run", "scenario.yaml", "--out"),
    ("sim", "report", "some.run", "--out"),
    ("sweep", "sweep.yaml", "--out"),
    ("paper", "--out"),
    ("plan", "fabrics/demo.yaml", "--out"),
]


@pytest.mark.parametrize("command", FOLDER_COMMANDS, ids=" ".join)
def test_a_folder_that_cannot_be_made_is_refused_before_the_run(command, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for path, reason in (
        (tmp_path / "file" / "folder", "is not a folder"),
        (Path("/proc/nothing/folder"), "/proc: No such file or directory"),  # not even root can write there
    ):
        with pytest.raises(SystemExit) as ended:
            main([*command, str(path)])
        assert ended.value.code == 2
        assert reason in capsys.readouterr().err


SCENARIO = """
fabric: {planes: 1, hosts: 2, hosts_per_t0: 1, t1s: 1, rate: 10Gbit, delay: 1us}
workload: {name: permutation, bytes: 4KB}
transports: {mrc: }
"""


@pytest.mark.parametrize("command", ["sim run {folder}/one.yaml", "sweep {folder}/many.yaml", "demo"])
def test_the_place_that_is_taken_without_the_option_is_checked_too(command, tmp_path, monkeypatch, capsys):
    (tmp_path / "one.yaml").write_text(SCENARIO)
    (tmp_path / "many.yaml").write_text("scenario: one.yaml\nparameters: {fabric.planes: [1, 2]}\n")
    monkeypatch.chdir("/proc/self/fd")
    with pytest.raises(SystemExit) as ended:
        main(command.format(folder=tmp_path).split())
    assert ended.value.code == 2
    assert "writable f" in capsys.readouterr().err


def options_for_paths() -> set[tuple[str, ...]]:
    """Every option with a path as its value, as (command, ..., option)."""
    found = set()
    for name in COMMANDS:
        app = import_module(f"openmrc.cli.{name}").app
        entries = [*app.registered_commands, *([app.registered_callback] if app.registered_callback else [])]
        for entry in entries:
            part = entry.name or entry.callback.__name__
            words = (name,) if part == name else (name, part)
            for parameter, hint in get_type_hints(entry.callback, include_extras=True).items():
                form, *notes = get_args(hint) or (None,)
                if any(isinstance(note, OptionInfo) for note in notes) and Path in (form, *get_args(form)):
                    (info,) = [note for note in notes if isinstance(note, OptionInfo)]
                    named = [text for text in (info.default, *(info.param_decls or ())) if isinstance(text, str)]
                    found.add((*words, max(named, key=len, default=f"--{parameter.replace('_', '-')}")))
    return found


def test_every_option_for_a_path_is_among_those_tested_here():
    commands = (*COMMANDS_TESTED, *FOLDER_COMMANDS)
    tested = {tuple(word for word in command if not re.search(r"[/.\d]", word)) for command in commands}
    read = {
        ("plan", "--prices"),
        ("eval", "plan", "--cluster"),
        ("eval", "size", "--baseline"),
        ("eval", "size", "--candidate"),
        ("eval", "simulate", "--with"),
    }
    assert tested < options_for_paths() | {("demo", "train", "--html")}
    assert options_for_paths() - tested - read == set()


@pytest.mark.slow
@pytest.mark.parametrize("program", ["run", "engine", "sim", "ordinary", "live", "evals", "_ordinary_sim"])
def test_benchmarks_refuse_a_file_that_cannot_be_written(program, tmp_path):
    done = subprocess.run(
        [sys.executable, f"benchmarks/{program}.py", "--json", str(tmp_path / "none" / "rows.json")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "a writable file: No such file or directory" in done.stderr
    assert done.stdout == ""


def test_the_check_leaves_nothing_behind_and_changes_nothing(tmp_path, capsys):
    kept = tmp_path / "kept.json"
    kept.write_text("as it was")
    for path in (tmp_path / "new.json", kept):
        with pytest.raises(SystemExit) as ended:
            main(["bench", "live", "--planes", "0", "--json", str(path)])
        assert ended.value.code == 2
    assert kept.read_text() == "as it was"
    assert list(tmp_path.iterdir()) == [kept]
