"""`openmrc testbed` on real namespaces, as root and in a user namespace."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import until

from openmrc.cli.main import main
from openmrc.testbed import TestBed, namespaces, state

OWN_VARIABLE = "OPENMRC_TEST_PROCESS"

pytestmark = pytest.mark.root

FABRIC = """
name: small
planes: 2
hosts: 2
hosts_per_t0: 1
t1s: 2
rate: 100Mbit
delay: 1us
"""


@pytest.fixture
def fabric_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(FABRIC)
    return path


def openmrc(*words: object, code: int = 0) -> str:
    """Output of `openmrc testbed`; its exit code is checked."""
    command = [sys.executable, "-m", "openmrc.cli.main", "testbed", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The same in this process, for commands that do not become another program."""

    def call(*words: object, code: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["testbed", *map(str, words)])
        done = capsys.readouterr()
        assert (ended.value.code or 0) == code, done.out + done.err
        return done.out if code == 0 else done.err

    return call


def test_up_status_exec_and_down_as_root(
    here: Callable[..., str], fabric_file: Path, bed_name: str, left_of: Callable[[str], list[str]]
):
    made = json.loads(here("up", fabric_file, "--name", bed_name, "--json"))
    assert made["way"] == "root"
    assert made["hosts"]["host1"]["ports"][1]["address"] == "fd00:6d72:1:1::1"
    assert "is up already" in here("up", fabric_file, "--name", bed_name, code=1)
    assert (
        openmrc("exec", "host1", "--name", bed_name, "--", "ip", "-br", "address", "show", "eth1").split()[0][:4]
        == "eth1"
    )
    assert openmrc("exec", "--name", bed_name, "host0", "--", "sh", "-c", "exit 7", code=7) == ""
    assert "host0" in here("exec", "host9", "--name", bed_name, "--", "true", code=2)
    shown = json.loads(here("status", bed_name, "--json"))
    assert len(shown["links"]) == 2 * 2 * (2 + 4)
    assert all(link["carrier"] for link in shown["links"])
    assert bed_name in here("status", bed_name)
    assert f"{bed_name} is down" in here("down", bed_name)
    assert left_of(bed_name) == []


@pytest.mark.slow
def test_a_bed_in_a_user_namespace_is_entered_by_every_command_and_seen_by_nobody_else(
    fabric_file: Path, bed_name: str, left_of: Callable[[str], list[str]]
):
    made = json.loads(openmrc("up", fabric_file, "--name", bed_name, "--rootless", "--json"))
    assert made["way"] == "rootless"
    assert "user namespace" in made["data_plane_missing"]
    assert left_of(bed_name) == [f"{bed_name}.json"], "the system's own folder of namespaces holds none of it"
    openmrc("exec", "host1", "--name", bed_name, "--", "sh", "-c", "exit 7", code=7)
    opened = TestBed.open(bed_name)
    words = [*opened.prefix(opened.layout.node("host0")), "ip", "-6", "route", "get", "fd00:6d72:1:1::1"]
    assert "dev eth1" in subprocess.run(words, capture_output=True, text=True, check=True).stdout
    openmrc("fault", "--name", bed_name, "host 1 plane 0 down")
    carriers = {
        (link["node"], link["interface"]): link["carrier"]
        for link in json.loads(openmrc("status", bed_name, "--json"))["links"]
    }
    assert not carriers["host1", "eth0"]
    assert carriers["host1", "eth1"]
    openmrc("down", bed_name)
    assert left_of(bed_name) == []
    assert not Path(f"/proc/{made['keeper']}/ns/net").exists()


def test_a_rootless_up_that_fails_ends_its_keeper(
    fabric_file: Path, bed_name: str, left_of: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
):
    from openmrc.testbed import rootless

    monkeypatch.setenv(OWN_VARIABLE, str(os.getpid()))
    program = (
        "from openmrc.testbed import kernel, TestBedError\n"
        "def fail(*_): raise TestBedError('injected')\n"
        "kernel._make_management = fail\n"
        "from openmrc.cli.main import main\n"
        f"main(['testbed', 'up', {str(fabric_file)!r}, '--name', {bed_name!r}])\n"
    )
    keeper = rootless.start_keeper()
    until(lambda: sleepers() == {str(keeper)})
    try:
        command = [
            *rootless.entry(keeper),
            "env",
            f"{rootless.KEEPER_VARIABLE}={keeper}:test",
            sys.executable,
            "-c",
            program,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (1, "openmrc: injected\n")
    finally:
        rootless.end_keeper(keeper)
    assert left_of(bed_name) == []
    openmrc("up", fabric_file, "--name", "Not A Name", "--rootless", code=2)
    assert sleepers() == set()


def sleepers() -> set[str]:
    """Keepers descended from this test, recognised by their environment."""
    own = f"{OWN_VARIABLE}={os.getpid()}".encode()
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            asleep = (folder / "cmdline").read_bytes() == b"sleep\0infinity\0"
            if asleep and own in (folder / "environ").read_bytes().split(b"\0"):
                found.add(folder.name)
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_ctrl_c_during_up_leaves_nothing_behind(tmp_path: Path, bed_name: str, left_of: Callable[[str], list[str]]):
    large = tmp_path / "large.yaml"
    large.write_text(FABRIC.replace("hosts: 2", "hosts: 8").replace("planes: 2", "planes: 4"))
    command = [sys.executable, "-m", "openmrc.cli.main", "testbed", "up", str(large), "--name", bed_name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        while not list(namespaces.FOLDER.glob(f"{bed_name}-*")):
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=30)
    assert running.returncode == 130
    assert left_of(bed_name) == []


def test_a_fault_with_a_time_ends_with_its_command_and_another_stays(
    needs_data_plane: None, here: Callable[..., str], fabric_file: Path, bed_name: str
):
    made = json.loads(here("up", fabric_file, "--name", bed_name, "--json"))
    assert made["data_plane"], made["data_plane_missing"]
    assert "repaired" in here("fault", "--name", bed_name, "plane 0 blackhole for 50ms")
    assert here("fault", "--name", bed_name) == "no fault is active\n"
    here("fault", "--name", bed_name, "t1", "1", "loss", "5%")
    assert here("fault", "--name", bed_name) == "fault 2: t1 1 loss 5%\n"
    assert json.loads(here("status", bed_name, "--json"))["faults"] == {"2": "t1 1 loss 5%"}
    assert here("fault", "--name", bed_name, "repair", "all") == "1 fault repaired\n"
    assert "plane 0 to 1" in here("fault", "--name", bed_name, "plane 7 blackhole", code=2)
    here("down", bed_name)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["docs/guides/testbed.md", "README.md"])
def test_the_commands_of_a_page_work_as_printed(
    repository: Path, needs_namespaces: None, left_of: Callable[[str], list[str]], page: str
):
    text = (repository / page).read_text()
    name = "demo"
    if left_of(name):
        pytest.skip("a test bed of the guide's name is up")
    alone = not state.names()
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    commands = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ openmrc testbed ")]
    simple = [shlex.split(command)[2:] for command in commands if " compare " not in command]
    assert [words[0] for words in simple][:1] == ["up"]
    assert [words[0] for words in simple][-1:] == ["down"]
    try:
        for words in simple:
            silent = words[0] == "fault" and "down" not in words and TestBed.open(name).state.data_plane is None
            if words[0] != "shell" and not silent:
                if not alone and words[0] != "up":  # the guide's reader has one test bed
                    words[1:1] = [name] if words[0] in ("status", "down") else ["--name", name]
                openmrc(*[str(repository / word) if word.endswith(".yaml") else word for word in words])
    finally:
        if left_of(name):
            TestBed.open(name).down()
    assert left_of(name) == []
