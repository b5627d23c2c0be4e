"""Which ports of a test bed a fault means, by the rules of the native fabric (native/netsim/faults.cpp)."""

from __future__ import annotations

from dataclasses import dataclass

from openmrc.fabric import Fabric, Fault
from openmrc.fabric.model import PortKind
from openmrc.testbed.layout import Interface, Layout

__all__ = ["LinkEnds", "Place", "contains", "covers", "ends_of", "once_per_passage"]

Place = tuple[int | None, int | None, int | None, int | None, int, int | None]
"""Plane, NIC, T0, T1, direction (0 both, 1 tx, 2 rx), T2; None: any. What `FaultTarget.native_targets` gives."""

_TX, _RX = 1, 2
_UPWARD: tuple[PortKind, ...] = ("nic_up", "t0_up", "t1_up")


@dataclass(frozen=True, slots=True)
class LinkEnds:
    """Where a port sends from and to: `nic` counts NICs through the fabric, switches count within their plane."""

    kind: PortKind
    plane: int
    nic: int | None = None
    t0: int | None = None
    t1: int | None = None
    t2: int | None = None


def ends_of(layout: Layout, interface: Interface) -> LinkEnds:
    """The ends of the link that an interface sends on."""
    upward = interface.kind in _UPWARD
    lower = interface if upward else layout.peer(interface)
    upper = layout.peer(interface) if upward else interface
    plane, kind = interface.plane, interface.kind
    if lower.kind == "nic_up":
        return LinkEnds(kind, plane, nic=layout.nic(lower), t0=upper.node.index)
    if lower.kind == "t0_up":
        return LinkEnds(kind, plane, t0=lower.node.index, t1=upper.node.index)
    return LinkEnds(kind, plane, t1=lower.node.index, t2=upper.node.index)


def once_per_passage(fault: Fault) -> bool:
    """Whether it would compound if every link of a switch or a plane had it."""
    return fault.kind not in ("down", "blackhole", "reboot", "rate")


def covers(place: Place, ends: LinkEnds, *, once: bool) -> bool:
    """Whether a fault at this place acts on this port.

    Args:
        place: Of the fault.
        ends: Of the port's link.
        once: The fault acts where a packet passes once, see `once_per_passage`.
    """
    plane, nic, t0, t1, direction, t2 = place
    upward = ends.kind in _UPWARD
    if plane not in (None, ends.plane) or (direction == _TX and not upward) or (direction == _RX and upward):
        return False
    wanted = ((nic, ends.nic), (t0, ends.t0), (t1, ends.t1), (t2, ends.t2))
    if any(number is not None and number != own for number, own in wanted):
        return False
    links_of_one_switch = sum(number is not None for number in (t0, t1, t2)) == 1
    if not once or nic is not None or not (links_of_one_switch or (t0, t1, t2) == (None, None, None)):
        return True
    return ends.kind in _where_once(place)


def _where_once(place: Place) -> tuple[PortKind, ...]:
    """At which ports packets through a switch, a plane or the fabric pass once."""
    _, _, t0, t1, direction, t2 = place
    if t0 is not None:
        return ("nic_down", "t0_up")
    if t1 is not None:  # without a third tier what goes up through a T1 is caught where it enters
        return ("t1_up", "t0_up") if direction == _TX else ("t1_up", "t1_down")
    if t2 is not None:
        return ("t1_up",) if direction == _TX else ("t2_down",)
    return ("nic_up",) if direction == _TX else ("nic_down",)


def contains(outer: Place, inner: Place, fabric: Fabric) -> bool:
    """Whether a repair of `outer` ends a fault at `inner`."""
    plane, nic, t0, t1, direction, t2 = outer
    if direction not in (0, inner[4]):
        return False
    pairs = ((plane, inner[0]), (nic, inner[1]), (t1, inner[3]), (t2, inner[5]))
    if any(number not in (None, own) for number, own in pairs):
        return False
    return t0 in (None, inner[2]) or (inner[1] is not None and t0 == inner[1] // fabric.hosts_per_t0)
