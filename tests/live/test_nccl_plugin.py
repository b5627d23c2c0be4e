"""The network plugin for NCCL, driven by a program that loads and calls it as NCCL does."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from rdma_programs import LIMIT_S

from openmrc.programs import nccl_plugin_path
from openmrc.runs.processes.veth_pairs import VethPair, namespaces_allowed

pytestmark = pytest.mark.live
ENDED = "as expected"


@pytest.fixture(scope="module")
def harness(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    program = tmp_path_factory.mktemp("nccl") / "nccl_harness"
    source = repository / "native" / "tests" / "nccl" / "harness.cpp"
    options = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-I", str(repository / "native")]
    subprocess.run([compiler, *options, str(source), "-o", str(program), "-ldl"], check=True)
    return program


class Ranks:
    """Two ranks of a case, in their own directory."""

    def __init__(self, program: Path, directory: Path) -> None:
        self.program, self.directory = program, directory

    def start(self, case: str, rank: int, ports: str, newest: int, *prefix: str) -> subprocess.Popen[str]:
        words = [str(self.program), str(nccl_plugin_path()), str(newest), case, str(rank), str(self.directory)]
        command = [*prefix, "env", f"OPENMRC_PORTS={ports}", *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, case: str, ports: str = "127.0.0.1", newest: int = 12, count: int = 2) -> list[tuple[int, str, str]]:
        """Exit status, output and errors of each rank."""
        started = [self.start(case, rank, ports, newest) for rank in range(count)]
        return ended(started)


def ended(started: list[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    try:
        said = [process.communicate(timeout=LIMIT_S) for process in started]
    finally:
        for process in started:
            process.kill()
    return [(process.returncode, *words) for process, words in zip(started, said, strict=True)]


@pytest.fixture
def ranks(harness: Path, tmp_path: Path) -> Ranks:
    return Ranks(harness, tmp_path)


def passed(results: list[tuple[int, str, str]]) -> bool:
    return all(status == 0 and errors.endswith(f"{ENDED}\n") for status, _, errors in results)


@pytest.mark.parametrize("newest", [8, 9, 10, 11, 12])
def test_messages_of_all_sizes_with_every_version(ranks: Ranks, newest: int) -> None:
    results = ranks.run("sizes", newest=newest)
    assert passed(results), results


@pytest.mark.parametrize("case", ["groups", "connections", "too_long", "closing"])
@pytest.mark.parametrize("newest", [8, 11])
def test_two_ranks(ranks: Ranks, case: str, newest: int) -> None:
    results = ranks.run(case, newest=newest)
    assert passed(results), results


def test_two_planes(ranks: Ranks) -> None:
    results = ranks.run("groups", ports="127.0.0.1,127.0.0.2")
    assert passed(results), results


def test_merged_devices(ranks: Ranks) -> None:
    results = ranks.run("merged", ports="127.0.0.1;127.0.0.2")
    assert passed(results), results


def test_ranks_with_other_planes_are_refused(ranks: Ranks) -> None:
    started = [ranks.start("sizes", rank, ports, 12) for rank, ports in enumerate(["127.0.0.1", "127.0.0.1,127.0.0.2"])]
    results = ended(started)
    assert all(status == 1 for status, _, _ in results), results
    assert "both need the same number" in results[0][2] + results[1][2]


@pytest.mark.parametrize("case", ["alone", "strangers", "misuse"])
def test_one_rank(ranks: Ranks, case: str) -> None:
    results = ranks.run(case, count=1)
    assert passed(results), results


def test_a_killed_peer_fails_every_request(ranks: Ranks) -> None:
    survivor, killed = ranks.run("killed")
    assert killed[0] == -signal.SIGKILL
    assert passed([survivor]), survivor


def test_a_plugin_without_ports_is_not_used(ranks: Ranks) -> None:
    ((status, _, errors),) = ranks.run("alone", ports="", count=1)
    assert status == 1
    assert "OPENMRC_PORTS has to list interfaces or addresses" in errors


@pytest.mark.parametrize("case", ["gibibyte", "beyond"])
def test_messages_of_a_gibibyte(ranks: Ranks, case: str) -> None:
    results = ranks.run(case)
    assert passed(results), results


@pytest.mark.root
def test_two_hosts(ranks: Ranks) -> None:
    if not namespaces_allowed():
        pytest.skip("network namespaces need root")
    with VethPair(mtu=9000) as pair:
        started = [ranks.start("bandwidth", rank, pair.addresses[rank], 12, *pair.prefix(rank)) for rank in (0, 1)]
        results = ended(started)
    assert passed(results), results
    assert json.loads(results[0][1])["bytes"] > 0
