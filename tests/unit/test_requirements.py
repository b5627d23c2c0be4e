"""Every rule of the protocol has a place in the code and a test; refusals of tools/requirements.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from requirements import collect, page_of

ROOT = Path(__file__).resolve().parents[2]

PROTOCOL = """\
### A.1 One

**A.1.1 First rule.** Text.

**A.1.2 Second rule.** Text.

### F.2 Two

**F.2.1 Third rule.** Text.
"""
FILES = {
    "docs/reference/protocol.md": PROTOCOL,
    "native/engine/one.cpp": "// The first rule (A.1.1).\nint f();  // A.1.2\n",
    "native/tests/one_test.cpp": "// proves A.1.1, A.1.2\n// A reason.\nTEST_CASE(works) {\n}\n",
    "src/openmrc/two.py": '"""Third. (protocol F.2.1)"""\n',
    "tests/unit/test_two.py": '# proves F.2.1\n@pytest.mark.parametrize(\n    "a",\n    [1],\n)\ndef test_two(a):\n',
    "tools/requirements.toml": "[untested]\n",
}


def repository(folder: Path, **changes: str) -> Path:
    """A repository of `FILES`, with changed texts for the files whose paths end in the given names."""
    for path, text in FILES.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(changes.get(file.stem, text))
    return folder


def test_the_page_is_what_the_sources_say_and_nothing_is_missing() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "requirements.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_requirement_has_its_files_and_tests(tmp_path: Path) -> None:
    requirements = collect(repository(tmp_path))
    assert not requirements.problems
    assert [(one.name, one.title, one.code, one.tests) for one in requirements.by_id.values()] == [
        ("A.1.1", "First rule", ["native/engine/one.cpp"], [("native/tests/one_test.cpp", "works")]),
        ("A.1.2", "Second rule", ["native/engine/one.cpp"], [("native/tests/one_test.cpp", "works")]),
        ("F.2.1", "Third rule", ["src/openmrc/two.py"], [("tests/unit/test_two.py", "test_two")]),
    ]
    page = page_of(requirements)
    assert "3 requirements, 3 of them tested" in page
    assert (
        "| F.2.1 | Third rule | [two.py](../../src/openmrc/two.py) | [test_two.py](../../tests/unit/test_two.py)"
        in page
    )


@pytest.mark.parametrize(
    ("stem", "text", "problems"),
    [
        ("one", "// A.1.1, A.1.2, A.1.3 and section A.1\n", ["native/engine/one.cpp: A.1.3 is not in"]),
        ("one", "// See A.2\n// A.1.1 A.1.2\n", ["native/engine/one.cpp: A.2 is not in"]),
        ("one", "// A.1.1\n", ["A.1.2 (Second rule): no code names it"]),
        ("one", "// A.1.1, A.1.2, 127.A.0.0, A.1.2.3 and V1.A.1\n", []),
        ("one_test", "// proves A.1.1\nTEST_CASE(works) {\n}\n", ["A.1.2 (Second rule): no test proves it"]),
        (
            "one_test",
            "// proves A.1.1, A.1.2\nint f();\nTEST_CASE(works) {\n}\n",
            ["no test follows", "A.1.1", "A.1.2"],
        ),
        ("one_test", "// proves A.1.1, A.1.2\n", ["no test follows", "A.1.1", "A.1.2"]),
        (
            "one_test",
            FILES["native/tests/one_test.cpp"] + "// proves A.1\nTEST_CASE(b) {\n}\n",
            ["b proves A.1, which"],
        ),
        ("two", "", ["F.2.1 (Third rule): no code names it"]),
        ("protocol", PROTOCOL + "\n**A.1.1 Again.** Text.\n", ["A.1.1 stands there twice"]),
        ("protocol", PROTOCOL.replace("### F.2 Two\n", ""), ["F.2.1 is in no section"]),
        ("requirements", '[untested]\n"A.1.1" = "hard"\n', ["A.1.1 has a test, works"]),
        ("requirements", '[untested]\n"A.3.1" = "hard"\n', ["tools/requirements.toml: A.3.1 is not in"]),
    ],
)
def test_values_that_do_not_fit_are_named(tmp_path: Path, stem: str, text: str, problems: list[str]) -> None:
    found = collect(repository(tmp_path, **{stem: text})).problems
    assert len(found) == len(problems), found
    for one, words in zip(found, problems, strict=True):
        assert words in one


def test_an_exception_needs_a_reason_and_its_reason_is_on_the_page(tmp_path: Path) -> None:
    exception = '[untested]\n"F.2.1" = "needs a second host"\n'
    requirements = collect(repository(tmp_path, test_two="", requirements=exception))
    assert not requirements.problems
    page = page_of(requirements)
    assert "none: needs a second host" in page
    assert "3 requirements, 2 of them tested" in page
