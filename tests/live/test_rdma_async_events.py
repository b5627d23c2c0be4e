"""Asynchronous events of openmrc's libibverbs."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from rdma_programs import LIMIT_S, compiled, needs, run_case, wrapped

from openmrc.runs.processes.veth_pairs import namespaces_allowed

pytestmark = needs()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return compiled(Path(__file__).with_name("verbs_async.c"), tmp_path_factory.mktemp("c") / "verbs_async")


@pytest.mark.parametrize(
    "case",
    ["misuse", "limit", "last_receive", "dropped", "access_error", "no_receive", "resets", "forked", "established"],
)
def test_events_of_a_pair(program: list[str], case: str):
    run_case(program, case)


@pytest.mark.parametrize("qp", ["mrc", "rc"])
@pytest.mark.parametrize("case", ["last_receive", "access_error", "resets"])
def test_events_of_one_transport(program: list[str], case: str, qp: str):
    run_case(program, case, qp=qp)


@pytest.mark.root
def test_a_port_goes_down_and_up_with_its_last_interface(program: list[str]):
    if not namespaces_allowed():
        pytest.skip("network namespaces need root")
    lay = [
        "ip link set lo up",
        "ip link add plane0 type veth peer name far0",
        "ip addr add 10.77.1.1/24 dev plane0",
        "ip link set far0 up",
        "ip link set plane0 up",
        f"exec {shlex.join(wrapped([*program, 'ports'], 'plane0'))}",
    ]
    command = ["unshare", "--net", "sh", "-e", "-c", "\n".join(lay)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stdout) == (0, "as expected\n"), done.stderr
