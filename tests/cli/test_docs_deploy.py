"""The guides for clusters: their files run unchanged, with stand-ins for programs outside openmrc.

The stand-in of `ssh` runs the command on this machine, those of Slurm answer for one node. Kubernetes cannot run here:
the manifest is read, its fields are compared with each other, and the command of its container runs for each pod.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from openmrc.runs.perf.messages import DEFAULT_PORT
from openmrc.torch.nic import FIRST_UDP_PORT

DEPLOY = Path(__file__).resolve().parents[2] / "examples" / "deploy"
GUIDES = DEPLOY.parents[1] / "docs" / "guides"
PAGES = sorted(GUIDES.glob("deploy-*.md"))
SAME_WEIGHTS = re.compile(r"^weights \w+, the same at all ranks$", re.MULTILINE)

SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def checkout(repository: Path, tmp_path: Path) -> Path:
    """A folder as required by the guides: the examples, and an environment `.venv`."""
    shutil.copytree(repository / "examples", tmp_path / "examples")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("torchrun", "openmrc"):
        (programs / name).symlink_to(Path(sys.executable).parent / name)
    (programs / "activate").write_text(f"PATH={shlex.quote(str(programs))}:$PATH\n")
    return tmp_path


def stand_in(folder: Path, name: str, text: str) -> None:
    program = folder / "stand-ins" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text("#!/bin/sh\n" + text)
    program.chmod(0o755)


def run_script(checkout: Path, command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    environ["PATH"] = f"{checkout / 'stand-ins'}:{environ['PATH']}"
    return subprocess.run(command, cwd=checkout, env=environ, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.live
@pytest.mark.slow
def test_ssh_starts_one_torchrun_on_each_host(checkout: Path) -> None:
    stand_in(checkout, "ssh", 'echo "$4" >>hosts\nexec sh -c "$5"\n')
    script = ["examples/deploy/ssh.sh", "127.0.0.1", "user@127.0.0.2", "--", "examples/train_ddp.py", "--steps", "2"]
    done = run_script(checkout, script, PORT=str(free_port()), OPENMRC_PORTS="127.0.0.1")
    assert done.returncode == 0, done.stderr
    assert len(SAME_WEIGHTS.findall(done.stdout)) == 1
    assert sorted((checkout / "hosts").read_text().split()) == ["127.0.0.1", "user@127.0.0.2"]


def test_ssh_returns_the_exit_code_of_a_host_that_fails(checkout: Path) -> None:
    stand_in(checkout, "ssh", '[ "$4" = good ] || exit 7\n')
    script = ["examples/deploy/ssh.sh", "good", "bad", "good", "--", "program"]
    assert run_script(checkout, script).returncode == 7


def test_ssh_quotes_arguments(checkout: Path) -> None:
    stand_in(checkout, "ssh", 'echo "$5"\n')
    done = run_script(checkout, ["examples/deploy/ssh.sh", "node1", "--", "program", "two words", "$HOME"], PORT="1")
    assert shlex.split(done.stdout.strip())[-3:] == ["program", "two words", "$HOME"]


@pytest.mark.parametrize("words", [[], ["node1"], ["--", "program"], ["node1", "--"]])
def test_ssh_without_hosts_or_program_says_how(checkout: Path, words: list[str]) -> None:
    done = run_script(checkout, ["examples/deploy/ssh.sh", *words])
    assert (done.returncode, done.stderr) == (2, "usage: ssh.sh HOST... -- PROGRAM [ARGUMENT...]\n")


@pytest.mark.live
@pytest.mark.slow
def test_the_batch_script_examines_and_trains(checkout: Path) -> None:
    stand_in(checkout, "scontrol", '[ "$*" = "show hostnames node[1-1]" ] && echo 127.0.0.1\n')
    stand_in(checkout, "srun", 'SLURM_NODEID=0 exec "$@"\n')
    done = run_script(
        checkout,
        ["bash", "examples/deploy/train.sbatch"],
        SLURM_JOB_NODELIST="node[1-1]",
        SLURM_JOB_NUM_NODES="1",
        SLURM_JOB_ID="77",
        RANKS="2",
        PORT=str(free_port()),
    )
    assert done.returncode == 0, done.stderr
    assert len(SAME_WEIGHTS.findall(done.stdout)) == 1
    assert (checkout / "doctor-77-0.json").read_text().startswith("{")


def manifests() -> dict[str, dict[str, Any]]:
    documents = YAML(typ="safe").load_all((DEPLOY / "kubernetes.yaml").read_text())
    return {document["kind"]: document for document in documents}


def test_the_parts_of_the_manifest_fit() -> None:
    service, job = manifests()["Service"], manifests()["Job"]
    template = job["spec"]["template"]
    (container,) = template["spec"]["containers"]
    environ = {each["name"]: each["value"] for each in container["env"]}
    assert (service["apiVersion"], job["apiVersion"]) == ("v1", "batch/v1")
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == int(environ["NODES"])
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    assert service["metadata"]["name"] == template["spec"]["subdomain"]
    assert environ["MASTER"] == f"{job['metadata']['name']}-0.{template['spec']['subdomain']}"


@pytest.mark.live
@pytest.mark.slow
def test_the_pods_of_the_manifest_train_together(checkout: Path) -> None:
    job = manifests()["Job"]["spec"]
    shell, option, command = job["template"]["spec"]["containers"][0]["command"]
    port = free_port()
    pods = []
    for index in range(job["completions"]):
        variables = {"JOB_COMPLETION_INDEX": str(index), "NODES": str(job["completions"]), "MASTER": "127.0.0.1"}
        path = f"{checkout / '.venv/bin'}:{os.environ['PATH']}"
        pods.append(
            subprocess.Popen(
                [shell, option, command.replace("29500", str(port))],
                cwd=checkout,
                env={**os.environ, **variables, "PATH": path, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        outputs = [pod.communicate(timeout=100)[0] for pod in pods]
    finally:
        for pod in pods:
            pod.kill()
            pod.wait()
    assert [pod.returncode for pod in pods] == [0] * len(pods), outputs
    assert len(SAME_WEIGHTS.findall("".join(outputs))) == 1


def test_the_firewall_lets_through_the_ports_that_the_code_uses() -> None:
    rules = (DEPLOY / "firewall.nft").read_text()
    first, last = map(int, re.findall(r"udp dport (\d+)-(\d+)", rules)[0])
    assert first == FIRST_UDP_PORT < last
    assert f"tcp dport {DEFAULT_PORT} " in rules
    assert f"UDP to {FIRST_UDP_PORT}" in (GUIDES / "deploy-ssh.md").read_text()


def test_shell_in_guides_and_files_is_shell() -> None:
    """Commands for other hosts, for Slurm, containers and Kubernetes: only their syntax can be checked here."""
    blocks = [
        block
        for page in PAGES
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    ]
    blocks += [(DEPLOY / name).read_text() for name in ("ssh.sh", "train.sbatch")]
    assert len(blocks) > len(PAGES)
    for block in blocks:
        done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), block


def test_commands_of_openmrc_in_the_guides_exist() -> None:
    """Every `openmrc COMMAND SUBCOMMAND` with its options is listed in the help."""
    blocks = [block for page in [*PAGES, GUIDES / "install.md"] for block in SHELL.findall(page.read_text())]
    found = set(re.findall(r"(?:^|bin/|openmrc |')openmrc ((?:[a-z]+ ?)+)", "\n".join(blocks), re.MULTILINE))
    assert found
    for command in found:
        words = command.split()
        help_of = [sys.executable, "-m", "openmrc.cli.main", *words[:2], "--help"]
        done = subprocess.run(help_of, capture_output=True, text=True, check=False)
        assert done.returncode == 0, command


@pytest.mark.live
def test_the_image_has_the_files_that_it_names(repository: Path) -> None:
    text = (repository / "Containerfile").read_text()
    copied = re.findall(r"^COPY (?!--from)(\S+) ", text, re.MULTILINE)
    assert copied
    assert all((repository / name).exists() for name in copied)
    extras = re.search(r"^ARG EXTRAS=(\S+)$", text, re.MULTILINE)
    assert extras is not None
    declared = (repository / "pyproject.toml").read_text()
    assert all(re.search(rf"^{name} = \[", declared, re.MULTILINE) for name in extras[1].split(","))
    for command in re.findall(r"^RUN ((?:.*\\\n)*.*)$", text, re.MULTILINE):
        done = subprocess.run(["sh", "-n"], input=command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
