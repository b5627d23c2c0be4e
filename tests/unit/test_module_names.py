"""Names of modules: no two of one package are alike, and `page` and `plan` have a noun in front."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

ONCE = ("page", "plan")
"""Names that need a noun in front, so that at most one module may go without."""


def singular(word: str) -> str:
    """The word without a plural ending."""
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word.removesuffix("s")


def one_letter_apart(one: str, other: str) -> bool:
    """True if a letter added, left out or replaced turns one word into the other."""
    if len(one) == len(other):
        return sum(a != b for a, b in zip(one, other, strict=True)) == 1
    short, long = sorted((one, other), key=len)
    return len(long) == len(short) + 1 and any(long[:at] + long[at + 1 :] == short for at in range(len(long)))


def alike(one: str, other: str) -> bool:
    """True if two names differ by a letter, or by plurals alone."""
    plurals = [singular(word) for word in one.split("_")] == [singular(word) for word in other.split("_")]
    return plurals or one_letter_apart(one, other)


def packages(root: Path) -> dict[str, list[str]]:
    """Names of modules and packages in each package."""
    found = {}
    for init in root.rglob("__init__.py"):
        folder = init.parent
        modules = {path.stem for path in folder.glob("*.py")} | {
            path.parent.name for path in folder.glob("*/__init__.py")
        }
        found[folder.relative_to(root.parent).as_posix()] = sorted(modules - {"__init__"})
    return found


def test_no_two_modules_of_a_package_have_names_that_are_alike(repository: Path) -> None:
    known = packages(repository / "src" / "openmrc")
    pairs = [(package, *pair) for package, names in known.items() for pair in combinations(names, 2) if alike(*pair)]
    assert pairs == []


def test_names_that_need_a_noun_occur_once(repository: Path) -> None:
    counts = Counter(path.stem for path in (repository / "src" / "openmrc").rglob("*.py"))
    assert {name: counts[name] for name in ONCE if counts[name] > 1} == {}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("schedule", "schedules", True),
        ("policy_file", "policies_file", True),
        ("stats", "status", True),
        ("event", "evens", True),
        ("event_base", "event_records", False),
        ("plan", "planner", False),
    ],
)
def test_names_that_count_as_alike(one: str, other: str, expected: bool) -> None:
    assert alike(one, other) is expected
    assert alike(other, one) is expected
