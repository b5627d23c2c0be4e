"""Limits of a process that uses openmrc's libibverbs: many QPs, open files, and the longest messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from rdma_programs import compiled, needs, run_case

pytestmark = needs()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return compiled(Path(__file__).with_name("verbs_limits.c"), tmp_path_factory.mktemp("c") / "verbs_limits")


@pytest.mark.parametrize(
    ("case", "qp"),
    [
        ("many_qps", "pair"),
        ("many_qps", "rc"),
        ("files_at_open", "pair"),
        ("files_of_objects", "pair"),
    ],
)
def test_limit(program: list[str], case: str, qp: str):
    run_case(program, case, qp=qp)


@pytest.mark.slow
@pytest.mark.parametrize("qp", ["pair", "rc"])
def test_messages_of_a_gibibyte_arrive_whole(program: list[str], qp: str):
    run_case(program, "gibibyte", qp=qp)
