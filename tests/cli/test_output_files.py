"""Files that commands are to write are checked before the run, whatever the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmrc.cli.main import main

COMMANDS = [
    ("demo", "--report"),
    ("demo", "--json"),
    ("demo", "--picture"),
    ("demo", "train", "--json"),
    ("demo", "train", "--html"),
    ("bench", "live", "--json"),
    ("perf", "write", "127.0.0.1", "--json"),
    ("perf", "latency", "127.0.0.1", "--json"),
    ("doctor", "--json"),
    ("plan", "fabrics/demo.yaml", "--json"),
    ("plan", "fabrics/demo.yaml", "--html"),
    ("paper", "--json"),
    ("sim", "run", "scenario.yaml", "--json"),
    ("testbed", "compare", "fabrics/demo.yaml", "--json"),
    ("testbed", "compare", "fabrics/demo.yaml", "--html"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
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


@pytest.mark.parametrize(
    "command",
    [
        ("sim", "run", "scenario.yaml", "--out"),
        ("sim", "report", "some.run", "--out"),
        ("sweep", "sweep.yaml", "--out"),
        ("paper", "--out"),
        ("plan", "fabrics/demo.yaml", "--out"),
    ],
    ids=" ".join,
)
def test_a_folder_that_cannot_be_made_is_refused_before_the_run(command, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as ended:
        main([*command, str(tmp_path / "file" / "folder")])
    assert ended.value.code == 2
    assert "is no folder" in capsys.readouterr().err


def test_the_check_leaves_nothing_behind_and_changes_nothing(tmp_path, capsys):
    kept = tmp_path / "kept.json"
    kept.write_text("as it was")
    for path in (tmp_path / "new.json", kept):
        with pytest.raises(SystemExit) as ended:
            main(["bench", "live", "--planes", "0", "--json", str(path)])
        assert ended.value.code == 2
    assert kept.read_text() == "as it was"
    assert list(tmp_path.iterdir()) == [kept]
