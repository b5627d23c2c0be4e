"""Ports of a test bed affected by a fault, by the rules of the native fabric (native/netsim/faults.cpp)."""

from __future__ import annotations

from dataclasses import dataclass

from openmrc.fabric import Fabric, Fault, FaultDirection, FaultPlace
from openmrc.fabric.model import PortKind
from openmrc.testbed.layout import Interface, Layout

__all__ = ["LinkEnds", "contains", "covers", "ends_of", "once_per_passage"]

_UPWARD: tuple[PortKind, ...] = ("nic_up", "t0_up", "t1_up")


@dataclass(frozen=True, slots=True)
class LinkEnds:
    """Both ends of a port's link: `nic` counts NICs through the fabric, switches count within their plane."""

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
    """True if the effect would compound if every link of a switch or a plane had it."""
    return fault.kind not in ("down", "blackhole", "reboot", "rate")


def covers(place: FaultPlace, ends: LinkEnds, *, once: bool) -> bool:
    """True if a fault at this place acts on this port.

    Args:
        place: Of the fault.
        ends: Of the port's link.
        once: The fault acts once per passage of a packet, see `once_per_passage`.
    """
    against = FaultDirection.RX if ends.kind in _UPWARD else FaultDirection.TX
    if place.plane not in (None, ends.plane) or place.direction is against:
        return False
    switches = (place.t0, place.t1, place.t2)
    wanted = zip((place.host, *switches), (ends.nic, ends.t0, ends.t1, ends.t2), strict=True)
    if any(number is not None and number != own for number, own in wanted):
        return False
    links_of_one_switch = sum(number is not None for number in switches) == 1
    if not once or place.host is not None or not (links_of_one_switch or switches == (None, None, None)):
        return True
    return ends.kind in _where_once(place)


def _where_once(place: FaultPlace) -> tuple[PortKind, ...]:
    """Ports that packets through a switch, a plane or the fabric pass exactly once."""
    away = place.direction is FaultDirection.TX
    if place.t0 is not None:
        return ("nic_down", "t0_up")
    if place.t1 is not None:  # without a third tier upward traffic of a T1 is matched at its ingress
        return ("t1_up", "t0_up") if away else ("t1_up", "t1_down")
    if place.t2 is not None:
        return ("t1_up",) if away else ("t2_down",)
    return ("nic_up",) if away else ("nic_down",)


def contains(outer: FaultPlace, inner: FaultPlace, fabric: Fabric) -> bool:
    """True if a repair of `outer` ends a fault at `inner`."""
    if outer.direction not in (FaultDirection.BOTH, inner.direction):
        return False
    if any(getattr(outer, name) not in (None, getattr(inner, name)) for name in ("plane", "host", "t1", "t2")):
        return False
    return outer.t0 in (None, inner.t0) or (inner.host is not None and outer.t0 == inner.host // fabric.hosts_per_t0)
