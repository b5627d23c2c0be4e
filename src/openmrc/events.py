"""Events of a device, typed; see `openmrc.verbs.event_stream`."""

from __future__ import annotations

from openmrc.verbs.event_stream import (
    CqOverrun,
    Event,
    EventSubscription,
    EvReplaced,
    EvStateChanged,
    PeerActive,
    PeerLost,
    PlaneStateChanged,
    PortRefused,
    PortStateChanged,
    QpStateChanged,
    RetryTimeout,
    SrqLimit,
)

__all__ = [
    "CqOverrun",
    "EvReplaced",
    "EvStateChanged",
    "Event",
    "EventSubscription",
    "PeerActive",
    "PeerLost",
    "PlaneStateChanged",
    "PortRefused",
    "PortStateChanged",
    "QpStateChanged",
    "RetryTimeout",
    "SrqLimit",
]
