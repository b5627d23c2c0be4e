"""`openmrc emulate` from the outside: its output, its end, and its answers to errors."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from own_ports import UDP_PORT

from openmrc.emulate import ControlClient

pytestmark = pytest.mark.live

FABRIC = f"""
name: tiny
planes: 2
hosts: 2
rate: 100Mbit
address_base: 127.112.0.0
udp_port: {UDP_PORT}
"""


@pytest.fixture
def fabric_file(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(FABRIC)
    return path


@pytest.fixture
def emulate() -> Iterator[Any]:
    """Starts the command; kills it at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "openmrc.cli.main", "emulate", *map(str, arguments)]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_it_prints_where_hosts_attach_and_what_happens(emulate: Any, fabric_file: Path) -> None:
    process = emulate(fabric_file, "--seconds", "0.5", "--fault", "host 1 plane 0 down at 50ms for 100ms")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "host 1: 127.112.1.1@127.112.1.2,127.113.1.1@127.113.1.2" in out
    assert "host 1 port 0: carrier down" in out
    assert "host 1 port 0: carrier up" in out
    assert "0 packets in" in out


def test_json_lines_give_programs_the_control_address_and_ctrl_c_ends_it(emulate: Any, fabric_file: Path) -> None:
    process = emulate(fabric_file, "--json")
    ready = json.loads(process.stdout.readline())
    assert ready["event"] == "ready"
    with ControlClient(ready["control"]) as client:
        assert client.describe()["ports"] == ready["ports"]
        client.inject("plane 1 blackhole")
    assert json.loads(process.stdout.readline())["fault"] == "plane 1 blackhole"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--fault", "plane 7 down"], "this fabric has plane 0 to 1"),
        (["--fault", "plane 1 dwon"], "did you mean 'down'"),
        (["--control", "8.8.8.8:1"], "unix:PATH"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    emulate: Any, fabric_file: Path, arguments: list[str], words: str
) -> None:
    process = emulate(fabric_file, *arguments)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert words in err
    assert "Traceback" not in err


def test_a_wrong_file_lists_all_its_problems(emulate: Any, fabric_file: Path) -> None:
    fabric_file.write_text(FABRIC.replace("planes: 2", "planes: 0") + "delai: 3ms\n")
    process = emulate(fabric_file)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert f"{fabric_file}:3: planes is 0" in err
    assert f"{fabric_file}:8: key is 'delai'" in err


def test_a_second_fabric_on_the_same_addresses_says_what_to_do(emulate: Any, fabric_file: Path) -> None:
    first = emulate(fabric_file, "--json")
    assert first.stdout.readline()
    second = emulate(fabric_file)
    _, err = second.communicate(timeout=60)
    assert second.returncode == 1
    assert "address_base" in err
