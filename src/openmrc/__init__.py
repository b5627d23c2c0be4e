"""MRC (Multipath Reliable Connection) for ordinary Linux hosts.

Two processes, each with a `Device`; one listens, one connects, and both may write into the memory the other offered:

    with openmrc.Device(["127.0.0.1"]) as device, openmrc.listen(device, "0.0.0.0:7777", region=buffer) as listener:
        with listener.accept() as connection:
            connection.recv_imm()

What connections are made of (memory regions, completion queues, queue pairs, profiles) is in `openmrc.verbs`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from openmrc.errors import (
    BusyError,
    ConfigError,
    DeviceError,
    ForkedError,
    HandshakeError,
    InvalidArgumentError,
    InvalidStateError,
    LimitError,
    NotFoundError,
    OpenmrcError,
    PeerError,
    PeerUnreachableError,
    QueueFullError,
    VerbsError,
    WorkError,
)

if TYPE_CHECKING:
    from openmrc.connection import (
        Connection,
        Immediate,
        Listener,
        QpSettings,
        RemoteRegion,
        WriteHandle,
        connect,
        connect_async,
        listen,
    )
    from openmrc.verbs import Device, Transport

__all__ = [
    "BusyError",
    "ConfigError",
    "Connection",
    "Device",
    "DeviceError",
    "ForkedError",
    "HandshakeError",
    "Immediate",
    "InvalidArgumentError",
    "InvalidStateError",
    "LimitError",
    "Listener",
    "NotFoundError",
    "OpenmrcError",
    "PeerError",
    "PeerUnreachableError",
    "QpSettings",
    "QueueFullError",
    "RemoteRegion",
    "Transport",
    "VerbsError",
    "WorkError",
    "WriteHandle",
    "connect",
    "connect_async",
    "listen",
]

_OF_VERBS = {"Device", "Transport"}


def __getattr__(name: str) -> Any:
    """Loads the native half on first use, so that `openmrc --help` and `import openmrc.units` are quick."""
    if name not in __all__:
        msg = f"module 'openmrc' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module("openmrc.verbs" if name in _OF_VERBS else "openmrc.connection"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
