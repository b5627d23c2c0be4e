"""`openmrc testbed`: a fabric of network namespaces, whose switches are the Linux kernel."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from openmrc.cli import testbed_runs

if TYPE_CHECKING:
    from openmrc.fabric import Fault
    from openmrc.testbed import TestBed
    from openmrc.testbed.bed import Progress
    from openmrc.testbed.counters import LinkCounters
    from openmrc.testbed.state import State

app = typer.Typer(
    help="A fabric of Linux network namespaces: the kernel itself forwards, by SRv6.", no_args_is_help=True
)
Name = Annotated[str | None, typer.Option("--name", help="Which test bed; not needed where only one is up.")]
BedArgument = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Not needed where only one is up.")]
_PLAIN_WORDS = {"ignore_unknown_options": True}  # left to the command


@app.command()
def up(
    fabric_file: Annotated[Path, typer.Argument(metavar="FABRIC.yaml", help="The fabric file.")],
    name: Annotated[
        str | None, typer.Option(help="Begins the names of its namespaces; otherwise the fabric's name.")
    ] = None,
    clean: Annotated[
        bool, typer.Option("--clean", help="First remove the remains of an unfinished run of this name.")
    ] = False,
    without_root: Annotated[
        bool, typer.Option("--rootless", help="In a user namespace even as root; without root it always is.")
    ] = False,
    data_plane: Annotated[
        bool, typer.Option("--data-plane/--no-data-plane", help="Switches that mark, trim and count by eBPF.")
    ] = True,
    offload: Annotated[
        bool, typer.Option("--offload", help="Bursts cross links whole: cheaper, and queues drop bursts.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the test bed as JSON.")] = False,
) -> None:
    """Make a test bed: hosts, switches and links of FABRIC.yaml as namespaces. It stays until `down`."""
    from openmrc.fabric import load_fabric
    from openmrc.testbed import TestBed
    from openmrc.testbed.bed import check_room, default_name
    from openmrc.testbed.rootless import KEEPER_VARIABLE, needed

    fabric = load_fabric(fabric_file)
    name = default_name(fabric) if name is None else name
    why = "--rootless" if without_root else needed()
    if why is not None and KEEPER_VARIABLE not in os.environ:
        check_room(fabric, name, clean=clean, offload=offload)
        _up_in_user_namespace(why)
    _end_at_signals()
    with _progress(quiet=as_json) as progress:
        bed = TestBed.up(fabric, name, clean=clean, data_plane=data_plane, offload=offload, progress=progress)
    if as_json:
        print(json.dumps(_facts(bed), indent=2))
    else:
        _introduce(bed)


app.command()(testbed_runs.run)
app.command()(testbed_runs.compare)


@app.command()
def down(name: BedArgument = None) -> None:
    """Take a test bed down: end its programs and remove its namespaces."""
    from openmrc.errors import ConfigError
    from openmrc.testbed.bed import choose, take_down
    from openmrc.testbed.state import load

    name = choose(name)
    found = load(name)
    if found is None:
        raise ConfigError("test bed", name, "one that is up", hint="openmrc testbed status")
    ended = take_down(found)
    print(f"{name} is down" + (f"; processes in it that were ended: {ended}" if ended else ""))


@app.command()
def status(
    name: BedArgument = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the test beds that are up, with the packets and bytes of their links."""
    from openmrc.testbed import TestBed
    from openmrc.testbed.state import load, names

    known = names()
    if name is None and len(known) != 1:
        _list([found for each in known if (found := load(each)) is not None], as_json)
        return
    bed = TestBed.open(name or known[0])
    _go_inside(bed)
    _show(bed, as_json)


@app.command(name="exec", context_settings=_PLAIN_WORDS)
def execute(
    node: Annotated[str, typer.Argument(metavar="HOST", help="Such as host0, or a switch: p0-t1-2.")],
    command: Annotated[list[str], typer.Argument(metavar="-- CMD", help="The command and its arguments.")],
    name: Name = None,
) -> None:
    """Run a command in a host's namespace; its exit code is this command's."""
    _become(node, command, name)


@app.command()
def shell(
    node: Annotated[str, typer.Argument(metavar="HOST", help="Such as host0, or a switch: p0-t1-2.")],
    name: Name = None,
) -> None:
    """Open a shell in a host's namespace."""
    _become(node, [os.environ.get("SHELL", "/bin/sh")], name)


@app.command()
def fault(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FAULT]", help="A fault, such as: t1 2 plane 1 blackhole for 5s. Without it: list active faults."
        ),
    ] = None,
    name: Name = None,
) -> None:
    """Inject or repair a fault, in the fault language.

    With 'for TIME' the command repairs the fault after that time, or at Ctrl-C; otherwise the fault stays.
    """
    from openmrc.fabric import Repair, parse_command
    from openmrc.testbed import TestBed
    from openmrc.testbed.bed import choose
    from openmrc.testbed.faults import BedFaults, check_bed_fault

    text = " ".join(words or ())
    command = parse_command(text) if text else None
    bed = TestBed.open(choose(name))
    if command is not None:
        command.target.check(bed.fabric, text)
        check_bed_fault(bed.fabric, command)
    _go_inside(bed)
    faults = BedFaults(bed)
    if command is not None and not isinstance(command, Repair) and (reach := command.target.reach(bed.fabric.planes)):
        print(f"{command}: on {reach}")
    if command is None:
        _print_faults(faults.active())
    elif isinstance(command, Repair):
        time.sleep(command.start_ps / 1e12)
        ended = faults.apply(command)
        print(f"{ended} fault{'' if ended == 1 else 's'} repaired")
    elif command.start_ps or command.duration_ps is not None or command.period_ps:
        _play(bed, command)
    else:
        number = faults.apply(command)
        print(f"fault {number}: {command}; ends with: openmrc testbed fault repair fault {number} --name {bed.name}")


def _play(bed: TestBed, command: Fault) -> None:
    """Starts and ends a fault by the clock; any end of this ends the fault."""
    from rich.console import Console

    from openmrc.linux.interrupts import Interrupts
    from openmrc.testbed.faults import FaultPlayer

    _end_at_signals()
    import_module("openmrc.testbed.fault_links")  # imported before the fault's time is running
    console = Console(stderr=True)
    player = FaultPlayer(bed, [command])
    player.start()
    begin, until = command.start_ps / 1e12, None if command.duration_ps is None else command.duration_ps / 1e12
    zero = time.monotonic()
    try:
        with console.status(str(command)) as line:
            while not player.wait(0.2):
                now = time.monotonic() - zero
                left = f"begins in {begin - now:.0f} s" if now < begin else ""
                if now >= begin and until is not None:
                    left = f"{max(begin + until - now, 0):.0f} s left"
                line.update(f"{command}  {left}")
            if until is None:  # permanent: only an interruption ends it
                with Interrupts() as interrupts:
                    interrupts.wait()
    except KeyboardInterrupt:
        console.print("interrupted: the fault is repaired")
        raise
    finally:
        spans = player.stop()
    for span in spans:
        print(f"{span.fault}: acted for {(span.end_ns - span.start_ns) / 1e9:.3f} s, repaired")


def _print_faults(active: dict[int, Fault]) -> None:
    for number, each in active.items():
        print(f"fault {number}: {each}")
    if not active:
        print("no fault is active")


def _become(node: str, command: list[str], name: str | None) -> NoReturn:
    from openmrc.testbed import TestBed
    from openmrc.testbed.bed import check_tools, choose

    check_tools()
    bed = TestBed.open(choose(name))
    words = [*bed.prefix(bed.layout.node(node)), *command]
    sys.stdout.flush()
    os.execvp(words[0], words)  # noqa: S606  (signals and the terminal are then the command's own)


def _up_in_user_namespace(why: str) -> NoReturn:
    """Runs this command again in a new user namespace."""
    from openmrc.testbed import rootless

    keeper = rootless.start_keeper()
    done = None
    try:
        environment = os.environ | {rootless.KEEPER_VARIABLE: f"{keeper}:{why}"}
        done = subprocess.run([*rootless.entry(keeper), *_own_command()], env=environment, check=False).returncode
    finally:
        if done != 0:
            rootless.end_keeper(keeper)
    raise typer.Exit(done)


def _go_inside(bed: TestBed) -> None:
    """Runs this command again in the test bed's namespaces, if they are elsewhere."""
    from openmrc.testbed import rootless

    if words := rootless.prefix(bed.state):
        os.execvp(words[0], [*words, *_own_command()])  # noqa: S606


def _own_command() -> list[str]:
    return [sys.executable, "-m", "openmrc.cli.main", *sys.argv[1:]]


def _end_at_signals() -> None:
    """Turns a request to end into an interruption, so that partial results are removed."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Progress]:
    """A progress bar on a terminal; no output elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bars:
        tasks: dict[str, Any] = {}

        def show(what: str, done: int, whole: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=whole)
            bars.update(tasks[what], completed=done)

        yield show


def _facts(bed: TestBed) -> dict[str, Any]:
    layout, fabric = bed.layout, bed.fabric
    hosts = {
        host.name: {
            "namespace": layout.namespace(host),
            "management": str(layout.management_address(host).ip),
            "ports": [
                {
                    "interface": interface.name,
                    "plane": interface.plane,
                    "address": str(layout.paths.address(layout.nic(interface), interface.plane)),
                    "ipv4": str(layout.ipv4(layout.nic(interface), interface.plane).ip),
                }
                for interface in layout.interfaces(host)
            ],
        }
        for host in layout.hosts()
    }
    return {
        "name": bed.name,
        "fabric": fabric.name,
        "way": "root" if bed.state.keeper is None else "rootless",
        "keeper": bed.state.keeper,
        "data_plane": bed.state.data_plane is not None,
        "data_plane_missing": bed.state.data_plane_missing,
        "offload": bed.state.offload,
        "made_s": bed.state.made_s,
        "namespaces": bed.state.namespaces,
        "hosts": hosts,
    }


def _introduce(bed: TestBed) -> None:
    from openmrc.units import format_rate

    fabric, layout = bed.fabric, bed.layout
    switches = sum(1 for node in layout.nodes() if node.kind != "host")
    links = sum(1 for _ in layout.all_interfaces()) // 2
    print(
        f"{bed.name} is up: {sum(1 for _ in layout.hosts())} hosts, {fabric.planes} planes, {switches} switches, "
        f"{links} links of {format_rate(fabric.rate_bps)}, as {len(layout.namespaces())} namespaces"
    )
    if bed.state.keeper is None:
        print("way: root, with namespaces that `ip netns` sees")
    else:
        print(f"way: rootless ({bed.state.rootless_why}), in a user namespace that process {bed.state.keeper} keeps")
    if bed.state.data_plane is None:
        print(f"switches: plain queues, without marking and trimming: {bed.state.data_plane_missing}")
    else:
        print("switches: eBPF marks, trims and counts")
    if bed.state.offload:
        print("links: bursts that a sender leaves to be segmented cross them whole (offload)")
    print(f"try: openmrc testbed exec host0 --name {bed.name} -- ip -brief address")


def _list(beds: list[State], as_json: bool) -> None:
    from openmrc.testbed.bed import trouble

    if as_json:
        print(json.dumps([{"name": found.name, "problem": trouble(found)} for found in beds]))
    elif not beds:
        print("no test bed is up; openmrc testbed up FABRIC.yaml makes one")
    for found in [] if as_json else beds:
        print(f"{found.name}: {trouble(found) or 'up'}, {len(found.namespaces)} namespaces")


def _show(bed: TestBed, as_json: bool) -> None:
    from openmrc.testbed.counters import link_counters
    from openmrc.testbed.faults import BedFaults

    links, active = list(link_counters(bed)), BedFaults(bed).active()
    if as_json:
        faults = {number: str(each) for number, each in active.items()}
        print(json.dumps(_facts(bed) | {"faults": faults, "links": [asdict(link) for link in links]}, indent=2))
        return
    _introduce(bed)
    _print_faults(active)
    _print_links(links)


def _print_links(links: list[LinkCounters]) -> None:
    from rich.console import Console
    from rich.table import Table

    from openmrc.units import format_bytes

    table = Table("from", "to", "link", box=None)
    for column in ("packets", "bytes", "marked", "trimmed", "dropped"):
        table.add_column(column, justify="right", no_wrap=True)
    for link in links:
        drops = sum(value for name, value in link.port.items() if name.startswith("dropped"))
        counted = [link.port["marked"], link.port["trimmed"], drops] if link.port else ["-", "-", "-"]
        words = (f"{link.node} {link.interface}", link.peer, "up" if link.carrier else "down")
        table.add_row(*words, str(link.packets), format_bytes(link.bytes), *map(str, counted))
    Console().print(table)
