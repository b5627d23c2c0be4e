"""Environment variables: unknown ones are reported with the nearest known one, and every one in use is known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from openmrc.cli.main import main
from openmrc.variables import VARIABLES, unknown_variables

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("OPENMRC_PORT", "did you mean 'OPENMRC_PORTS'?"),
        ("OPENMRC_SHARED_MEM", "did you mean 'OPENMRC_SHARED_MEMORY'?"),
        ("openmrc_paths", "did you mean 'OPENMRC_PATHS'?"),
        ("OPENMRC_VERBOSITY", "known are OPENMRC_PORTS, "),
    ],
)
def test_an_unknown_variable_is_named_with_the_nearest_known_one(name: str, nearest: str):
    (warning,) = unknown_variables({name: "1", "OPENMRC_HOST": "a", "HOME": "/"})
    assert warning.startswith(f"the environment variable {name} has no effect")
    assert nearest in warning


def test_known_variables_are_no_reason_for_a_warning():
    internal = ("OPENMRC_PARENT_PID", "OPENMRC_TESTBED_KEEPER")
    assert unknown_variables(dict.fromkeys((*VARIABLES, *internal, "PATH", "MY_OPENMRC"), "1")) == []


def test_every_variable_in_the_sources_of_the_package_is_known():
    text = "\n".join(path.read_text() for path in (REPOSITORY / "src").rglob("*.py"))
    assert unknown_variables(dict.fromkeys(re.findall(r"\bOPENMRC_[A-Z_]+", text), "1")) == []


def test_every_variable_for_users_is_in_the_guide():
    guides = [(REPOSITORY / "docs" / "guides" / name).read_text() for name in ("pytorch.md", "rdma-programs.md")]
    assert [name for name in VARIABLES if not any(name in guide for guide in guides)] == []


def test_commands_warn_on_stderr_and_go_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("OPENMRC_PORT", "eth0")
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert not ended.value.code
    shown = capsys.readouterr()
    assert "openmrc: warning: the environment variable OPENMRC_PORT has no effect" in shown.err
    assert shown.out.startswith("openmrc ")
