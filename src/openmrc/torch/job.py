"""A world of the collectives for a process group and its subgroups, and the thread that completes futures."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any, Protocol

from openmrc.collectives import Group, World
from openmrc.torch import nic as nics
from openmrc.torch.hosts import meet, sharing

__all__ = ["Completer", "Job", "Pending"]

_LOG = logging.getLogger("openmrc.torch")
_SLICE_S = 0.001


class Pending(Protocol):
    """What the completer looks after."""

    def advance(self, wait_s: float) -> bool:
        """Waits a little; whether it is over."""


class Completer:
    """Completes futures that nobody waits for, on one thread, which sleeps while there are none."""

    def __init__(self) -> None:
        self._pending: list[Pending] = []
        self._changed = threading.Condition()
        self._closed = False
        self._thread: threading.Thread | None = None

    def add(self, work: Pending) -> None:
        """Looks after `work` until it is over."""
        with self._changed:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="openmrc-futures", daemon=True)
                self._thread.start()
            self._pending.append(work)
            self._changed.notify()

    def close(self) -> None:
        """Ends the thread, once everything that was added is over."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pending or self._closed)
                now = list(self._pending)
            if not now:
                return
            # Mostly they end in order. One that waits for another rank must not hold up the rest.
            over = [work for place, work in enumerate(now) if work.advance(0 if place else _SLICE_S)]
            with self._changed:
                self._pending = [work for work in self._pending if work not in over]


class Job:
    """The ranks of a process group that was not made from another one.

    Args:
        store: torch's, of this process group alone.
        ranks: The ranks by the default group's numbers.
        rank: Own place among them.
        timeout_s: For everybody to come.

    Raises:
        ConfigError: the environment names ports that cannot be, or is not clear about shared memory.
        DeviceError: the operating system refuses them.
        PeerError, TimeoutError: a rank did not come, or two cannot agree.
    """

    def __init__(self, store: Any, ranks: Sequence[int], rank: int, timeout_s: float) -> None:
        self.ranks = tuple(ranks)
        # A store outlives process groups; what the ranks wrote for the last one must not be taken for this one's.
        self.life = store.add(f"openmrc/lives/{rank}", 1)
        """Which one of those made through this store it is."""
        shared_memory, host = sharing(os.environ)
        neighbours = meet(store, f"openmrc/{self.life}", rank, len(ranks))
        self._nic = nics.acquire(neighbours, _host_of(store))
        try:
            self.world = World(
                self._nic.device,
                rank,
                len(ranks),
                store,
                address=self._nic.address,
                name=f"torch-{self.life}",
                timeout_s=timeout_s,
                shared_memory=shared_memory,
                host=host,
            )
        except BaseException:
            nics.release(self._nic)
            raise
        self.completer = Completer()
        self.failed = False
        """Whether an operation has failed: then the end of this rank is no success, and the others are told so."""
        said = f"openmrc: rank {rank} of {len(ranks)}, UDP port {self._nic.device.udp_port}, {self._nic.why}"
        if shared_memory:
            said += f"; shares memory with {len(self.world.neighbours)} of {len(ranks) - 1} others"
        _LOG.info(said)
        if rank == 0:
            sys.stderr.write(f"{said}\n")
            sys.stderr.flush()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self.world.closed

    def group(self, ranks: Sequence[int], name: str) -> Group:
        """A group of some of the ranks, by the default group's numbers; all of them call this with the same name."""
        return self.world.new_group([self.ranks.index(rank) for rank in ranks], name)

    def dead(self, group: Group) -> int | None:
        """The first member of a group that has died, in the world's numbers."""
        return next((rank for rank in self.world.missing if rank in group.members), None)

    def close(self) -> None:
        """Ends everything; operations that run fail. Idempotent."""
        if self.world.closed:
            return
        self.world.close(goodbye=not self.failed)
        self.completer.close()
        nics.release(self._nic)


def _host_of(store: Any) -> str | None:
    """Where a TCPStore is served, under whatever prefixes."""
    while (below := getattr(store, "underlying_store", None)) is not None:
        store = below
    host = getattr(store, "host", None)
    return host if isinstance(host, str) else None
