"""Collectives over verbs: all-reduce and its family, on NumPy arrays and CPU tensors."""

from __future__ import annotations

from openmrc.collectives.elements import ElementType, ReduceOp
from openmrc.collectives.group import Group
from openmrc.collectives.stores import FileStore, Store, TcpStore
from openmrc.collectives.work import CollectiveError, Work
from openmrc.collectives.world import World

__all__ = ["CollectiveError", "ElementType", "FileStore", "Group", "ReduceOp", "Store", "TcpStore", "Work", "World"]
