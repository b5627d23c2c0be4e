"""Events, one class for each.

Written by tools/spec.py from spec/events.toml: edit that, then `make spec`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

from openmrc.verbs.enums import EvCause, EventType, EvState, QpErrorCause, QpState
from openmrc.verbs.event_base import Event

__all__ = [
    "CqOverrun",
    "EvReplaced",
    "EvStateChanged",
    "PeerActive",
    "PeerLost",
    "PlaneStateChanged",
    "PortRefused",
    "PortStateChanged",
    "QpStateChanged",
    "RetryTimeout",
    "SrqLimit",
    "event_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class QpStateChanged(Event):
    """A QP entered a state."""

    name: ClassVar[str] = "qp_state"
    qp: int
    """Number of the QP."""
    state: QpState
    """The state that it entered."""
    cause: QpErrorCause
    """Reason for ERR."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvStateChanged(Event):
    """An EV of a QP entered a state."""

    name: ClassVar[str] = "ev_state"
    qp: int
    """Number of the QP."""
    port: int
    """Port of the EV."""
    ev: int
    """Value of the EV."""
    state: EvState
    """The state that it entered."""
    cause: EvCause
    """Reason for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvReplaced(Event):
    """An EV left the active set of a QP for another one of the same port."""

    name: ClassVar[str] = "ev_replaced"
    qp: int
    """Number of the QP."""
    port: int
    """Port of both EVs."""
    ev: int
    """Value of the EV that left."""
    replacement: int
    """Value of the EV that took its place."""
    cause: EvCause
    """Reason for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortStateChanged(Event):
    """A port went down or up, here or at a peer."""

    name: ClassVar[str] = "port_state"
    port: int
    """Number of the port."""
    up: bool
    """It has a carrier now."""
    learned: bool
    """True: a peer reported its port; False: a port of this device."""
    qp: int
    """QP that learned of it; 0: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneStateChanged(Event):
    """Packets on one plane get no answer while other planes answer, or do again; where planes are controlled one by
    one.
    """

    name: ClassVar[str] = "plane_state"
    qp: int
    """Number of the QP."""
    port: int
    """Number of the plane."""
    answering: bool
    """False: the plane is silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTimeout(Event):
    """The retransmission timer of a QP fired."""

    name: ClassVar[str] = "retry_timeout"
    qp: int
    """Number of the QP."""
    consecutive: int
    """Timeouts in a row so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CqOverrun(Event):
    """A completion found its queue full."""

    name: ClassVar[str] = "cq_overrun"
    qp: int
    """Number of the QP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerActive(Event):
    """The first packet of the peer's work reached a QP in RTR: the peer sends already."""

    name: ClassVar[str] = "peer_active"
    qp: int
    """Number of the QP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SrqLimit(Event):
    """A shared receive queue holds fewer receives than its limit; the limit is then off until it is set again."""

    name: ClassVar[str] = "srq_limit"
    srq: int
    """Number of the queue."""
    posted: int
    """Receives left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortRefused(Event):
    """The operating system refuses to send or receive on a port: the first refusal after it last took or gave a
    packet, at most one event per port and second.
    """

    name: ClassVar[str] = "port_refused"
    port: int
    """Number of the port."""
    errno: int
    """Error of the operating system."""
    reason: str
    """Meaning of `errno`: "No such device" when the interface of the port is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLost(Event):
    """The connection that announces a peer's death was closed."""

    name: ClassVar[str] = "peer_lost"
    qp: int
    """Number of the QP."""
    address: str
    """Address of the peer."""
    reason: str
    """Reason for the loss."""


def event_of(raw: dict[str, Any]) -> Event:
    """The event that the native side hands over by the names of its fields."""
    at: int = raw["time_ns"]
    match EventType(raw["type"]):
        case EventType.QP_STATE:
            return QpStateChanged(
                time_ns=at, qp=raw["qp"], state=QpState(raw["state"]), cause=QpErrorCause(raw["cause"])
            )
        case EventType.EV_STATE:
            return EvStateChanged(
                time_ns=at,
                qp=raw["qp"],
                port=raw["port"],
                ev=raw["ev"],
                state=EvState(raw["state"]),
                cause=EvCause(raw["cause"]),
            )
        case EventType.EV_REPLACED:
            return EvReplaced(
                time_ns=at,
                qp=raw["qp"],
                port=raw["port"],
                ev=raw["ev"],
                replacement=raw["replacement"],
                cause=EvCause(raw["cause"]),
            )
        case EventType.PORT_STATE:
            return PortStateChanged(time_ns=at, port=raw["port"], up=raw["up"], learned=raw["learned"], qp=raw["qp"])
        case EventType.PLANE_STATE:
            return PlaneStateChanged(time_ns=at, qp=raw["qp"], port=raw["port"], answering=raw["answering"])
        case EventType.RETRY_TIMEOUT:
            return RetryTimeout(time_ns=at, qp=raw["qp"], consecutive=raw["consecutive"])
        case EventType.CQ_OVERRUN:
            return CqOverrun(time_ns=at, qp=raw["qp"])
        case EventType.PEER_ACTIVE:
            return PeerActive(time_ns=at, qp=raw["qp"])
        case EventType.SRQ_LIMIT:
            return SrqLimit(time_ns=at, srq=raw["srq"], posted=raw["posted"])
        case EventType.PORT_REFUSED:
            return PortRefused(time_ns=at, port=raw["port"], errno=raw["errno"], reason=os.strerror(raw["errno"]))
