"""Processes that execute runs: their answers, and their end at any time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest

from openmrc.sim.sweep.pool import run_in_processes

TASK = """
import os
from openmrc.errors import ConfigError

def answer(spec):
    if spec == "dies":
        os._exit(3)
    if spec == "is wrong":
        raise ConfigError("spec", spec, "right")
    return {"spec": spec, "bytes": bytes(8 << 20)}  # eight times what a pipe holds at most
"""


@pytest.fixture
def answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], dict[str, Any]]]:
    """A task in a module that new processes can import."""
    (tmp_path / "pool_task.py").write_text(TASK)
    monkeypatch.syspath_prepend(tmp_path)
    import pool_task

    yield pool_task.answer
    del sys.modules["pool_task"]


def test_each_spec_has_its_outcome(answer):
    outcomes = dict(run_in_processes(answer, ["one", "dies", "is wrong", "two"], 2))
    assert [outcomes[spec]["figures"]["spec"] for spec in ("one", "two")] == ["one", "two"]
    assert "exit code 3" in outcomes["dies"]["error"]
    assert outcomes["is wrong"]["error"].startswith("ConfigError: spec")


def test_a_process_in_the_middle_of_its_answer_ends_with_the_others(answer):
    with closing(run_in_processes(answer, ["one", "two", "three"], 3)) as outcomes:
        next(outcomes)  # the other two cannot deliver theirs
    assert not active_children()
