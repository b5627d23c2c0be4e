"""Hosts of the collectives benchmark, a rank on each or all on one, and how ranks are started and heard."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from openmrc.live.netns import VethBridge
from openmrc.live.supervise import Child, ChildError, Family
from openmrc.testbed.compare.mpirun import end_daemons, mpirun, mpirun_on_one_host
from openmrc.training.places import BedPlace

RANK = "_collective_rank"
RANKS = 4
PLANES, PLANE_MBIT = 4, 250
PAYLOAD_BYTES, HEADER_BYTES = 8192, 44 + 8 + 20
LIMIT_S = 90.0  # of each work, and of the start: four processes import torch at once
MPI_TRIES = 2  # before the last: daemons of Open MPI 4.1 now and then do not find each other, on a busy machine
ENVIRONMENT = ["env", f"PYTHONPATH={Path(__file__).parent}", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"]
Started = Callable[[], float]


class Round(NamedTuple):
    """One round as rank 0 saw it; without `seconds` when the load that was to be beside it had ended.

    `machine_cpu_s`, of the whole machine, is the mean of the rounds of its work.
    """

    begun_s: float
    seconds: float | None
    cpu_s: float
    machine_cpu_s: float | None = None


Measured = list[list[Round]]


@dataclass(frozen=True)
class Hosts:
    """Where ranks run, one on each host, or all on this one.

    Args:
        namespaces: Of the hosts; none: all ranks are on this host.
        prefixes: What to put before a command so that it runs on the host.
        addresses: At which hosts reach each other for connecting; data may take another way.
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


class SlowPlanes(BedPlace):
    """Four hosts on one switch in each of four slow planes of the test bed, with offload: processors are not the limit.

    The delay stands for the time that the kernel takes at each hop: windows and queues follow it.
    """

    shape: ClassVar = {"hosts_per_t0": RANKS, "t1s": 1, "delay": "200us", "framing": "ipv6"}
    offload = True

    def __init__(self) -> None:
        super().__init__(RANKS, PLANES, PLANE_MBIT * 1_000_000, seed=1)

    def hosts(self, interfaces: int = PLANES) -> Hosts:
        """With so many interfaces for the TCP backends, the one in plane 0 first."""
        ranks = range(self.ranks)
        return Hosts(
            namespaces=[self.namespace(rank) for rank in ranks],
            prefixes=[self.prefix(rank) for rank in ranks],
            addresses=[self.management(rank) for rank in ranks],
            interfaces=self.interfaces(0)[:interfaces],
            connecting="mgmt0",
            ports=[[str(self._bed.layout.ipv4(rank, plane).ip) for plane in range(PLANES)] for rank in ranks],
        )

    @property
    def limit_gbps(self) -> float:
        """Payload that all planes carry, without headers."""
        whole = PAYLOAD_BYTES + HEADER_BYTES + self.fabric.framing_bytes
        return PLANES * PLANE_MBIT / 1e3 * PAYLOAD_BYTES / whole


class StartError(ChildError):
    """Ranks failed before they had met."""


def run_ranks(
    hosts: Hosts,
    backend: str,
    works: list[dict[str, Any]],
    started: Started | None = None,
    environment: Sequence[str] = (),
    **changes: Any,
) -> Measured:
    """For each work, its rounds at rank 0. Nothing that was started is left.

    Args:
        hosts: A rank on each.
        backend: One of `_collective_rank.BACKENDS`.
        works: What is measured, one after the other; see `_collective_rank`.
        started: Called when the last work begins; it answers how many seconds that may take.
        environment: NAME=VALUE for the ranks' processes; not for those of Open MPI.
        changes: What else ranks are told.

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
            family.spawn(f"rank {rank}", RANK, [json.dumps(told)], [*prefix, *ENVIRONMENT, *environment])
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
