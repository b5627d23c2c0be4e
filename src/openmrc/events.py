"""Events of a device, typed; see `openmrc.verbs.events`."""

from __future__ import annotations

from openmrc.verbs.events import (
    CqOverrun,
    Event,
    EventSubscription,
    EvReplaced,
    EvStateChanged,
    PeerLost,
    PlaneStateChanged,
    PortRefused,
    PortStateChanged,
    QpStateChanged,
    RetryTimeout,
)

__all__ = [
    "CqOverrun",
    "EvReplaced",
    "EvStateChanged",
    "Event",
    "EventSubscription",
    "PeerLost",
    "PlaneStateChanged",
    "PortRefused",
    "PortStateChanged",
    "QpStateChanged",
    "RetryTimeout",
]
