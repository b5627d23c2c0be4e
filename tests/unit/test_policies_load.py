"""Files and modules that register policies: found, imported once, and refused with the reason."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from openmrc import policies
from openmrc._native import paths
from openmrc.errors import ConfigError

REGISTERS = """
from openmrc import policies
from openmrc.policies.signatures import Prototype

function = Prototype(policies.NEXT_SIGNATURE).ctype()(lambda state, count: 1)
policies.register_ev_selector("{name}", next=function)
"""


def test_a_file_is_imported_once(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(REGISTERS.format(name="test_load_file"))
    module = policies.load(file)
    assert "test_load_file" in paths.selector_names()
    assert policies.load(file) is module
    assert policies.load("mine.py", folder=tmp_path) is module
    assert policies.load("../" + tmp_path.name + "/mine.py", folder=tmp_path) is module


def test_two_files_of_one_name_are_two(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(REGISTERS.format(name=f"test_load_{folder}"))
        policies.load("mine.py", folder=tmp_path / folder)
    assert {"test_load_a", "test_load_b"} <= set(paths.selector_names())


def test_a_module_is_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test_load_module.py").write_text(REGISTERS.format(name="test_load_module"))
    monkeypatch.syspath_prepend(tmp_path)
    assert policies.load("test_load_module") is policies.load("test_load_module")
    assert "test_load_module" in paths.selector_names()
    # A scenario may name the same module by its path.
    assert policies.load(tmp_path / "test_load_module.py") is sys.modules["test_load_module"]


def test_a_program_may_name_itself(tmp_path: Path) -> None:
    import subprocess

    program = tmp_path / "program.py"
    program.write_text(REGISTERS.format(name="test_load_self") + f"print(policies.load({str(program)!r}).__name__)\n")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("__main__\n", "")


def test_missing_places_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a Python file that exists"):
        policies.load("nowhere.py", folder=tmp_path)
    with pytest.raises(ConfigError, match="policies is 'openmrc_nowhere'"):
        policies.load("openmrc_nowhere")


def test_a_file_that_raises_is_refused_with_the_reason(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("1 / 0\n")
    with pytest.raises(ConfigError, match="ZeroDivisionError") as caught:
        policies.load(file)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    file.write_text("def (:\n")
    with pytest.raises(ConfigError, match="SyntaxError"):
        policies.load(file)


def test_a_name_that_is_taken_comes_through(tmp_path: Path) -> None:
    file = tmp_path / "taken.py"
    file.write_text(REGISTERS.format(name="mrc"))
    with pytest.raises(ConfigError, match="ev_selector is 'mrc'"):
        policies.load(file)
