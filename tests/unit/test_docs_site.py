"""The documentation site: every public module has a page in its API, every page a place in its navigation."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
API = ROOT / "docs" / "api"
NAVIGATION = [ROOT / "docs" / "index.md", API / "README.md", ROOT / "docs" / "decisions" / "README.md"]
# Their names are offered by other modules, or serve the commands.
INTERNAL = {"cli", "forks", "programs", "record", "testing", "variables"}


def exports(path: Path) -> bool:
    """True if a module has a list of exports."""
    targets = [node.targets for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign)]
    return any(isinstance(name, ast.Name) and name.id == "__all__" for names in targets for name in names)


def test_every_public_module_has_a_page() -> None:
    source = ROOT / "src" / "openmrc"
    modules = {path.parent.name for path in source.glob("*/__init__.py") if exports(path)}
    modules |= {path.stem for path in source.glob("*.py") if path.stem != "__init__" and exports(path)}
    pages = {path.stem.removeprefix("openmrc.") for path in API.glob("openmrc.*.md")}
    assert modules - INTERNAL <= pages


def test_the_short_names_are_those_of_the_front_door() -> None:
    import openmrc

    listed = re.findall(r"^   (\w+)$", (API / "openmrc.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(name for name in openmrc.__all__ if not name.endswith("Error"))


def test_every_page_is_in_the_navigation() -> None:
    linked = {
        (page.parent / link).resolve()
        for page in NAVIGATION
        for link in re.findall(r"\]\(([^)#:]+\.md)\)", page.read_text())
    }
    assert {ROOT / "docs" / "index.md", *linked} >= set((ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--port", "99999"], "--port: 99999: a number from 0 to 65535 is allowed"),
        (["--port=x"], "--port: x: a number"),
        (["8000"], "arguments: 8000: only --port N is allowed"),
    ],
)
def test_a_wrong_port_is_refused_before_anything_is_built(arguments: list[str], message: str) -> None:
    command = [sys.executable, str(ROOT / "tools" / "dev.py"), "docs-serve", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
