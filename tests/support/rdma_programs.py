"""Runs of RDMA programs of others, in pairs, under `openmrc run`."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from own_ports import TCP_PORT
from waiting import until

from openmrc.errors import DeviceError
from openmrc.programs import library_path

End = tuple[Sequence[str], str | None]

LIMIT_S = 240
_LISTENS = "0A"
_tcp_ports = itertools.cycle(range(TCP_PORT, TCP_PORT + 4))


def needs(*programs: str) -> list[pytest.MarkDecorator]:
    """Marks of a test that runs these programs."""
    marks = [pytest.mark.live]
    try:
        library_path()
    except DeviceError as error:
        marks.append(pytest.mark.skip(reason=str(error)))
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        marks.append(pytest.mark.skip(reason=f"{', '.join(missing)} is not installed"))
    return marks


def wrapped(words: list[str], *devices: str | None, qp: str | None = None) -> list[str]:
    """A command under `openmrc run`, with the ports of each device; None: as the environment says."""
    options = [word for ports in devices or ("127.0.0.1",) if ports is not None for word in ("--ports", ports)]
    options += [] if qp is None else ["--qp", qp]
    return [sys.executable, "-m", "openmrc.cli.main", "run", *options, "--", *words]


@dataclass(frozen=True)
class Ended:
    """Exit status and output of both sides."""

    client: int
    server: int
    output: str

    @property
    def passed(self) -> bool:
        return self.client == 0 and self.server == 0


def run_pair(
    words: list[str], *, ports: str = "127.0.0.1", qp: str | None = None, ends: Sequence[End] | None = None
) -> Ended:
    """Server and client of a program that takes the server's address as its last argument.

    `ends` has the server's and the client's command prefix and ports; None: both are on loopback, with `ports`.
    """
    tcp_port = next_tcp_port()
    address = "127.0.0.1" if ends is None else ends[0][1].split(",")[0]
    serve, ask = (
        [*prefix, *wrapped([*words, "-p", str(tcp_port)], own, qp=qp)] for prefix, own in ends or [((), ports)] * 2
    )
    return _run(serve, [*ask, address], tcp_port)


def run_both(
    server: list[str],
    client: list[str],
    tcp_port: int,
    *,
    ports: str | None = "127.0.0.1",
    qp: str | None = None,
    ends: Sequence[End] | None = None,
) -> Ended:
    """Server and client from the words of each; `ends` as for `run_pair`."""
    serve, ask = (
        [*prefix, *wrapped(words, own, qp=qp)]
        for words, (prefix, own) in zip((server, client), ends or [((), ports)] * 2, strict=True)
    )
    return _run(serve, ask, tcp_port)


def next_tcp_port() -> int:
    """A port of this test process."""
    return next(_tcp_ports)


def _run(serve: list[str], ask: list[str], tcp_port: int) -> Ended:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(serve, **pipes) as server:  # type: ignore[call-overload]
        try:
            until(lambda: listens(server.pid, tcp_port) or server.poll() is not None)
            client = subprocess.run(ask, timeout=LIMIT_S, check=False, **pipes)  # type: ignore[call-overload]
            if client.returncode != 0:
                server.terminate()  # it would wait for the client
            said, _ = server.communicate(timeout=LIMIT_S)
        finally:
            server.kill()
    return Ended(client.returncode, server.returncode, f"client:\n{client.stdout}\nserver:\n{said}")


def compiled(source: Path, program: Path, *libraries: str) -> list[str]:
    """A C program that uses libibverbs and further libraries, by name or as options; skips without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    names = [one if one.startswith("-") else f"-l{one}" for one in (*libraries, "ibverbs")]
    subprocess.run([compiler, "-Wall", str(source), "-o", str(program), *names], check=True)
    return [str(program)]


def run_case(program: list[str], case: str, *devices: str, qp: str = "pair") -> None:
    """Runs one case of a test program, which ends well or prints the expectation that failed."""
    command = wrapped([*program, case], *devices, qp=qp)
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stdout) == (0, "as expected\n"), f"{done.returncode}: {done.stdout}{done.stderr}"


def listens(pid: int, tcp_port: int) -> bool:
    """True if some process in the network namespace of `pid` listens on the port, on any address of either family."""
    try:
        texts = [Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6")]
    except OSError:  # it has ended
        return False
    lines = [line.split() for text in texts for line in text.splitlines()[1:]]
    return any(words[3] == _LISTENS and int(words[1].rpartition(":")[2], 16) == tcp_port for words in lines)
