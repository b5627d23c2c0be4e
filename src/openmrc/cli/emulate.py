"""`openmrc emulate`: a fabric in the foreground."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from openmrc.emulate import EmulatedFabric

app = typer.Typer(help="A multi-plane Clos fabric in user space, with faults, between UDP sockets.")


@app.command()
def emulate(
    fabric_file: Annotated[Path, typer.Argument(metavar="FABRIC.yaml", help="The fabric file.")],
    fault: Annotated[
        list[str] | None,
        typer.Option(help="A fault, such as 'plane 2 blackhole at 2s for 3s'. Repeatable."),
    ] = None,
    control: Annotated[
        str, typer.Option(help="Address of the control channel: 127.0.0.1:PORT (0: any) or unix:PATH.")
    ] = "127.0.0.1:0",
    seconds: Annotated[float | None, typer.Option(help="Stop after this time instead of at Ctrl-C.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines: the fabric, events, statistics.")] = False,
) -> None:
    """Run the fabric of FABRIC.yaml between UDP sockets on loopback, and print where each host attaches."""
    from openmrc.emulate import EmulatedFabric
    from openmrc.fabric import load_fabric, parse_command
    from openmrc.linux.interrupts import Interrupts

    # A shell starts background jobs with SIGINT ignored; `kill -INT` shall end this one too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    fabric = load_fabric(fabric_file)
    faults = [(text, parse_command(text)) for text in fault or ()]
    for text, command in faults:
        command.target.check(fabric, text)
    with EmulatedFabric(fabric, control=control) as emulated:
        emulated.subscribe(lambda event: _print_event(event, as_json))  # before clients learn the control address
        _introduce(emulated, as_json)
        for text, command in faults:
            if not as_json and (reach := command.target.reach(fabric.planes)):
                print(f"{text}: on {reach}")
        for _, command in faults:
            emulated.inject(command)
        with Interrupts() as interrupts:
            interrupts.wait(timeout_s=seconds)
        _summarise(emulated, as_json)


def _introduce(emulated: EmulatedFabric, as_json: bool) -> None:
    fabric = emulated.fabric
    ports = [[str(port) for port in emulated.ports(host)] for host in range(fabric.hosts)]
    if as_json:
        hello = {"event": "ready", "control": emulated.control_address, "udp_port": fabric.udp_port, "ports": ports}
        print(json.dumps(hello), flush=True)
        return
    from openmrc.units import format_bytes, format_rate, format_time

    rates = " + ".join(format_rate(plane.rates.nic) for plane in fabric.unlike) or format_rate(fabric.rate_bps)
    print(
        f"{fabric.name}: {fabric.planes} planes, each with {fabric.hosts} hosts, {fabric.t0s} T0s, {fabric.t1s} T1s; "
        f"links of {rates}, round trip {format_time(fabric.base_rtt_ps)}, queues of "
        f"{format_bytes(fabric.queue_bytes)}, trimming {'on' if fabric.trims else 'off'}"
    )
    for host, texts in enumerate(ports):
        print(f"host {host}: {','.join(texts)}")
    print(f"control: {emulated.control_address}")
    print("Ctrl-C stops it.", flush=True)


def _print_event(event: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(event), flush=True)
        return
    at_s = event["time_ns"] / 1e9
    if event["event"] == "fault":
        print(f"{at_s:9.3f} s  {event['state']}: {event['fault']} (fault {event['id']})", flush=True)
    else:
        state = "up" if event["up"] else "down"
        print(f"{at_s:9.3f} s  host {event['host']} port {event['port']}: carrier {state}", flush=True)


def _summarise(emulated: EmulatedFabric, as_json: bool) -> None:
    statistics = emulated.statistics()
    if as_json:
        print(json.dumps({"event": "statistics"} | statistics.as_dict()), flush=True)
        return
    marks = sum(link.marks for link in statistics.links)
    trims = sum(link.trims for link in statistics.links)
    drops = sum(link.drops for link in statistics.links)
    print(
        f"{statistics.received} packets in, {statistics.delivered} out; {marks} marked, {trims} trimmed, "
        f"{drops} dropped; {statistics.cpu_ns / 1e9:.2f} s of CPU in {statistics.time_ns / 1e9:.1f} s"
    )
