"""Pairs of programs, a server and a client on two hosts: unmodified RDMA programs over openmrc, `openmrc perf`, UCX."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from openmrc.runs.processes.supervisor import ChildError

__all__ = ["During", "Hosts", "alone", "both", "missing", "perf", "perftest", "received_bytes", "tcp_port", "ucx"]

_LIMIT_S = 60.0
_START_S = 20.0
_LISTENS = "0A"
_TCP_PORTS = itertools.cycle(range(18600, 18700))
_CLI = (sys.executable, "-m", "openmrc.cli.main")
_TAIL_LINES = 4
_UCX = ("env", "UCX_TLS=tcp", "ucx_perftest")
_RESULT = re.compile(r'^\s*"?([\w.]+)"?:\s*"?([0-9.]+)"?,?\s*$', re.MULTILINE)

During = Callable[[int], None]


@dataclass(frozen=True)
class Hosts:
    """Two hosts: the server's first.

    Args:
        prefixes: Command prefix of each host.
        ports: Of each host, its addresses by plane.
    """

    prefixes: Sequence[Sequence[str]]
    ports: Sequence[Sequence[str]]

    @property
    def server(self) -> str:
        """Address to which clients connect."""
        return self.ports[0][0]

    def over_openmrc(self, host: int, words: Sequence[str]) -> list[str]:
        """Command of an RDMA program on a host, which finds openmrc's library."""
        return [*self.prefixes[host], *_CLI, "run", "--ports", ",".join(self.ports[host]), "--", *words]


def received_bytes(pid: int, interface: str) -> int:
    """Bytes that an interface in the network namespace of `pid` has received."""
    lines = Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii").splitlines()[2:]
    return {words[0]: int(words[1]) for words in (line.replace(":", " ").split() for line in lines)}[interface]


def missing(*programs: str) -> str | None:
    """The programs that are not installed; None: all are."""
    absent = [program for program in programs if shutil.which(program) is None]
    return f"{', '.join(absent)} not installed" if absent else None


def tcp_port() -> int:
    """A TCP port on which no other pair of this benchmark listens."""
    return next(_TCP_PORTS)


def both(hosts: Hosts, server: Sequence[str], client: Sequence[str], port: int) -> None:
    """Runs a server, which listens on a TCP port, and its client over openmrc; both end with status 0.

    Raises:
        ChildError: one of them ended with an error, or did not end.
    """
    _run(server[0], hosts.over_openmrc(0, server), hosts.over_openmrc(1, client), port, None)


def alone(hosts: Hosts, words: Sequence[str]) -> None:
    """Runs a program over openmrc on the first host; it ends with status 0.

    Raises:
        ChildError: it ended with an error, or did not end.
    """
    with _started(hosts.over_openmrc(0, words)) as (process, says):
        _expect_success(words[0], process, says)


def perftest(hosts: Hosts, words: Sequence[str], during: During | None = None) -> dict[str, float]:
    """Results of the client of a program of perftest, by its own names.

    Args:
        hosts: Both run the program over openmrc.
        words: The program and its options.
        during: Called with the server's process when both have been started.

    Raises:
        ChildError: one of them ended with an error, or did not end.
    """
    port = next(_TCP_PORTS)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "client.json"
        common = [*words, "-d", "mrc0", "-F", "-p", str(port)]
        server = hosts.over_openmrc(0, common)
        client = hosts.over_openmrc(1, [*common, "--out_json", f"--out_json_file={file}", hosts.server])
        _run(words[0], server, client, port, during)
        return _results(file.read_text())


def _results(text: str) -> dict[str, float]:
    """Numbers of a report; perftest 4.5 writes the names without the quotation marks of JSON."""
    found = {name: float(value) for name, value in _RESULT.findall(text.partition("results")[2])}
    if not found:
        raise ChildError(f"perftest: a report without results: {text!r}")
    return found


def perf(hosts: Hosts, words: Sequence[str]) -> dict[str, Any]:
    """The row of `openmrc perf` with these words, of one size.

    Raises:
        ChildError: one end failed, or did not end.
    """
    port = next(_TCP_PORTS)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "client.json"
        command, ports = [*_CLI, "perf"], [",".join(one) for one in hosts.ports]
        server = [*hosts.prefixes[0], *command, "serve", "-p", str(port), "--ports", ports[0], "--clients", "1"]
        server += ["--listen", hosts.server]
        client = [*hosts.prefixes[1], *command, *words, hosts.server, "-p", str(port), "--ports", ports[1]]
        _run("openmrc perf", server, [*client, "--json", str(file)], port, None)
        [found] = json.loads(file.read_text())["rows"]
        return dict(found)


def ucx(hosts: Hosts, words: Sequence[str]) -> dict[str, float]:
    """The result of `ucx_perftest` over TCP, by its own names.

    Raises:
        ChildError: one end failed, or did not end.
    """
    port = next(_TCP_PORTS)
    server = [*hosts.prefixes[0], *_UCX, "-p", str(port)]
    client = [*hosts.prefixes[1], *_UCX, hosts.server, "-p", str(port), *words, "-f", "-v"]
    said = _run("ucx_perftest", server, client, port, None)
    lines = [line for line in said.splitlines() if "," in line]
    [found] = csv.DictReader(lines)
    return {name: float(value) for name, value in found.items()}


def _run(name: str, server: list[str], client: list[str], port: int, during: During | None) -> str:
    """Output of the client; both have ended with status 0."""
    with _started(server) as (first, first_says):
        _until_listening(name, first, first_says, port)
        with _started(client) as (second, second_says):
            if during is not None:
                during(first.pid)
            _expect_success(f"{name}, client", second, second_says)
            _expect_success(f"{name}, server", first, first_says)
            second_says.seek(0)
            return second_says.read()


@contextlib.contextmanager
def _started(command: list[str]) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A process and its output, killed at the end if it still runs."""
    with tempfile.TemporaryFile("w+") as says:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=says, stderr=subprocess.STDOUT, text=True)
        try:
            yield process, says
        finally:
            process.kill()
            process.wait()


def _until_listening(name: str, server: subprocess.Popen[str], says: IO[str], port: int) -> None:
    deadline = time.monotonic() + _START_S
    while not _listens(server.pid, port):
        if server.poll() is not None or time.monotonic() > deadline:
            raise ChildError(f"{name}, server: does not listen: {_tail(says)}")
        time.sleep(0.05)


def _listens(pid: int, port: int) -> bool:
    """True if a process in the network namespace of `pid` listens on the port."""
    try:
        lines = [
            line.split()
            for file in ("tcp", "tcp6")
            for line in Path(f"/proc/{pid}/net/{file}").read_text().splitlines()[1:]
        ]
    except OSError:
        return False
    return any(words[3] == _LISTENS and int(words[1].rpartition(":")[2], 16) == port for words in lines)


def _expect_success(name: str, process: subprocess.Popen[str], says: IO[str]) -> None:
    try:
        status = process.wait(_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise ChildError(f"{name}: not done after {_LIMIT_S:.0f} s: {_tail(says)}") from None
    if status != 0:
        raise ChildError(f"{name}: exit status {status}: {_tail(says)}")


def _tail(says: IO[str]) -> str:
    says.seek(0)
    lines = [line.strip() for line in says.read().splitlines() if any(letter.isalnum() for letter in line)]
    return " | ".join(lines[-_TAIL_LINES:])
