"""The options of `openmrc plan` that write configuration files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from openmrc.errors import ConfigError

__all__ = ["write_files"]


def write_files(
    file: Path,
    folder: Path,
    formats: str,
    nodes: str,
    ports: Sequence[str],
    *,
    hosts: bool,
    encap: bool,
    quiet: bool,
) -> None:
    """Writes the files and prints their number, with a progress bar. If interrupted, complete files are left.

    Args:
        file: Fabric file with the switches and hosts.
        folder: Root of the output.
        formats: Names of formats, separated by commas; `none` for no switches.
        nodes: Names and patterns, separated by commas; empty: all.
        ports: `FORMAT=PATTERN` each.
        hosts: Also the hosts' scripts and path files.
        encap: Also the hosts' scripts for kernel encapsulation.
        quiet: Print nothing on stdout.

    Raises:
        ConfigError: a request that the fabric or a format cannot meet.
        OpenmrcError: the folder cannot be written.
    """
    from openmrc.fabric import load_fabric
    from openmrc.srv6.configs.files import ConfigFiles

    if encap and not hosts:
        raise ConfigError("--encap", "without --hosts", "only with --hosts", hint="it is a script of each host")
    wanted = [] if formats == "none" else _words(formats)
    if not wanted and not hosts:
        raise ConfigError("--format", formats, "formats of switches, or `none` with --hosts", hint="add --hosts")
    files = ConfigFiles(
        load_fabric(file), wanted, hosts=hosts, encap=encap, nodes=_words(nodes), ports=_patterns(ports)
    )
    columns = (TextColumn("writing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("files", total=files.count)
        for _ in files.write(folder):
            bar.advance(task)
    if not quiet:
        typer.echo(f"{files.count} files below {folder}")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _patterns(written: Sequence[str]) -> dict[str, str]:
    patterns = {}
    for text in written:
        name, sign, pattern = text.partition("=")
        if not sign:
            raise ConfigError("--ports", text, "FORMAT=PATTERN", hint="such as --ports 'eos=Ethernet{1/8}/{1%8}'")
        patterns[name] = pattern
    return patterns
