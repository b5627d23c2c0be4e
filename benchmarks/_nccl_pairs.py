"""The harness of NCCL's plugin: a program that loads and calls it as NCCL does, compiled for a benchmark."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from _program_pairs import Hosts

from openmrc.programs import nccl_plugin_path
from openmrc.runs.processes.supervisor import ChildError
from openmrc.variables import PORTS

__all__ = ["Harness", "compiled"]

_NATIVE = Path(__file__).resolve().parent.parent / "native"
_NEWEST = 12  # version of the interface that the harness asks for, above all that there are
_LIMIT_S = 120


class Harness:
    """The compiled program."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def run(self, hosts: Hosts, case: str) -> str:
        """Output of the first of two ranks, one on each host, which check what they receive.

        Raises:
            ChildError: a rank failed, or did not end.
        """
        with tempfile.TemporaryDirectory() as meeting:
            words = [str(self._program), str(nccl_plugin_path()), str(_NEWEST), case]
            ranks = [
                subprocess.Popen(
                    [*prefix, "env", f"{PORTS}={','.join(ports)}", *words, str(rank), meeting],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                for rank, (prefix, ports) in enumerate(zip(hosts.prefixes, hosts.ports, strict=True))
            ]
            try:
                said = [rank.communicate(timeout=_LIMIT_S) for rank in ranks]
            except subprocess.TimeoutExpired:
                raise ChildError(f"NCCL plugin, {case}: not done after {_LIMIT_S} s") from None
            finally:
                for rank in ranks:
                    rank.kill()
            for rank, (_, errors) in zip(ranks, said, strict=True):
                if rank.returncode != 0:
                    raise ChildError(f"NCCL plugin, {case}: exit status {rank.returncode}: {errors.strip()[-300:]}")
            return said[0][0]

    def succeeds(self, hosts: Hosts, case: str) -> float:
        """Exit status of both ranks, 0; raises as `run`."""
        self.run(hosts, case)
        return 0.0

    def gbps(self, hosts: Hosts, case: str = "bandwidth") -> float:
        """Rate that a case measures, in Gb/s; by default of messages of 4 MiB, eight at a time; raises as `run`."""
        return float(json.loads(self.run(hosts, case))["gbit_s"])


@contextlib.contextmanager
def compiled() -> Iterator[Harness]:
    """The harness, which exists inside the `with` block.

    Raises:
        ChildError: it does not compile.
    """
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "nccl_harness"
        source = _NATIVE / "tests" / "nccl" / "harness.cpp"
        command = ["c++", "-std=c++20", "-O2", "-I", str(_NATIVE), str(source), "-o", str(program), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ChildError(f"the harness of NCCL's plugin does not compile: {done.stderr[-300:]}")
        yield Harness(program)
