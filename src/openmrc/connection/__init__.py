"""Connections: `connect`, `listen`, and the objects that they return."""

from __future__ import annotations

from openmrc.connection.connection import Connection, Immediate, QpLink, RemoteRegion, WriteHandle
from openmrc.connection.establish import Listener, connect, connect_async, listen
from openmrc.connection.handshake_messages import Member
from openmrc.connection.liveness import Evidence, Loss
from openmrc.connection.mesh import Mesh, MeshPeer
from openmrc.connection.settings import QpSettings

__all__ = [
    "Connection",
    "Evidence",
    "Immediate",
    "Listener",
    "Loss",
    "Member",
    "Mesh",
    "MeshPeer",
    "QpLink",
    "QpSettings",
    "RemoteRegion",
    "WriteHandle",
    "connect",
    "connect_async",
    "listen",
]
