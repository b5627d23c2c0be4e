"""ARCHITECTURE.md names every package and folder of the tree, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOTS = ("", "src", "src/openmrc", "native", "native/engine")


@pytest.fixture(scope="module")
def named(repository: Path) -> set[str]:
    """Words in backticks of the text, code blocks left out."""
    text = re.sub(
        r"^```.*?^```", "", (repository / "ARCHITECTURE.md").read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    return set(re.findall(r"`([^`\n]+)`", text))


def test_every_package_is_named(repository: Path, named: set[str]) -> None:
    words = {word.removeprefix("src/openmrc/") for word in named}
    packages = {path.parent.name for path in (repository / "src" / "openmrc").glob("*/__init__.py")}
    assert packages - words == set()


def test_every_native_folder_is_named(repository: Path, named: set[str]) -> None:
    native = repository / "native"
    folders = [path for path in (*native.iterdir(), *(native / "engine").iterdir()) if path.is_dir()]
    paths = {path.relative_to(repository).as_posix() for path in folders if path.name not in ("tests", "generated")}
    assert {path for path in paths if path not in named and path.removeprefix("native/engine/") not in named} == set()


def test_every_path_that_is_named_exists(repository: Path, named: set[str]) -> None:
    paths = {word for word in named if re.fullmatch(r"[\w./-]*(/[\w.-]+|\.(py|hpp|cpp))", word)}
    files = {path.name for root in ("src", "native") for path in (repository / root).rglob("*.*")}

    def exists(path: str) -> bool:
        return any((repository / root / path).exists() for root in ROOTS) or ("/" not in path and path in files)

    assert {path for path in paths if not exists(path)} == set()
