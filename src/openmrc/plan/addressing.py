"""The address plan: blocks, one example of each kind of uSID and address, and one path written out."""

from __future__ import annotations

from dataclasses import dataclass

from openmrc.fabric.cabling import Node, NodeKind, count
from openmrc.fabric.model import Fabric
from openmrc.srv6.paths import PathPlan

__all__ = ["AddressPlan", "ExamplePath", "UsidExample", "address_plan"]


@dataclass(frozen=True, slots=True)
class UsidExample:
    """The first and the last uSID of one kind of node; every T0 uses the same ones for its NIC ports."""

    kind: str
    nodes: int
    first_node: str
    first_usid: str
    last_node: str
    last_usid: str


@dataclass(frozen=True, slots=True)
class ExamplePath:
    """From NIC 0 to the last NIC: the switches on the way, and the addresses that packets have."""

    source: str
    destination: str
    plane: int
    selector: int
    switches: tuple[str, ...]
    destination_address: str
    source_own_address: str
    destination_own_address: str
    destination_receive_address: str


@dataclass(frozen=True, slots=True)
class AddressPlan:
    """Address blocks and examples of addresses. `selector_bits` of an EV choose the uplinks."""

    usid_block: str
    host_block: str
    plane_bits: int
    selector_bits: int
    selectors: int
    usids: tuple[UsidExample, ...]
    example: ExamplePath


def address_plan(fabric: Fabric) -> AddressPlan:
    """The address plan of a fabric.

    Raises:
        ConfigError: more switches or NICs than uSIDs.
    """
    plan = PathPlan.of(fabric, fabric.addresses)
    last_plane = fabric.planes - 1
    examples = []
    kinds: tuple[NodeKind, ...] = ("t0", "t1", "t2")
    for kind in kinds:
        number = count(fabric, kind)
        if number:
            first, last = Node(kind, 0, 0), Node(kind, number - 1, last_plane)
            usids = f"{plan.usids.of(first):04x}", f"{plan.usids.of(last):04x}"
            examples.append(
                UsidExample(kind.upper(), number * fabric.planes, first.name, usids[0], last.name, usids[1])
            )
    ports = fabric.hosts_per_t0
    first_usid, last_usid = f"{plan.usids.nic(0, 0):04x}", f"{plan.usids.nic(last_plane, ports - 1):04x}"
    names = "plane 0, port 0", f"plane {last_plane}, port {ports - 1}"
    examples.append(UsidExample("NIC port", ports * fabric.planes, names[0], first_usid, names[1], last_usid))
    return AddressPlan(
        usid_block=str(fabric.addresses.usid),
        host_block=str(fabric.addresses.hosts),
        plane_bits=plan.usids.plane_bits,
        selector_bits=plan.usids.selector_bits,
        selectors=fabric.paths,
        usids=tuple(examples),
        example=_example(fabric, plan, last_plane),
    )


def _example(fabric: Fabric, plan: PathPlan, plane: int) -> ExamplePath:
    last = fabric.hosts - 1
    selector = fabric.t1s - 1 << plan.usids.second_uplink_bits | max(fabric.t1_uplinks - 1, 0)
    path = plan.path(0, last, plane, selector)
    return ExamplePath(
        source=_nic_name(fabric, 0),
        destination=_nic_name(fabric, last),
        plane=plane,
        selector=selector,
        switches=tuple(node.name for node in path.switches),
        destination_address=str(path.address),
        source_own_address=str(plan.address(0, plane)),
        destination_own_address=str(plan.address(last, plane)),
        destination_receive_address=str(plan.receive_address(last, plane)),
    )


def _nic_name(fabric: Fabric, nic: int) -> str:
    host, own = divmod(nic, fabric.nics_per_host)
    return f"host{host}" if fabric.nics_per_host == 1 else f"host{host} NIC {own}"
