"""Connections: `connect`, `listen`, and what they return."""

from __future__ import annotations

from openmrc.connection.establish import Listener, connect, connect_async, listen
from openmrc.connection.link import Connection, Immediate, RemoteRegion, WriteHandle
from openmrc.connection.settings import QpSettings

__all__ = [
    "Connection",
    "Immediate",
    "Listener",
    "QpSettings",
    "RemoteRegion",
    "WriteHandle",
    "connect",
    "connect_async",
    "listen",
]
