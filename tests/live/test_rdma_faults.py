"""Faults of programs that use openmrc's libibverbs, and of their threads."""

from __future__ import annotations

from pathlib import Path

import pytest
from rdma_programs import compiled, needs, run_case

pytestmark = needs()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return compiled(Path(__file__).with_name("verbs_faults.c"), tmp_path_factory.mktemp("c") / "verbs_faults")


@pytest.mark.parametrize(
    ("case", "qp"),
    [
        ("held", "pair"),
        ("access_flags", "pair"),
        ("access_flags", "rc"),
        ("read_only", "pair"),
        ("cancelled", "pair"),
        ("forked_while_busy", "pair"),
        ("forked_at_first", "pair"),
    ],
)
def test_fault(program: list[str], case: str, qp: str):
    run_case(program, case, qp=qp)
