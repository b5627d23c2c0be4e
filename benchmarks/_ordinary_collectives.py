"""All-reduce over four plain planes of 250 Mb/s: openmrc with nothing configured, Gloo over MPTCP and over TCP.
The same between two sites, in two steps, over links that are longer and slower than those of the sites.

Four ranks share the machine's processors, which are not the limit as long as segmentation offload is on, for all alike.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _collective_hosts import RANKS, Round, on_plain_bed, run_ranks
from _ordinary_runs import MRC_HEADER_BYTES
from rich.console import Console

from openmrc.errors import OpenmrcError
from openmrc.runs.bench.rows import Row, row
from openmrc.runs.compare.contenders import CONTENDERS
from openmrc.runs.processes.processor_time import seconds_per_gb
from openmrc.runs.processes.supervisor import ChildError
from openmrc.testbed.plain import PlainBed, PlainNetwork, PlainPlane, SiteLinks

__all__ = ["all_reduce", "between_sites"]

SIZE_BYTES = 64 << 20
NETWORK = PlainNetwork.of_rates((250_000_000,) * 4, hosts=RANKS, fifo_bytes=256 << 10, mtu_bytes=1500)
CASE = f"all-reduce of 64 MiB, {RANKS} ranks, 4 planes of 250 Mb/s"
SITES = ((0, 1), (2, 3))
SITES_BYTES = 256 << 20
_LINK = PlainPlane(100_000_000, 512 << 10, 9000, 30_000)
SITES_NETWORK = PlainNetwork((PlainPlane(250_000_000, 1 << 20, 9000),) * 4, RANKS, SiteLinks(2, (_LINK,) * 4))
_MPTCP_SOURCE = Path(__file__).with_name("_mptcp_socket.c")


def all_reduce(repeats: int, console: Console) -> Iterator[Row]:
    """Rows of bus bandwidth and processor time; contenders run in turn on the same network, after a warm-up."""
    gloo_missing = next(one.missing() for one in CONTENDERS if one.name == "gloo")
    ways: dict[str, tuple[str, int, int, bool]] = {"openmrc": ("mrc", 4, 1, False)}
    if gloo_missing is None:
        ways |= {
            "Gloo over MPTCP": ("gloo", 1, 1, True),
            "Gloo, 4 interfaces, 4 in flight": ("gloo", 4, 4, False),
        }
    else:
        console.print(f"[yellow]left out: Gloo: {gloo_missing}[/]")
    rates: dict[str, list[float]] = {}
    for name, (backend, interfaces, in_flight, mptcp) in ways.items():
        try:
            rounds = _run(backend, interfaces, in_flight, repeats, mptcp=mptcp)
        except ChildError as error:
            console.print(f"  {name} failed: {error}", style="red", markup=False)
            continue
        sent_bytes = 2 * (RANKS - 1) / RANKS * SIZE_BYTES
        rates[name] = [sent_bytes * 8 / one.seconds / 1e9 for one in rounds if one.seconds]
        yield row(CASE, f"{name}: bus bandwidth", rates[name], "Gb/s")
        yield row(CASE, f"{name}: CPU of a rank", [seconds_per_gb(one.cpu_s, sent_bytes) for one in rounds], "s/GB")
        machine = [seconds_per_gb(one.machine_cpu_s, RANKS * sent_bytes) for one in rounds]
        yield row(CASE, f"{name}: CPU of the machine, for what all ranks send", machine, "s/GB")
    limit_gbps = NETWORK.limit_bps(MRC_HEADER_BYTES) / 1e9
    own = rates.get("openmrc", [])
    yield row(CASE, "openmrc: share of limit", [one / limit_gbps for one in own], "", ">= 0.95")
    if other := rates.get("Gloo over MPTCP"):
        ratios = [mine / theirs for mine, theirs in zip(own, other, strict=False)]
        yield row(CASE, "openmrc: bus bandwidth over Gloo's over MPTCP", ratios, "x", ">= 1.0")


def between_sites(repeats: int, console: Console) -> Iterator[Row]:
    """Rows of the hierarchical all-reduce: share of the capacity between the sites, each byte once per direction."""
    limit_gbps = _LINK.rate_bps * _LINK.payload_share(MRC_HEADER_BYTES) * len(SITES_NETWORK.planes) / 1e9
    case = f"all-reduce of {SITES_BYTES >> 20} MiB, 2 sites of 2 ranks, 30 ms, 4 links of 100 Mb/s"
    try:
        rounds = _run("mrc", 4, 1, repeats, mptcp=False, network=SITES_NETWORK, world={"sites": SITES})
    except ChildError as error:
        console.print(f"  between sites failed: {error}", style="red", markup=False)
        return
    rates = [SITES_BYTES * 8 / one.seconds / 1e9 for one in rounds if one.seconds]
    yield row(case, "openmrc: over the links", rates, "Gb/s")
    yield row(case, "openmrc: share of limit", [one / limit_gbps for one in rates], "", ">= 0.9")
    yield row(case, "openmrc: CPU of a rank", [one.cpu_s / (SITES_BYTES / 1e9) for one in rounds], "s/GB")


def _run(
    backend: str,
    interfaces: int,
    in_flight: int,
    repeats: int,
    *,
    mptcp: bool,
    network: PlainNetwork = NETWORK,
    **changes: Any,
) -> list[Round]:
    size_bytes = SIZE_BYTES if network.sites is None else SITES_BYTES
    work: dict[str, Any] = {"name": "all_reduce", "bytes": size_bytes, "warm": 1, "rounds": repeats}
    with PlainBed(network, offloads=True) as bed, contextlib.ExitStack() as stack:
        environment: list[str] = []
        if mptcp:
            bed.enable_mptcp_from_clients()
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            environment = [f"LD_PRELOAD={_mptcp_library(folder)}"]
        hosts = on_plain_bed(bed, interfaces)
        (rounds,) = run_ranks(hosts, backend, [work | {"in_flight": in_flight}], environment=environment, **changes)
    return rounds


def _mptcp_library(folder: Path) -> Path:
    """The library that turns a program's TCP sockets into MPTCP sockets, compiled in that folder.

    Raises:
        OpenmrcError: no C compiler, or it failed.
    """
    compiler = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)
    if compiler is None:
        raise OpenmrcError("Gloo over MPTCP needs a C compiler: apt install gcc")
    library = folder / "mptcp_socket.so"
    command = [
        compiler,
        "-shared",
        "-fPIC",
        "-O2",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        str(library),
        str(_MPTCP_SOURCE),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OpenmrcError(f"{_MPTCP_SOURCE.name} does not compile: {done.stderr.strip()}")
    return library
