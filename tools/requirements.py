#!/usr/bin/env python3
"""Write docs/reference/requirements.md: each requirement of protocol.md, its code, and the tests that prove it.

`--check` compares and changes nothing. Both name every id that protocol.md lacks and every requirement without code, or
without a test and a reason in tools/requirements.toml.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Requirement", "Requirements", "collect", "page_of"]

ROOT = Path(__file__).resolve().parents[1]
PROTOCOL = "docs/reference/protocol.md"
PAGE = "docs/reference/requirements.md"
EXCEPTIONS = "tools/requirements.toml"

CODE = (("native", {".cpp", ".hpp"}), ("src", {".py"}), ("spec", {".toml"}))
TESTS = (("native/tests", {".cpp", ".hpp"}), ("tests", {".py"}))
TEXTS = (("docs", {".md"}),)
GENERATED = ("native/engine/generated", "native/nic/generated", "native/bindings/generated", "src/openmrc/_native")

_INTRODUCTION = """
Each requirement of [the protocol](protocol.md), the files that implement it, and tests that fail without it:
{count} requirements, {tested} of them tested. Files name a requirement by its id in a comment; a test has a comment
`proves` with the ids above it ([why](../decisions/0081-requirements-by-id.md)).
""".strip()

_ID = r"[ACDFX]\.\d{1,2}(?:\.\d{1,2})?"
_REFERENCE = re.compile(rf"(?<![\w.])({_ID})(?![\w]|\.\d)")
_SECTION = re.compile(rf"^### ({_ID}) ", re.MULTILINE)
_REQUIREMENT = re.compile(rf"^\*\*({_ID}) ([^*]+)\.\*\*", re.MULTILINE)
_PROVES = re.compile(rf"^\s*(?://|#) proves ({_ID}(?:, {_ID})*)$")
_TEST = re.compile(r"^\s*(?:(?:LONG_)?TEST_CASE\((\w+)\)|(?:async )?def (test_\w+)\()")
_BEFORE_TEST = re.compile(r"^\s*(?://|#|@|$)|^[\s\])}]")


@dataclass
class Requirement:
    """A requirement of protocol.md: files that name it, tests that prove it, or the reason for the lack of tests."""

    name: str
    title: str
    code: list[str] = field(default_factory=list)
    tests: list[tuple[str, str]] = field(default_factory=list)
    reason: str = ""


@dataclass
class Requirements:
    """All requirements in the order of protocol.md, and their problems."""

    by_id: dict[str, Requirement]
    problems: list[str]


def collect(root: Path) -> Requirements:
    """Requirements of the repository at `root`."""
    protocol = (root / PROTOCOL).read_text()
    sections = set(_SECTION.findall(protocol))
    found = _REQUIREMENT.findall(protocol)
    by_id = {name: Requirement(name, title) for name, title in found}
    problems = [f"{PROTOCOL}: {name} stands there twice" for name in by_id if [n for n, _ in found].count(name) > 1]
    problems += [f"{PROTOCOL}: {name} is in no section" for name in by_id if name.rpartition(".")[0] not in sections]
    known = sections | set(by_id)
    for path, text in _files(root, (*CODE, *TESTS, *TEXTS)):
        unknown = sorted(set(_REFERENCE.findall(text)) - known) if path != PAGE else []
        problems += [f"{path}: {name} is not in {PROTOCOL}" for name in unknown]
    for path, text in _files(root, CODE):
        for name in sorted(set(_REFERENCE.findall(text)) & set(by_id)):
            by_id[name].code.append(path)
    for path, text in _files(root, TESTS):
        for name, test in _proofs(path, text, problems):
            if name in by_id:
                by_id[name].tests.append((path, test))
            elif name in sections:
                problems.append(f"{path}: {test} proves {name}, which is a section and not a requirement")
    _except(root, by_id, problems)
    return Requirements(by_id, problems)


def _files(root: Path, folders: tuple[tuple[str, set[str]], ...]) -> Iterator[tuple[str, str]]:
    """Path and text of the hand-written files in these folders; tests do not count as code."""
    for folder, suffixes in folders:
        for file in sorted((root / folder).rglob("*")):
            path = file.relative_to(root).as_posix()
            is_test = folder == "native" and path.startswith("native/tests/")
            if file.suffix in suffixes and not is_test and not path.startswith(GENERATED):
                yield path, file.read_text()


def _proofs(path: str, text: str, problems: list[str]) -> Iterator[tuple[str, str]]:
    """Each id of a comment `proves ...` and the test that follows; only comments and decorators may stand between."""
    waiting: list[str] = []
    for line in text.splitlines():
        if (proof := _PROVES.match(line)) is not None:
            waiting += proof[1].split(", ")
        elif (test := _TEST.match(line)) is not None:
            for name in waiting:
                yield name, test[1] or test[2]
            waiting = []
        elif waiting and not _BEFORE_TEST.match(line):
            problems.append(f"{path}: no test follows `proves {', '.join(waiting)}`")
            waiting = []
    if waiting:
        problems.append(f"{path}: no test follows `proves {', '.join(waiting)}`")


def _except(root: Path, by_id: dict[str, Requirement], problems: list[str]) -> None:
    """Enters the reasons for requirements without a test, and names the requirements without code or test."""
    reasons: dict[str, str] = tomllib.loads((root / EXCEPTIONS).read_text())["untested"]
    problems += [f"{EXCEPTIONS}: {name} is not in {PROTOCOL}" for name in reasons if name not in by_id]
    for one in by_id.values():
        one.reason = reasons.get(one.name, "")
        if not one.code:
            problems.append(f"{one.name} ({one.title}): no code names it")
        if not one.tests and not one.reason:
            problems.append(f"{one.name} ({one.title}): no test proves it, and {EXCEPTIONS} has no reason for that")
        if one.tests and one.reason:
            problems.append(f"{EXCEPTIONS}: {one.name} has a test, {one.tests[0][1]}; remove the exception")


def page_of(requirements: Requirements) -> str:
    """Text of the reference page."""
    tested = sum(bool(one.tests) for one in requirements.by_id.values())
    parts = [
        "# Requirements",
        "<!-- Written by tools/requirements.py: edit protocol.md, the code or the tests, then `make spec`. -->",
        _INTRODUCTION.format(count=len(requirements.by_id), tested=tested),
    ]
    by_part: dict[str, list[Requirement]] = defaultdict(list)
    for one in requirements.by_id.values():
        by_part[one.name.rpartition(".")[0]].append(one)
    for section, members in by_part.items():
        head = [f"## {section}", "", "| Id | Requirement | Code | Tests |", "|---|---|---|---|"]
        parts.append("\n".join([*head, *map(_row, members)]))
    return "\n\n".join(parts) + "\n"


def _row(one: Requirement) -> str:
    code = ", ".join(_link(path) for path in one.code)
    by_file: dict[str, list[str]] = defaultdict(list)
    for path, test in one.tests:
        by_file[path].append(f"`{test}`")
    tests = "; ".join(f"{_link(path)}: {', '.join(names)}" for path, names in by_file.items())
    return f"| {one.name} | {one.title} | {code} | {tests or f'none: {one.reason}'} |"


def _link(path: str) -> str:
    return f"[{Path(path).name}]({os.path.relpath(path, Path(PAGE).parent)})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare the page with the sources; exit code 1")
    options = parser.parse_args()
    requirements = collect(ROOT)
    page, file = page_of(requirements), ROOT / PAGE
    stale = not file.is_file() or file.read_text() != page
    for problem in requirements.problems:
        print(problem, file=sys.stderr)
    if stale and options.check:
        print(f"{PAGE} is not what the sources say: `make spec`", file=sys.stderr)
    elif stale:
        file.write_text(page)
        print(f"wrote {PAGE}")
    return 1 if requirements.problems or (stale and options.check) else 0


if __name__ == "__main__":
    sys.exit(main())
