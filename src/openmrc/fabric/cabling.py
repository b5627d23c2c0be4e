"""The two ports that each cable joins, by arithmetic alone.

A switch's ports are numbered: first those that lead down, then those that lead up. T0: down port d to the d-th NIC it
serves, up port j to the j-th T1 of its pod. T1: down port i to the i-th T0 of its pod, up port k to its k-th T2. T2:
port q to pod q. A NIC has one port per plane.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from openmrc.fabric.model import Shape

__all__ = [
    "SWITCH_KINDS",
    "Cable",
    "Node",
    "NodeKind",
    "PortRef",
    "cables",
    "count",
    "down_ports",
    "switches",
    "up_t1s",
    "up_t2s",
]

NodeKind = Literal["host", "t0", "t1", "t2"]
SWITCH_KINDS: tuple[NodeKind, ...] = ("t0", "t1", "t2")


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """A host or a switch; hosts are in all planes, so their plane is None.

    `index` counts hosts through the fabric and switches through their plane, as the fault language does.
    """

    kind: NodeKind
    index: int
    plane: int | None = None

    @property
    def name(self) -> str:
        """`host3`, `p0-t0-3`: plane first."""
        return f"host{self.index}" if self.plane is None else f"p{self.plane}-{self.kind}-{self.index}"

    @classmethod
    def parse(cls, name: str) -> Node:
        """The node with this name.

        Raises:
            ValueError: the text is not the name of a node.
        """
        if name.startswith("host") and name[4:].isdecimal():
            return cls("host", int(name[4:]))
        plane, kind, index = name.split("-")
        for known in SWITCH_KINDS:
            if known == kind and plane[:1] == "p":
                return cls(known, int(index), int(plane[1:]))
        raise ValueError(name)


@dataclass(frozen=True, slots=True, order=True)
class PortRef:
    """One port of a node. A host's ports: `nic * planes + plane`. A switch's: down first, then up."""

    node: Node
    port: int


@dataclass(frozen=True, slots=True)
class Cable:
    """Two connected ports; `lower` is the one nearer to the hosts. `tier` is that of the link: nic, t0 or t1."""

    lower: PortRef
    upper: PortRef
    tier: Literal["nic", "t0", "t1"]
    plane: int


def switches(shape: Shape) -> Iterator[Node]:
    """All switches, plane by plane, T0s first."""
    for plane in range(shape.planes):
        for kind in SWITCH_KINDS:
            for index in range(count(shape, kind)):
                yield Node(kind, index, plane)


def count(shape: Shape, kind: NodeKind) -> int:
    """Number of switches of this kind in a plane, or of hosts."""
    if kind == "host":
        return shape.hosts // shape.nics_per_host
    return {"t0": shape.t0s, "t1": shape.t1s_in_all, "t2": shape.t2s}[kind]


def up_t1s(shape: Shape, t0: int) -> range:
    """The T1s that a T0's up ports lead to, in port order."""
    first = t0 // shape.t0s_per_pod * shape.t1s if shape.t0s_per_pod else 0
    return range(first, first + shape.t1s)


def up_t2s(shape: Shape, t1: int) -> range:
    """The T2s that a T1's up ports lead to, in port order; empty with two tiers."""
    first = t1 % shape.t1s * shape.t1_uplinks
    return range(first, first + shape.t1_uplinks)


def down_ports(shape: Shape, kind: NodeKind) -> int:
    """Ports of a switch that lead down, used or not."""
    if kind == "t0":
        return shape.hosts_per_t0
    return shape.pods if kind == "t2" else shape.t0s_per_pod or shape.t0s


def cables(shape: Shape) -> Iterator[Cable]:
    """All cables, plane by plane, from the hosts up."""
    for plane in range(shape.planes):
        yield from _nic_cables(shape, plane)
        for t0 in range(shape.t0s):
            lower = Node("t0", t0, plane)
            for j, t1 in enumerate(up_t1s(shape, t0)):
                down = t0 % shape.t0s_per_pod if shape.t0s_per_pod else t0
                upper = PortRef(Node("t1", t1, plane), down)
                yield Cable(PortRef(lower, shape.hosts_per_t0 + j), upper, "t0", plane)
        for t1 in range(shape.t1s_in_all):
            for k, t2 in enumerate(up_t2s(shape, t1)):
                port = down_ports(shape, "t1") + k
                upper = PortRef(Node("t2", t2, plane), t1 // shape.t1s)
                yield Cable(PortRef(Node("t1", t1, plane), port), upper, "t1", plane)


def _nic_cables(shape: Shape, plane: int) -> Iterator[Cable]:
    for nic in range(shape.hosts):
        host, own = divmod(nic, shape.nics_per_host)
        lower = PortRef(Node("host", host), own * shape.planes + plane)
        t0, down = divmod(nic, shape.hosts_per_t0)
        yield Cable(lower, PortRef(Node("t0", t0, plane), down), "nic", plane)
