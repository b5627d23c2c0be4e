"""Cleanup in forked children, which get copies of an object's descriptors but none of its threads."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

from openmrc.errors import ForkedError

__all__ = ["Forkable", "Ownership", "keep_from_children"]


class Forkable(Protocol):
    """An object with sockets, threads or locks."""

    def _leave_to_parent(self) -> None:
        """Called in a forked child: closes its copies of sockets, without sending or waiting; every later use is
        refused.
        """


_objects: WeakSet[Forkable] = WeakSet()


def keep_from_children(target: Forkable) -> None:
    """Registers `target` for cleanup in every child that this process forks from now on."""
    _objects.add(target)


class Ownership:
    """Remembers the process that created an object."""

    __slots__ = ("_process",)

    def __init__(self) -> None:
        self._process = os.getpid()

    def check(self) -> None:
        """Returns in the process that created the object.

        Raises:
            ForkedError: in any other process.
        """
        if self._process != os.getpid():
            msg = (
                f"this object belongs to process {self._process}, from which process {os.getpid()} was forked; "
                "open a Device in this process"
            )
            raise ForkedError(msg)


def _leave_all() -> None:
    left = list(_objects)
    _objects.clear()
    for one in left:
        one._leave_to_parent()


os.register_at_fork(after_in_child=_leave_all)
