"""Extended queue pairs of openmrc's libibverbs."""

from __future__ import annotations

from pathlib import Path

import pytest
from rdma_programs import compiled, needs, run_case, run_pair

pytestmark = needs("ibv_rc_pingpong")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return compiled(Path(__file__).with_name("verbs_extended.c"), tmp_path_factory.mktemp("c") / "verbs_extended")


@pytest.mark.parametrize(
    ("case", "qp"),
    [
        *((case, qp) for case in ("creation", "misuse", "bad_key", "operations", "threads") for qp in ("pair", "rc")),
        ("writes_only", "mrc"),
    ],
)
def test_extended_qp(program: list[str], case: str, qp: str):
    run_case(program, case, qp=qp)


@pytest.mark.parametrize("qp", ["pair", "rc"])
def test_ping_pong_with_new_send(qp: str):
    ended = run_pair(["ibv_rc_pingpong", "-g", "0", "-n", "100", "-c", "-N"], qp=qp)
    assert ended.passed, ended.output
    assert "invalid data" not in ended.output
