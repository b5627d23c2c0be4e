"""Environments of the training demo: a test bed, which carries TCP too, or the emulated fabric, with UDP alone."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from openmrc.fabric import Fabric, make_fabric
from openmrc.runs.environment import Attachment, EmulatedEnvironment, FabricEnvironment, TestBedEnvironment
from openmrc.runs.processes.supervisor import Family
from openmrc.testbed import TestBed
from openmrc.testbed.errors import TestBedError

__all__ = ["ENVIRONMENTS", "environment_up", "own_test_bed", "rank_variables", "store_address", "training_fabric"]

ENVIRONMENTS: dict[str, type[FabricEnvironment]] = {"testbed": TestBedEnvironment, "emulated": EmulatedEnvironment}
"""Kinds of environments by the words of `--place`."""
_SHAPES: dict[str, dict[str, Any]] = {
    "testbed": {"t1s": 4, "delay": "100us", "framing": "ipv6"},
    "emulated": {"t1s": 4},
}
_STORE_PORT = 29500
_EMULATED = "--place emulated does without"


def training_fabric(ranks: int, planes: int, rate_bps: int, seed: int, shape: Mapping[str, Any]) -> Fabric:
    """Fabric with one rank on each host.

    Every host has a T0 of its own, so that all traffic crosses a T1, unless the shape says otherwise.

    Args:
        ranks: Number of hosts.
        planes: Number of planes.
        rate_bps: Rate of each link.
        seed: Seed of the fabric's random numbers.
        shape: Further arguments of `make_fabric`.
    """
    sizes = {"planes": planes, "hosts": ranks, "hosts_per_t0": 1, "rate": f"{rate_bps}bit"}
    return make_fabric(name="train", seed=seed, **(sizes | dict(shape)))


@contextlib.contextmanager
def environment_up(kind: str, ranks: int, planes: int, rate_bps: int, seed: int) -> Iterator[FabricEnvironment]:
    """An environment of one of the kinds of ENVIRONMENTS, in use inside the context.

    Args:
        kind: Key of ENVIRONMENTS.
        ranks: Number of hosts.
        planes: Number of planes.
        rate_bps: Rate of each link.
        seed: Seed of the fabric's random numbers.

    Raises:
        TestBedError: no test bed can be made, or it has no data plane.
    """
    fabric = training_fabric(ranks, planes, rate_bps, seed, _SHAPES[kind])
    if kind == "testbed":
        with own_test_bed(fabric) as environment:
            yield environment
        return
    with Family() as family, EmulatedEnvironment(fabric).up(family) as emulated:
        yield emulated


@contextlib.contextmanager
def own_test_bed(fabric: Fabric, *, offload: bool = False) -> Iterator[TestBedEnvironment]:
    """A test bed of its own, removed afterwards.

    Args:
        fabric: Its fabric.
        offload: Whether bursts cross links whole; see `TestBed.up`.

    Raises:
        TestBedError: no test bed can be made, or it has no data plane.
    """
    with TestBed.up(fabric, f"train-{os.getpid()}", offload=offload) as bed:
        if bed.state.data_plane is None:
            why = bed.state.data_plane_missing
            raise TestBedError(f"the faults of this demo act in the data plane, which is missing: {why}", _EMULATED)
        with Family() as family, TestBedEnvironment(bed).up(family) as environment:
            yield environment


def rank_variables(
    environment: FabricEnvironment, rank: int, backend: str, folder: Path, *, gloo_interfaces: int = 1
) -> dict[str, str]:
    """Environment variables of a rank, from which its backend takes its interfaces.

    Args:
        environment: It is up.
        rank: Number of the rank and of its host.
        backend: "mrc" or "gloo".
        folder: Folder for path files.
        gloo_interfaces: Number of interfaces that Gloo uses, the one in plane 0 first.
    """
    if backend == "gloo":
        assert isinstance(environment, TestBedEnvironment), environment.title
        return {"GLOO_SOCKET_IFNAME": ",".join(environment.interfaces(rank)[:gloo_interfaces])}
    (attachment,) = environment.attach((rank,))
    variables = {**_ports(attachment, folder / f"rank{rank}.paths"), "OPENMRC_ADDRESS": attachment.management}
    # Data has to cross the fabric even if the ranks take all hosts for one machine.
    return variables | ({"OPENMRC_SHARED_MEMORY": "0"} if environment.one_namespace else {})


def _ports(attachment: Attachment, file: Path) -> dict[str, str]:
    if attachment.paths is None:
        return {"OPENMRC_PORTS": ",".join(attachment.ports)}
    file.write_text(attachment.paths, encoding="utf-8")
    return {"OPENMRC_PATHS": str(file)}


def store_address(environment: FabricEnvironment) -> str:
    """HOST:PORT for the store of rank 0, in a network that no fault strikes."""
    (attachment,) = environment.attach((0,))
    if not environment.one_namespace:
        return f"{attachment.management}:{_STORE_PORT}"
    with socket.socket() as probe:
        probe.bind((attachment.management, 0))
        return f"{attachment.management}:{probe.getsockname()[1]}"
