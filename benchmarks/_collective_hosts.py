"""Hosts of the benchmarks of collectives, a rank on each or all on one, and the start of ranks."""

from __future__ import annotations

import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from openmrc.runs.compare.mpirun import end_daemons, mpirun, mpirun_on_one_host
from openmrc.runs.environment import TestBedEnvironment
from openmrc.runs.processes.supervisor import Child, ChildError, Family
from openmrc.runs.processes.veth_pairs import VethBridge
from openmrc.runs.training.environments import own_test_bed, training_fabric
from openmrc.testbed.plain import PlainBed

RANK = "_collective_rank"
RANKS = 4
PLANES, PLANE_MBIT = 4, 250
PAYLOAD_BYTES, HEADER_BYTES = 8192, 44 + 8 + 20
LIMIT_S = 90.0  # of each work, and of the start: four processes import torch at once
MPI_TRIES = 2  # before the last: on a busy machine daemons of Open MPI 4.1 sometimes fail to find each other
ENVIRONMENT = ["env", f"PYTHONPATH={Path(__file__).parent}", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"]
Started = Callable[[], float]


class Round(NamedTuple):
    """One round from the view of rank 0; without `seconds` if the concurrent load had already ended.

    `machine_cpu_s`, of the whole machine, is the mean of the rounds of its work.
    """

    begun_s: float
    seconds: float | None
    cpu_s: float
    machine_cpu_s: float | None = None


Measured = list[list[Round]]


def stall_ms(rounds: list[tuple[float, float]] | None, struck_s: float) -> float | None:
    """The longest round since the start of the outage, less the median."""
    if not rounds:
        return None
    longest = max((took for at, took in rounds if at + took > struck_s), default=None)
    return None if longest is None else (longest - statistics.median(took for _, took in rounds)) * 1e3


@dataclass(frozen=True)
class Hosts:
    """Hosts of the ranks, one rank on each, or all on this host.

    Args:
        namespaces: Of the hosts; none: all ranks are on this host.
        prefixes: Command prefix of each host.
        addresses: Of the hosts, for connecting; data may take another path.
        interfaces: Of each host, for data: of the TCP backends.
        connecting: The interface with those addresses.
        ports: Of each host, the addresses of our ports, by plane.
    """

    namespaces: Sequence[str]
    prefixes: Sequence[Sequence[str]]
    addresses: Sequence[str]
    interfaces: Sequence[str]
    connecting: str
    ports: Sequence[Sequence[str]]


def on_bridge(bridge: VethBridge) -> Hosts:
    """The hosts of a bridge."""
    ranks = range(len(bridge.addresses))
    return Hosts(
        namespaces=[bridge.names[rank] for rank in ranks],
        prefixes=[bridge.prefix(rank) for rank in ranks],
        addresses=bridge.addresses,
        interfaces=[bridge.interface],
        connecting=bridge.interface,
        ports=[[address] for address in bridge.addresses],
    )


def on_plain_bed(bed: PlainBed, interfaces: int) -> Hosts:
    """The hosts of an ordinary network, with this number of interfaces for the TCP backends."""
    ranks = range(len(bed.hosts))
    return Hosts(
        namespaces=bed.hosts,
        prefixes=[bed.prefix(rank) for rank in ranks],
        addresses=[bed.addresses(rank)[0] for rank in ranks],
        interfaces=[f"eth{plane}" for plane in range(interfaces)],
        connecting="eth0",
        ports=[bed.addresses(rank) for rank in ranks],
    )


def on_this_host(ranks: int) -> Hosts:
    """This host, with a loopback address for each rank."""
    return Hosts(
        namespaces=[],
        prefixes=[()] * ranks,
        addresses=["127.0.0.1"] * ranks,
        interfaces=["lo"],
        connecting="lo",
        ports=[[f"127.0.90.{rank + 1}"] for rank in range(ranks)],
    )


@dataclass(frozen=True)
class SlowPlanes:
    """Four hosts on one switch in each of four slow planes of a test bed."""

    environment: TestBedEnvironment

    def hosts(self, interfaces: int = PLANES) -> Hosts:
        """Hosts with this number of interfaces for the TCP backends, the one in plane 0 first."""
        ranks, environment = range(RANKS), self.environment
        return Hosts(
            namespaces=[environment.namespace(rank) for rank in ranks],
            prefixes=[environment.prefix(rank) for rank in ranks],
            addresses=[environment.management(rank) for rank in ranks],
            interfaces=environment.interfaces(0)[:interfaces],
            connecting="mgmt0",
            ports=[[str(environment.bed.layout.ipv4(rank, plane).ip) for plane in range(PLANES)] for rank in ranks],
        )

    @property
    def limit_gbps(self) -> float:
        """Payload capacity of all planes, without headers."""
        whole = PAYLOAD_BYTES + HEADER_BYTES + self.environment.fabric.framing_bytes
        return PLANES * PLANE_MBIT / 1e3 * PAYLOAD_BYTES / whole


@contextlib.contextmanager
def slow_planes() -> Iterator[SlowPlanes]:
    """A test bed of slow planes with offload, so that processors are no limit.

    The delay models the time of the kernel at each hop, on which windows and queues depend.
    """
    shape = {"hosts_per_t0": RANKS, "t1s": 1, "delay": "200us", "framing": "ipv6"}
    fabric = training_fabric(RANKS, PLANES, PLANE_MBIT * 1_000_000, 1, shape)
    with own_test_bed(fabric, offload=True) as environment:
        yield SlowPlanes(environment)


class StartError(ChildError):
    """Ranks failed before they were connected."""


def run_ranks(
    hosts: Hosts,
    backend: str,
    works: list[dict[str, Any]],
    started: Started | None = None,
    environment: Sequence[str] = (),
    **changes: Any,
) -> Measured:
    """For each work, its rounds at rank 0. All started processes are ended.

    Args:
        hosts: A rank on each.
        backend: One of `_collective_rank.BACKENDS`.
        works: Measurements, one after another; see `_collective_rank`.
        started: Called at the start of the last work; returns its time limit in seconds.
        environment: NAME=VALUE for the ranks' processes; not for those of Open MPI.
        changes: Further settings of the ranks.

    Raises:
        ChildError: a rank failed, or all took too long.
    """
    spec = {"backend": backend, "ranks": len(hosts.prefixes), "root": hosts.addresses[0], "works": works}
    spec |= {"interfaces": list(hosts.interfaces)} | changes
    for _ in range(MPI_TRIES if backend == "mpi" else 0):
        with contextlib.suppress(StartError):
            return _run(hosts, spec, started, environment)
    return _run(hosts, spec, started, environment)


def _run(hosts: Hosts, spec: dict[str, Any], started: Started | None, environment: Sequence[str]) -> Measured:
    prefixes: Sequence[Sequence[str]]
    with tempfile.TemporaryDirectory() as folder, Family() as family:
        spec = spec | {"store": folder}
        if spec["backend"] == "mpi":
            own, prefixes = [spec], [_mpirun(hosts, Path(folder))]
        else:
            own = [
                spec | {"rank": rank, "address": hosts.addresses[rank], "ports": list(ports)}
                for rank, ports in enumerate(hosts.ports)
            ]
            prefixes = hosts.prefixes
        ranks = [
            family.spawn(
                f"rank {rank}",
                RANK,
                [json.dumps(told)],
                [*prefix, *ENVIRONMENT, *environment],
                own_session=False,  # as with mpirun, which starts all ranks in its own
            )
            for rank, (told, prefix) in enumerate(zip(own, prefixes, strict=True))
        ]
        try:
            return _collect(family, ranks, len(spec["works"]), started)
        finally:
            family.close()
            end_daemons(hosts.namespaces)


def _mpirun(hosts: Hosts, folder: Path) -> list[str]:
    if not hosts.namespaces:
        return mpirun_on_one_host(len(hosts.prefixes))
    interface = ",".join(hosts.interfaces)
    return mpirun(folder, hosts.addresses, hosts.prefixes, interface=interface, connecting=hosts.connecting)


def _collect(family: Family, ranks: Sequence[Child], works: int, started: Started | None) -> Measured:
    limit_s, since, met = LIMIT_S, time.monotonic(), False
    busy = set(ranks)
    measured: Measured = []
    while busy:
        try:
            heard = family.messages(0.1)
        except ChildError as error:
            raise error if met else StartError(str(error)) from error
        for child, message in heard:
            if "work" in message:
                since, met = time.monotonic(), True
                if message["work"] == works and started is not None:
                    limit_s = started()
            if "measured" in message:
                measured = [[Round(*one) for one in rounds] for rounds in message["measured"]]
            if "measured" in message or "left" in message:
                busy.discard(child)
        if busy and time.monotonic() - since > limit_s:
            raise ChildError(f"not done after {limit_s:.0f} s")
    return measured
