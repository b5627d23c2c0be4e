"""UCX, libfabric and Open MPI of the distribution over openmrc's libraries: the commands of their guides as printed."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from rdma_programs import LIMIT_S, Ended, needs, run_both, run_pair, wrapped

from openmrc.runs.processes.veth_pairs import VethPair, namespaces_allowed

pytestmark = [
    *needs("ucx_info", "ucx_perftest", "fi_info", "fi_pingpong", "mpicc", "mpirun"),
    pytest.mark.slow,
]


@pytest.fixture
def pair() -> Iterator[VethPair]:
    """Two hosts with an interface each; skips without root."""
    if not namespaces_allowed():
        pytest.skip("network namespaces need root")
    with VethPair(mtu=1500) as made:
        yield made


def commands(repository: Path, guide: str) -> list[str]:
    """The lines of the guide's first block of commands, without prompts."""
    text = (repository / "docs" / "guides" / guide).read_text()
    block = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0]
    return [line.removeprefix("$ ").removesuffix(" &") for line in block.splitlines()]


def program_of(command: str) -> list[str]:
    """The words behind `openmrc run … --`."""
    return command.replace('"', "").split(" -- ")[1].split()


def run_alone(words: list[str], prefix: tuple[str, ...] = (), ports: str = "127.0.0.1") -> str:
    command = [*prefix, *wrapped(words, ports)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_ucx_lists_the_device_and_moves_data(repository: Path):
    alone, server, client = commands(repository, "ucx.md")
    shown = run_alone(program_of(alone))
    assert re.search(r"Transport: rc_verbs\n#\s+Device: mrc0:1", shown), shown
    assert client == f"{server} 127.0.0.1"
    ended = run_pair(program_of(server))
    assert ended.passed, ended.output
    assert "Final:" in ended.output


@pytest.mark.parametrize(
    "words", ["-t am_lat", "-t am_bw -D bcopy -s 4096", "-t get -D zcopy -s 65536", "-t fadd", "-t cswap"]
)
def test_operations_of_ucx(words: str):
    ended = run_pair(["ucx_perftest", "-d", "mrc0:1", "-x", "rc_verbs", "-n", "200", *words.split()])
    assert ended.passed, ended.output


def test_the_upper_layer_of_ucx_1_15_needs_a_transport_that_does_not_exist(monkeypatch: pytest.MonkeyPatch):
    version = subprocess.run(["ucx_info", "-v"], capture_output=True, text=True, check=True).stdout
    numbers = re.search(r"Version (\d+)\.(\d+)", version)
    assert numbers is not None
    monkeypatch.setenv("UCX_TLS", "rc_verbs,tcp,self,sm")
    ended = run_pair(["ucx_perftest", "-t", "tag_lat", "-n", "100"])
    old = (int(numbers[1]), int(numbers[2])) < (1, 16)
    assert ("no auxiliary transport" in ended.output) == old, ended.output
    assert ended.passed != old, ended.output


def run_ends(pair: VethPair, server: list[str], client: list[str]) -> Ended:
    """A server on the first host, and a client on the second, by the port 47592 of fi_pingpong."""
    ends = [(pair.prefix(end), pair.addresses[end]) for end in range(2)]
    return run_both(server, client, 47592, ends=ends)


@pytest.mark.root
@pytest.mark.parametrize("kind", ["msg", "rdm"])
def test_libfabric(repository: Path, pair: VethPair, kind: str):
    alone, server, client = commands(repository, "libfabric.md")
    shown = run_alone(program_of(alone), pair.prefix(0), pair.addresses[0])
    assert "domain: mrc0" in shown
    assert client == f"{server} 10.0.0.1"
    words = program_of(server)
    if kind == "msg":
        words = [{"verbs;ofi_rxm": "verbs", "rdm": "msg"}.get(word, word) for word in words]
    ended = run_ends(pair, words, [*words, pair.addresses[0]])
    assert ended.passed, ended.output


def test_libfabric_leaves_loopback_out():
    done = subprocess.run(
        wrapped(["fi_info", "-p", "verbs"]), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode != 0


@pytest.mark.root
def test_open_mpi(repository: Path, pair: VethPair, tmp_path: Path):
    build, start = commands(repository, "open-mpi.md")
    program = tmp_path / "mpi_ring"
    words = [str(program) if word == "mpi_ring" else word for word in build.split()]
    subprocess.run(words, cwd=repository, check=True)
    launch = start.split(" openmrc run ")[0].replace('"', "").split()
    command = [*pair.prefix(0), *launch, "--oversubscribe", *wrapped([str(program)], pair.addresses[0])]
    variables = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout in (repository / "docs" / "guides" / "open-mpi.md").read_text()
    assert done.stdout.startswith("2 ranks: ")
