"""The committed stubs of the extension equal those of the built extension."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

HINT = "after a change to the bindings: `make stub`, and read the difference"


def test_the_committed_stubs_are_current(tmp_path: Path, repository: Path) -> None:
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-r", "-m", "openmrc._native", "-O", str(tmp_path)]
    subprocess.run(command, check=True)
    committed = repository / "src" / "openmrc" / "_native"
    fresh = sorted((tmp_path / "_native").glob("*.pyi"))
    assert [path.name for path in fresh] == sorted(path.name for path in committed.glob("*.pyi")), HINT
    for path in fresh:
        # Compared as syntax trees, since the committed ones are formatted.
        built, known = ast.parse(path.read_text()), ast.parse((committed / path.name).read_text())
        assert ast.dump(built) == ast.dump(known), HINT
