"""Every command that the tutorial and the guides of demo, bench and perf print in a console block works as printed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from own_ports import TCP_PORT, UDP_PORT, on_own_ports

pytestmark = [pytest.mark.live, pytest.mark.slow]

PAGES = ("tutorial.md", "guides/demo.md", "guides/bench.md", "guides/perf.md")


def commands_of(page: Path) -> list[str]:
    """The lines after `$ ` of all console blocks, in order."""
    blocks = re.findall(r"^```console\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def write_files_of(page: Path, folder: Path) -> None:
    """Every YAML block after a paragraph that names its file."""
    for name, text in re.findall(
        r"`([\w-]+\.yaml)`[^`]*\n\n```yaml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL
    ):
        (folder / name).write_text(text)


def argv_of(command: str) -> list[str]:
    """The command with this interpreter and, where it names ports by default, with those of this test process."""
    words = shlex.split(command)
    program = {"openmrc": [sys.executable, "-m", "openmrc.cli.main"], "python": [sys.executable]}
    ports = ["--port", str(TCP_PORT), "--udp-port", str(UDP_PORT)] if words[:2] == ["openmrc", "perf"] else []
    return [*program[words[0]], *words[1:], *ports]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_work_as_printed(repository: Path, tmp_path: Path, page: str):
    commands = commands_of(repository / "docs" / page)
    assert commands, f"{page} prints no commands"
    write_files_of(repository / "docs" / page, tmp_path)
    background: list[subprocess.Popen[str]] = []
    try:
        for command in commands:
            if command.endswith(" &"):
                server = subprocess.Popen(
                    argv_of(command.removesuffix(" &")), cwd=tmp_path, stdout=subprocess.PIPE, text=True
                )
                background.append(server)
                assert server.stdout is not None
                assert server.stdout.readline().startswith("serving on")
                continue
            done = subprocess.run(
                argv_of(command), cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            assert done.stdout.strip()
        for server in background:
            server.communicate(timeout=30)
            assert server.returncode == 0
    finally:
        for server in background:
            server.kill()
            server.communicate()


def test_the_two_programs_of_the_tutorial_work_together(repository: Path):
    text = (repository / "docs" / "tutorial.md").read_text()
    offers, writes = map(on_own_ports, re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    with subprocess.Popen([sys.executable, "-c", offers], stdout=subprocess.PIPE, text=True) as listener:
        try:
            for _ in range(50):
                done = subprocess.run(
                    [sys.executable, "-c", writes], capture_output=True, text=True, timeout=60, check=False
                )
                if done.returncode == 0 or "PeerUnreachableError" not in done.stderr:
                    break
                time.sleep(0.1)
            output, _ = listener.communicate(timeout=30)
        finally:
            listener.kill()
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "written over MRC"
    assert output.strip() == "received 1 [7 7 7] 7000000"
