"""Ranks of a program that loads the network plugin for NCCL, and calls it as NCCL does."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from rdma_programs import LIMIT_S

from openmrc.programs import nccl_plugin_path
from openmrc.variables import PORTS

ENDED = "as expected"
NEWEST = 12  # version of the interface that the program asks for, above all that there are


class Ranks:
    """Two ranks of a case, in their own directory."""

    def __init__(self, program: Path, directory: Path) -> None:
        self.program, self.directory = program, directory

    def start(self, case: str, rank: int, ports: str, newest: int, *prefix: str) -> subprocess.Popen[str]:
        """A rank with these ports, behind a command prefix."""
        return self.start_with([*prefix, "env", f"{PORTS}={ports}"], case, rank, newest)

    def start_with(self, prefix: Sequence[str], case: str, rank: int, newest: int = NEWEST) -> subprocess.Popen[str]:
        """A rank behind a command prefix, with the devices of its environment."""
        words = [str(self.program), str(nccl_plugin_path()), str(newest), case, str(rank), str(self.directory)]
        command = [*prefix, *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(
        self, case: str, ports: str = "127.0.0.1", newest: int = NEWEST, count: int = 2
    ) -> list[tuple[int, str, str]]:
        """Exit status, output and errors of each rank."""
        started = [self.start(case, rank, ports, newest) for rank in range(count)]
        return ended(started)


def ended(started: list[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    """Exit status, output and errors of each process."""
    try:
        said = [process.communicate(timeout=LIMIT_S) for process in started]
    finally:
        for process in started:
            process.kill()
    return [(process.returncode, *words) for process, words in zip(started, said, strict=True)]


def passed(results: list[tuple[int, str, str]]) -> bool:
    """True if every rank has ended as its case expects."""
    return all(status == 0 and errors.endswith(f"{ENDED}\n") for status, _, errors in results)
