"""Two processes that use openmrc's libibverbs on one interface, and the end of one of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from rdma_programs import compiled, needs, run_case

pytestmark = needs()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return compiled(Path(__file__).with_name("verbs_processes.c"), tmp_path_factory.mktemp("c") / "verbs_processes")


@pytest.mark.parametrize("qp", ["pair", "rc", "mrc"])
def test_processes_share_an_interface(program: list[str], qp: str):
    run_case(program, "one_interface", qp=qp)


@pytest.mark.parametrize("qp", ["pair", "rc"])
def test_a_program_that_ends_after_its_last_receive_has_acknowledged_it(program: list[str], qp: str):
    run_case(program, "last_receive", qp=qp)


@pytest.mark.slow
@pytest.mark.parametrize("qp", ["pair", "rc"])
def test_work_fails_when_the_peer_is_killed(program: list[str], qp: str):
    run_case(program, "killed", qp=qp)
