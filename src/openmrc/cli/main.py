"""Entry point of `openmrc`.

A command `name` is a module `openmrc.cli.<name>` with a `typer.Typer` called `app`; one command in it makes it plain,
several make it a group. It is listed in COMMANDS, so that `openmrc --help` imports none of them.

Exit codes: 0 success; 1 something failed; 2 the user's input is wrong; 130 interrupted. Typed errors become one line on
stderr; a traceback is always our own mistake.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from openmrc.errors import ConfigError, InvalidArgumentError, OpenmrcError
from openmrc.variables import unknown_variables

INTERRUPTED = 130
COMMANDS = {
    "demo": "Hosts, planes and faults in your terminal: MRC against RC, with a report.",
    "emulate": "A multi-plane Clos fabric in user space, with faults, between UDP sockets.",
    "testbed": "A fabric of Linux network namespaces: the kernel itself forwards, by SRv6.",
    "perf": "Measure bandwidth and latency between two machines.",
    "plan": "Bill of materials, cost and failure analysis of a fabric; search for designs.",
    "sim": "Simulate scenarios packet by packet, and write reports.",
    "paper": "The published experiments of the MRC paper, simulated and compared.",
    "sweep": "Run one scenario for many parameter values and seeds, with one table of results.",
    "eval": "Evaluation campaigns as a workload: profile, size, plan, simulate.",
    "bench": "Benchmarks with both ends and the fabric on this machine.",
    "run": "Run an unmodified RDMA program with openmrc as its RDMA devices.",
    "doctor": "Examine the capabilities of this host and recommend changes.",
}


class LazyGroup(TyperGroup):
    """Holds a name and a help line per command; the module is imported when its command is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in COMMANDS:
            command_app: typer.Typer = import_module(f"openmrc.cli.{args[0]}").app
            command_app._add_completion = False  # offered once, not by every command
            self.add_command(typer.main.get_command(command_app), args[0])
        return super().resolve_command(ctx, args)


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]})
for name, summary in COMMANDS.items():
    app.command(name=name, help=summary)(lambda: None)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"openmrc {version('openmrc')}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """MRC (Multipath Reliable Connection) on ordinary Linux hosts."""


def main(arguments: list[str] | None = None) -> None:
    """Runs `openmrc` and exits."""
    for warning in unknown_variables(os.environ):
        print(f"openmrc: warning: {warning}", file=sys.stderr)
    try:
        typer.main.get_command(app).main(args=arguments, prog_name="openmrc")
    except (ConfigError, InvalidArgumentError) as error:
        print(f"openmrc: {error}", file=sys.stderr)
        sys.exit(2)
    except OpenmrcError as error:
        print(f"openmrc: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        leave_at_once()
    except SystemExit as ended:
        if ended.code == INTERRUPTED:  # Typer's end of a command at Ctrl-C
            leave_at_once()
        raise


def leave_at_once() -> NoReturn:
    """Ends an interrupted process, once every command has released its resources.

    Threads may still be in native code; returning into an interpreter during shutdown, one would abort the process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
