"""The newcomer's page: every question has an answer, and every answer is a file of the tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_QUESTION = re.compile(r"^(\d+)\. ", re.MULTILINE)
_ANSWER = re.compile(r"^\| (\d+) \| `[^`]+` \|", re.MULTILINE)
_PATH = re.compile(r"`([^`]+)`")


@pytest.fixture
def parts(repository: Path) -> tuple[str, str]:
    """The page before its answers, and the answers."""
    questions, answers = (repository / "docs" / "newcomer.md").read_text(encoding="utf-8").split("\n## Answers\n")
    return questions, answers


def test_every_question_has_an_answer(parts: tuple[str, str]) -> None:
    questions, answers = parts
    assert _QUESTION.findall(questions) == _ANSWER.findall(answers) == [str(number) for number in range(1, 25)]


def test_every_answer_is_a_file(repository: Path, parts: tuple[str, str]) -> None:
    _, answers = parts
    assert [path for path in _PATH.findall(answers) if not (repository / path).is_file()] == []
