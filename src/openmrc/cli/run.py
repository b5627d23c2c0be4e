"""`openmrc run`: an unmodified RDMA program with openmrc's libibverbs."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from typing import Annotated

import typer

from openmrc.errors import ConfigError

app = typer.Typer(help="Run an unmodified RDMA program with openmrc as its RDMA devices.")


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    command: Annotated[list[str], typer.Argument(metavar="-- PROGRAM", help="The program and its arguments.")],
    ports: Annotated[
        list[str] | None,
        typer.Option(
            "--ports",
            help="Interfaces or addresses of a device, one per plane. Once for each device. Default: OPENMRC_PORTS, or "
            "all suitable interfaces.",
        ),
    ] = None,
    paths: Annotated[
        str | None,
        typer.Option(
            "--paths",
            metavar="FILE",
            help="Path file of the NIC, in place of ports: one device, in EV format SRV6. Default: OPENMRC_PATHS.",
        ),
    ] = None,
    qp: Annotated[
        str | None,
        typer.Option(
            "--qp",
            help="QPs of type RC: `pair` writes over MRC, the rest goes over RC, `mrc` writes only, `rc` uses "
            "one path. Both ends need the same. Default: OPENMRC_QP, or pair.",
        ),
    ] = None,
) -> None:
    """Run a program that uses libibverbs; its exit code is this command's."""
    from openmrc.programs import prepare

    prepared = prepare(ports or [], qp, os.environ, paths=paths)
    program = shutil.which(command[0])
    if program is None:
        raise ConfigError("PROGRAM", command[0], "a program on the PATH, or the path of one")
    print(f"openmrc: {command[0]} finds {prepared.summary}", file=sys.stderr, flush=True)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a program would inherit that
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(program, command, prepared.variables)  # noqa: S606  (signals and the terminal are the program's own)
    except OSError as error:
        raise ConfigError("PROGRAM", program, f"a program that starts ({error.strerror})") from error
