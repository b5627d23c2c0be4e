"""Command lines that start Open MPI in network namespaces or on this host, and the end of its daemons."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path

from openmrc.testbed import namespaces

__all__ = ["end_daemons", "mpirun", "mpirun_on_one_host", "no_mpirun"]

_DAEMONS = ("prted", "orted")
_SETTINGS = {
    "pml": "ob1",
    "coll": "basic,tuned,libnbc,self,inter",  # others would use the memory that the namespaces share
    "btl": "tcp,self",
    "btl_tcp_disable_family": "6",  # with several addresses per interface it does not recognise its peer
    "mpi_yield_when_idle": "1",  # a host does not have all processors of this machine
}


def no_mpirun() -> str | None:
    """Reason why Open MPI cannot run on this machine; None: it can."""
    return None if shutil.which("mpirun", path=os.environ.get("PATH")) else "mpirun is not installed"


def mpirun(
    folder: Path, addresses: Sequence[str], prefixes: Sequence[Sequence[str]], *, interface: str, connecting: str
) -> list[str]:
    """Command prefix that runs a command once on each host: `mpirun`, on the first of them.

    Its agent, in place of ssh, enters the namespace that has the address.

    Args:
        folder: For the agent; it must exist until the ranks are connected.
        addresses: By which the hosts reach each other, in the order of ranks.
        prefixes: Command prefix for each host.
        interface: For data, or several with commas between them.
        connecting: The interface with these addresses.
    """
    agent = folder / "agent"
    cases = "".join(
        f'  {address}) exec {" ".join(prefix)} sh -c "$*" ;;\n'
        for address, prefix in zip(addresses, prefixes, strict=True)
    )
    agent.write_text(f'#!/bin/sh\nto=$1; shift\ncase "$to" in\n{cases}esac\n')
    agent.chmod(0o755)
    chosen = {"btl_tcp_if_include": interface, "oob_tcp_if_include": connecting, "plm_rsh_agent": str(agent)}
    return [
        *prefixes[0],
        str(shutil.which("mpirun")),
        "--allow-run-as-root",
        *("--np", str(len(addresses))),
        *("--host", ",".join(f"{address}:1" for address in addresses)),
        *("--map-by", "node"),
        *("--bind-to", "none"),
        *(word for key, value in (_SETTINGS | chosen).items() for word in ("--mca", key, value)),
    ]


def mpirun_on_one_host(ranks: int) -> list[str]:
    """Command prefix that starts this number of ranks on this host, with Open MPI's own choice of shared memory."""
    settings = {"mpi_yield_when_idle": _SETTINGS["mpi_yield_when_idle"]}
    return [
        str(shutil.which("mpirun")),
        "--allow-run-as-root",
        "--oversubscribe",
        *("--np", str(ranks)),
        *("--bind-to", "none"),
        *(word for key, value in settings.items() for word in ("--mca", key, value)),
    ]


def end_daemons(hosts: Iterable[str]) -> None:
    """Ends the processes that a killed `mpirun` has left in the namespaces of these names."""
    for pid in namespaces.processes(hosts):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().strip() in _DAEMONS:
                os.kill(pid, signal.SIGKILL)
