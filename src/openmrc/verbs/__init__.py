"""MRC verbs: devices, memory regions, completion queues, queue pairs, and the controller's profiles.

The names are those of the MRC API (libibverbs with MRC's additions) in Python form. `openmrc.connect` and
`openmrc.listen`, which are built on these objects, are enough for most programs.
"""

from __future__ import annotations

from openmrc.verbs.attributes import QpHintAttributes, QpHintOptions, QpInitAttributes, ToInit, ToRtr, ToRts
from openmrc.verbs.carrier import CarrierMonitor, FabricCarrier, LinkCarrier
from openmrc.verbs.completions import ProbeAnswer, WorkCompletion
from openmrc.verbs.cq import CompletionQueue
from openmrc.verbs.device import Context, Device, Peer, Port, ProtectionDomain, QpHint
from openmrc.verbs.enums import (
    Access,
    EvCause,
    EventType,
    EvFeedback,
    EvFormatMode,
    EvState,
    ParseError,
    PathSignal,
    QpErrorCause,
    QpState,
    Status,
    Transport,
    WcOpcode,
    WcStatus,
    WrOpcode,
)
from openmrc.verbs.ev_format import EvFormat, EvProfileField, expand_ev, generate_evs
from openmrc.verbs.event_stream import Event, EventSubscription
from openmrc.verbs.memory import MemoryRegion
from openmrc.verbs.parameters import CcConfig
from openmrc.verbs.paths import Paths
from openmrc.verbs.profiles import (
    CcProfile,
    Controller,
    EvEntry,
    EvFormatProfile,
    EvProfile,
    EvProfileMode,
    ProfileState,
)
from openmrc.verbs.qp import QueuePair
from openmrc.verbs.settings import DeviceAttributes, DeviceOptions, DeviceSettings
from openmrc.verbs.srq import SharedReceiveQueue
from openmrc.verbs.work import RecvWr, SendWr, Sge

__all__ = [
    "Access",
    "CarrierMonitor",
    "CcConfig",
    "CcProfile",
    "CompletionQueue",
    "Context",
    "Controller",
    "Device",
    "DeviceAttributes",
    "DeviceOptions",
    "DeviceSettings",
    "EvCause",
    "EvEntry",
    "EvFeedback",
    "EvFormat",
    "EvFormatMode",
    "EvFormatProfile",
    "EvProfile",
    "EvProfileField",
    "EvProfileMode",
    "EvState",
    "Event",
    "EventSubscription",
    "EventType",
    "FabricCarrier",
    "LinkCarrier",
    "MemoryRegion",
    "ParseError",
    "PathSignal",
    "Paths",
    "Peer",
    "Port",
    "ProbeAnswer",
    "ProfileState",
    "ProtectionDomain",
    "QpErrorCause",
    "QpHint",
    "QpHintAttributes",
    "QpHintOptions",
    "QpInitAttributes",
    "QpState",
    "QueuePair",
    "RecvWr",
    "SendWr",
    "Sge",
    "SharedReceiveQueue",
    "Status",
    "ToInit",
    "ToRtr",
    "ToRts",
    "Transport",
    "WcOpcode",
    "WcStatus",
    "WorkCompletion",
    "WrOpcode",
    "expand_ev",
    "generate_evs",
]
