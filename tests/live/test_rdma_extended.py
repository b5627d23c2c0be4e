"""Extended queue pairs and completion queues of openmrc's libibverbs."""

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
        ("forked", "pair"),
    ],
)
def test_extended_qp(program: list[str], case: str, qp: str):
    run_case(program, case, qp=qp)


@pytest.mark.parametrize("qp", ["pair", "rc"])
def test_ping_pong_with_new_send(qp: str):
    ended = run_pair(["ibv_rc_pingpong", "-g", "0", "-n", "100", "-c", "-N"], qp=qp)
    assert ended.passed, ended.output
    assert "invalid data" not in ended.output


@pytest.fixture(scope="module")
def cq_program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return compiled(Path(__file__).with_name("verbs_extended_cq.c"), tmp_path_factory.mktemp("c") / "verbs_extended_cq")


@pytest.mark.parametrize("qp", ["pair", "rc"])
@pytest.mark.parametrize("case", ["creation", "reading", "destroyed", "threads", "forked"])
def test_extended_cq(cq_program: list[str], case: str, qp: str):
    run_case(cq_program, case, qp=qp)


def test_completion_timestamps_are_refused():
    ended = run_pair(["ibv_rc_pingpong", "-g", "0", "-n", "10", "-t"])
    assert ended.client != 0
    assert "completion timestamp" in ended.output
