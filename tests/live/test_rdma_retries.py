"""Timeouts and retries of QPs of openmrc's libibverbs."""

from __future__ import annotations

from pathlib import Path

import pytest
from rdma_programs import compiled, needs, run_case

pytestmark = needs()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return compiled(Path(__file__).with_name("verbs_retries.c"), tmp_path_factory.mktemp("c") / "verbs_retries")


@pytest.mark.parametrize(
    ("case", "qp"),
    [
        ("order_of_writes", "pair"),
        ("order_of_writes", "mrc"),
        ("order_of_writes", "rc"),
        ("order_of_sends", "pair"),
    ],
)
def test_qps_fail_in_the_order_of_their_timeouts_and_retries(program: list[str], case: str, qp: str):
    run_case(program, case, qp=qp)


@pytest.mark.parametrize(("case", "qp"), [("not_ready_for_sends", "pair"), ("not_ready_for_writes", "rc")])
def test_a_sender_repeats_as_often_as_rnr_retry_allows(program: list[str], case: str, qp: str):
    run_case(program, case, qp=qp)


@pytest.mark.parametrize("qp", ["pair", "mrc", "rc"])
def test_attributes_are_returned_as_set(program: list[str], qp: str):
    run_case(program, "attributes", qp=qp)
