"""Starts the ranks of the collectives benchmark, each on a host of its own, and collects what rank 0 measured."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RANK = Path(__file__).with_name("_collective_rank.py")
TIMEOUT_S = 120.0
Started = Callable[[], None]


@dataclass(frozen=True)
class Hosts:
    """Where ranks run, one on each host.

    Args:
        prefixes: What to put before a command so that it runs on the host.
        addresses: At which hosts reach each other for connecting; data may take another way.
        interfaces: Of each host, for data: of the TCP backends.
        connecting: The interface with those addresses.
        mrc: Of each host, what our backend needs: "ports" or "paths".
    """

    prefixes: Sequence[Sequence[str]]
    addresses: Sequence[str]
    interfaces: Sequence[str]
    connecting: str
    mrc: Sequence[dict[str, Any]]
    settings: dict[str, Any] = field(default_factory=dict)


def run_ranks(
    hosts: Hosts, backend: str, works: list[dict[str, Any]], started: Started | None = None, **changes: Any
) -> list[Any]:
    """For each work, [begin, seconds] of its rounds at rank 0. `started` is called when the last work begins.

    Raises:
        subprocess.SubprocessError: a rank failed, or all took too long.
    """
    ranks = len(hosts.prefixes)
    with tempfile.TemporaryDirectory() as folder:
        spec = {"backend": backend, "ranks": ranks, "works": works, "root": hosts.addresses[0], "store": folder}
        spec |= {"interfaces": list(hosts.interfaces)} | changes
        if backend == "mpi":
            commands = [[*hosts.prefixes[0], *_mpirun(hosts, Path(folder)), json.dumps(spec | {"rank": 0})]]
        else:
            commands = [
                [
                    *hosts.prefixes[rank],
                    sys.executable,
                    str(RANK),
                    json.dumps(spec | {"rank": rank, "address": hosts.addresses[rank]} | hosts.mrc[rank]),
                ]
                for rank in range(ranks)
            ]
        return _collect(commands, started, Path(folder, "begun"))


def _collect(commands: list[list[str]], started: Started | None, begun: Path) -> list[Any]:
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    processes = [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        for command in commands
    ]
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while started is not None and not begun.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        if started is not None:
            started()
        answers = [one.communicate(timeout=max(deadline - time.monotonic(), 1.0)) for one in processes]
    finally:
        for one in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, 9)
            one.wait()
    for command, one, (output, errors) in zip(commands, processes, answers, strict=True):
        if one.returncode != 0:
            raise subprocess.CalledProcessError(one.returncode, command, output, errors)
    lines = [line for line in answers[0][0].splitlines() if line.startswith("[")]
    return list(json.loads(lines[-1]))


def _mpirun(hosts: Hosts, folder: Path) -> list[str]:
    """`mpirun` of one rank per host; its agent, in place of ssh, enters the host's namespace."""
    agent = folder / "agent"
    cases = "".join(
        f'  {address}) exec {" ".join(prefix)} sh -c "$*" ;;\n'
        for address, prefix in zip(hosts.addresses, hosts.prefixes, strict=True)
    )
    agent.write_text(f'#!/bin/sh\nto=$1; shift\ncase "$to" in\n{cases}esac\n')
    agent.chmod(0o755)
    settings = {
        "pml": "ob1",
        "btl": "tcp,self",
        "btl_tcp_if_include": hosts.interfaces[0],
        "btl_tcp_disable_family": "6",
        "plm_rsh_agent": str(agent),
        "oob_tcp_if_include": hosts.connecting,
        "mpi_yield_when_idle": "1",
    }
    places = ",".join(f"{address}:1" for address in hosts.addresses)
    command = [str(shutil.which("mpirun")), "--allow-run-as-root", "--np", str(len(hosts.addresses))]
    command += ["--host", places, "--map-by", "node", "--bind-to", "none"]
    command += [word for key, value in settings.items() for word in ("--mca", key, value)]
    return [*command, sys.executable, str(RANK)]
