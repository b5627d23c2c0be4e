"""`openmrc perf`: bandwidth and latency between two machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from openmrc.cli.output_files import writable_file, write_file
from openmrc.errors import ConfigError, DeviceError
from openmrc.units import format_bytes, parse_bytes

if TYPE_CHECKING:
    from openmrc.runs.perf.client_server import PerfClient
    from openmrc.runs.perf.messages import BandwidthRow, LatencyRow

app = typer.Typer(no_args_is_help=True, help="Measure bandwidth and latency between two machines.")

Port = Annotated[int, typer.Option("--port", "-p", help="TCP port where the server listens.")]
Ports = Annotated[
    str | None,
    typer.Option(
        "--ports", help="Interfaces or addresses of this host, one per plane. Default: those that face the server."
    ),
]
ServerPorts = Annotated[
    str | None,
    typer.Option("--ports", help="Interfaces or addresses of this host, one per plane. Default: all suitable ones."),
]
Size = Annotated[str | None, typer.Option("--size", "-s", help="One message size, such as 64KiB. Default: a sweep.")]
Iterations = Annotated[int | None, typer.Option("--iterations", "-n", help="Messages per size.")]
Transport = Annotated[str, typer.Option(help="auto, mrc, or rc for the single-path fallback.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", callback=writable_file, help="Write the rows to this file; - is stdout.")
]
UdpPort = Annotated[int, typer.Option(help="UDP port of the local device.")]

_BANDWIDTH_SWEEP = [1 << power for power in range(6, 24, 2)]
_LATENCY_SWEEP = [1 << power for power in range(3, 16, 2)]


@app.command()
def serve(
    port: Port = 18515,
    ports: ServerPorts = None,
    listen: Annotated[
        str | None, typer.Option(help="Address to which clients connect. Default: all, or loopback.")
    ] = None,
    udp_port: UdpPort = 4791,
    clients: Annotated[int | None, typer.Option(help="End after this number of clients.")] = None,
) -> None:
    """Waits for clients and answers their measurements."""
    from openmrc.config.host_port import host_port
    from openmrc.runs.perf.addresses import listening_address, serving_ports
    from openmrc.runs.perf.client_server import PerfServer
    from openmrc.verbs import Device

    chosen = serving_ports(ports)
    address = listen or listening_address(chosen.ports)
    console = Console(soft_wrap=True)
    with Device(chosen.ports, udp_port=udp_port, answer_strangers=True) as device:  # answers `openmrc doctor --peer`
        try:
            server = PerfServer(device, address, port, lambda text: console.print(text, markup=False, highlight=False))
        except OSError as error:
            raise DeviceError(error.errno or 0, f"cannot listen on {address}:{port}: {error.strerror}") from error
        console.print(f"serving on {host_port(address, server.port)}, {chosen.why}; Ctrl-C ends", highlight=False)
        try:
            server.serve(clients)
        finally:
            server.close()


@app.command()
def write(
    host: Annotated[str, typer.Argument(help="Where `openmrc perf serve` runs.")],
    port: Port = 18515,
    ports: Ports = None,
    size: Size = None,
    iterations: Iterations = None,
    duration: Annotated[float | None, typer.Option("--duration", "-D", help="Seconds per size.")] = None,
    qps: Annotated[int, typer.Option("--qps", "-q", help="Queue pairs used at the same time.")] = 1,
    depth: Annotated[int, typer.Option("--depth", "-t", help="Writes outstanding on each.")] = 128,
    bidirectional: Annotated[bool, typer.Option("--bidirectional", "-b", help="Both ends write.")] = False,
    busy: Annotated[bool, typer.Option(help="Poll instead of sleeping.")] = False,
    transport: Transport = "auto",
    udp_port: UdpPort = 4791,
    json_file: JsonFile = None,
) -> None:
    """Bandwidth of RDMA WRITE, by message size."""
    from openmrc.runs.perf.messages import PerfOptions

    options = PerfOptions(qps, depth, iterations, duration, bidirectional, busy, transport)
    sizes = _sizes(size, _BANDWIDTH_SWEEP)
    _measure(host, port, ports, udp_port, options, sizes, json_file, _BANDWIDTH, lambda client, n: client.bandwidth(n))


@app.command()
def latency(
    host: Annotated[str, typer.Argument(help="Where `openmrc perf serve` runs.")],
    port: Port = 18515,
    ports: Ports = None,
    size: Size = None,
    iterations: Iterations = None,
    transport: Transport = "auto",
    udp_port: UdpPort = 4791,
    json_file: JsonFile = None,
) -> None:
    """Latency of RDMA WRITE, busy polling, by message size: half of a round trip."""
    from openmrc.runs.perf.measuring_loops import PING_BYTES_MAX
    from openmrc.runs.perf.messages import PerfOptions

    options = PerfOptions(iterations=iterations, transport=transport)
    sizes = _sizes(size, _LATENCY_SWEEP)
    for one in sizes:
        if one % 8 or not 8 <= one <= PING_BYTES_MAX:
            raise ConfigError("--size", size, f"a multiple of 8 up to {format_bytes(PING_BYTES_MAX)} for latency")
    _measure(host, port, ports, udp_port, options, sizes, json_file, _LATENCY, lambda client, n: client.latency(n))


# Column heads as in perftest, with the field of the row and its format.
_BANDWIDTH = (
    ("#bytes", "bytes", ">10d"),
    ("#iterations", "iterations", ">14d"),
    ("BW peak[Gb/s]", "peak_gbps", ">16.3f"),
    ("BW average[Gb/s]", "average_gbps", ">19.3f"),
    ("MsgRate[Mpps]", "message_rate_mpps", ">16.6f"),
    ("Retransmitted[%]", "retransmitted_share", ">19.3%"),
    ("Queue[us]", "queue_delay_us", ">12.1f"),
    ("CPU[s/GB]", "cpu_seconds_per_gb", ">12.2f"),
    ("Peer CPU[s/GB]", "peer_cpu_seconds_per_gb", ">17.2f"),
)
_PLANES = (
    ("plane", "plane", ">7d"),
    ("speed[Mb/s]", "rate_bps", ">14.1f"),
    ("packets", "sent_packets", ">12d"),
    ("lost[%]", "lost_share", ">10.3%"),
    ("idle RTT[us]", "base_rtt_us", ">15.1f"),
    ("queue[us]", "queue_delay_us", ">12.1f"),
    ("queue max[us]", "queue_delay_max_us", ">16.1f"),
    ("ECN", "marking", ">8s"),
    ("state", "silent", ">10s"),
)
_LATENCY = (
    ("#bytes", "bytes", ">8d"),
    ("#iterations", "iterations", ">13d"),
    ("t_min[us]", "t_min_us", ">11.2f"),
    ("t_max[us]", "t_max_us", ">11.2f"),
    ("t_typical[us]", "t_typical_us", ">15.2f"),
    ("t_avg[us]", "t_avg_us", ">11.2f"),
    ("t_stdev[us]", "t_stdev_us", ">13.2f"),
    ("99%[us]", "p99_us", ">10.2f"),
    ("99.9%[us]", "p99_9_us", ">11.2f"),
)


def _measure(
    host: str,
    port: int,
    ports: str | None,
    udp_port: int,
    options: Any,
    sizes: Sequence[int],
    json_file: Path | None,
    columns: Sequence[tuple[str, str, str]],
    one: Callable[[PerfClient, int], BandwidthRow | LatencyRow],
) -> None:
    from openmrc.runs.bench.rows import current_commit, describe_machine
    from openmrc.runs.perf.client_server import PerfClient
    from openmrc.verbs.interfaces import choose_ports

    local_ports = choose_ports(ports, field="--ports").ports if ports else None
    console = Console(soft_wrap=True, highlight=False)
    rows: list[dict[str, Any]] = []
    with PerfClient(
        host, port, local_ports=local_ports, options=options, size_max=max(sizes), udp_port=udp_port
    ) as client:
        about = client.description
        console.print(
            f"{about['transport']} over {len(about['ports'])} ports ({', '.join(about['ports'])}) to {about['peer']}, "
            f"{about['qps']} QPs, payload MTU {about['payload_mtu']}"
        )
        console.print("".join(f"{head:>{_width(form)}}" for head, _, form in columns), markup=False)
        for size in sizes:
            rows.append(asdict(one(client, size)))
            console.print("".join(_cell(rows[-1][name], form) for _, name, form in columns))
        _show_planes(console, rows[-1])
        _show_costs(console, rows[-1])
    if json_file is not None:
        document = {**about, "machine": describe_machine(), "commit": current_commit(), "rows": rows}
        write_file("--json", json_file, json.dumps(document, indent=2) + "\n")


def _show_planes(console: Console, row: dict[str, Any]) -> None:
    """Prints the planes of the last size, if planes are controlled one by one."""
    planes: Sequence[dict[str, Any]] = row.get("planes", ())
    if not planes:
        return
    console.print(f"planes at {format_bytes(row['bytes'])}:")
    console.print("".join(f"{head:>{_width(form)}}" for head, _, form in _PLANES), markup=False)
    for plane in planes:
        shown = {
            **plane,
            "rate_bps": plane["rate_bps"] / 1e6,
            "marking": "marks" if plane["marking"] else "none",
            "silent": "silent" if plane["silent"] else "answers",
        }
        console.print("".join(_cell(shown[name], form) for _, name, form in _PLANES))


def _show_costs(console: Console, row: dict[str, Any]) -> None:
    """Prints processor time of the machines, system calls, wake-ups and SACKs of the last size."""
    from openmrc.runs.processes.device_counters import counter_lines

    if "counters" not in row:
        return
    machines = {"this one": row["machine_cpu_seconds_per_gb"], "peer's": row["peer_machine_cpu_seconds_per_gb"]}
    known = [f"{name} {value:.2f}" for name, value in machines.items() if value is not None]
    lines = counter_lines({"client": row["counters"], "server": row["peer_counters"]})
    console.print(f"costs at {format_bytes(row['bytes'])}:")
    if known:
        console.print(f"  CPU of the whole machine, s/GB: {', '.join(known)}")
    for name, value, parts in lines:
        console.print(f"  {name}: {value} ({parts})")


def _cell(value: float | str | None, form: str) -> str:
    """A value in its column; percentages without their sign, which is in the head."""
    if value is None:
        return f"{'-':>{_width(form)}}"
    if form.endswith("%"):
        return f"{100 * float(value):{form[:-1]}f}"
    return f"{value:{form}}"


def _width(form: str) -> int:
    return int(form[1:-1].split(".", maxsplit=1)[0])


def _sizes(size: str | None, sweep: Sequence[int]) -> list[int]:
    from openmrc.runs.perf.messages import SIZE_MAX

    if size is None:
        return list(sweep)
    wanted = parse_bytes(size, "--size")
    if not 1 <= wanted <= SIZE_MAX:
        raise ConfigError("--size", size, f"1 to {format_bytes(SIZE_MAX)}")
    return [wanted]
