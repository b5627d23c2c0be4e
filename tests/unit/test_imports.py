"""No cyclic imports between files of the package; imports for type checkers alone are left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest


def modules(root: Path) -> dict[str, Path]:
    """Files of a package by the name of their module."""
    found = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def runs(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below this one that are executed, in functions, too."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child
        yield from runs(child)


def imports(path: Path, known: dict[str, Path]) -> set[str]:
    """Modules of the package that a file imports; of `from package import module`, the module."""
    found = set()
    for node in runs(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found |= {name if (name := f"{node.module}.{one.name}") in known else node.module for one in node.names}
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
    return found & known.keys()


def circle(root: Path) -> list[str] | None:
    """Modules that import each other in a cycle; None: there is none."""
    known = modules(root)
    try:
        TopologicalSorter({name: imports(path, known) for name, path in known.items()}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return None


def test_no_file_imports_another_one_in_a_circle(repository: Path) -> None:
    assert circle(repository / "src" / "openmrc") is None


def test_a_circle_is_found_in_functions_and_not_in_types(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("from package.two import name\n")
    (package / "two.py").write_text("if TYPE_CHECKING:\n    from package import one\n")
    assert circle(package) is None
    (package / "two.py").write_text("def late():\n    from package import one\n")
    assert set(circle(package) or ()) == {"package.one", "package.two"}


@pytest.mark.parametrize("text", ["import package.one", "from package.one import name", "from package import one"])
def test_every_form_of_import_counts(tmp_path: Path, text: str) -> None:
    package = tmp_path / "package"
    package.mkdir()
    for name in ("__init__", "one"):
        (package / f"{name}.py").write_text("")
    (package / "two.py").write_text(f"{text}\n")
    assert imports(package / "two.py", modules(package)) == {"package.one"}
