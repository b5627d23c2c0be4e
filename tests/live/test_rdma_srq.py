"""Shared receive queues of openmrc's libibverbs."""

from __future__ import annotations

from pathlib import Path

import pytest
from rdma_programs import compiled, needs, run_case, run_pair

pytestmark = needs("ibv_srq_pingpong", "ib_send_bw")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return compiled(Path(__file__).with_name("verbs_srq.c"), tmp_path_factory.mktemp("c") / "verbs_srq")


@pytest.mark.parametrize("qp", ["pair", "rc"])
@pytest.mark.parametrize("case", ["misuse", "resized", "extended", "shared", "survivors"])
def test_shared_receive_queue(program: list[str], case: str, qp: str):
    run_case(program, case, qp=qp)


@pytest.mark.parametrize("options", ["-c", "-c -e"])
@pytest.mark.parametrize("qp", ["pair", "rc"])
def test_ping_pong_with_checked_contents(options: str, qp: str):
    ended = run_pair(["ibv_srq_pingpong", "-g", "0", "-n", "100", *options.split()], qp=qp)
    assert ended.passed, ended.output
    assert "invalid data" not in ended.output


@pytest.mark.parametrize("options", ["", "-q 4"])
def test_perftest(options: str):
    ended = run_pair(["ib_send_bw", "--use-srq", "-n", "200", "-d", "mrc0", "-F", *options.split()])
    assert ended.passed, ended.output
