"""A world of the collectives for a process group and its subgroups, and the threads that complete futures."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from openmrc._native import collectives as native
from openmrc.collectives import Group, World
from openmrc.collectives.rendezvous import Rendezvous
from openmrc.torch import nic as nics
from openmrc.torch.hosts import meet, sharing
from openmrc.torch.ordering import Ordering
from openmrc.variables import unknown_variables

__all__ = ["Completer", "Job", "Pending"]

_LOG = logging.getLogger("openmrc.torch")
_SLICE_NS = 100_000_000  # deadlines and the death of ranks are noticed between slices
_IDLE_S = 10.0
_CLOSE_S = 5.0


class Pending(Protocol):
    """Interface of an operation for the completer."""

    def advance(self, wait_s: float) -> bool:
        """Finishes what has ended, and waits at most this long; True once the operation is over."""

    def expire(self) -> bool:
        """Ends the operation if its time is over; True once it is over."""

    def notify(self) -> None:
        """Calls back, once. May block for as long as callbacks like."""


class Completer:
    """Ends operations that nobody waits for, and runs the callbacks of their futures.

    One thread at a time, the leader, drives the running operations. It passes the lead to an idle thread or a new one
    before it runs callbacks: a callback may wait for another operation and must not prevent its end. Threads that stay
    idle end.

    Args:
        executor: Of the collectives that the operations consist of.
    """

    def __init__(self, executor: native.Executor) -> None:
        self._executor = executor
        self._pending: list[Pending] = []
        self._ended: deque[Pending] = deque()
        lock = threading.Lock()
        self._called, self._emptied = threading.Condition(lock), threading.Condition(lock)
        self._led = self._closed = False
        self._idle = self._calls = 0  # idle threads not yet called; calls not yet followed by a thread

    def add(self, operation: Pending) -> None:
        """Drives `operation` until it is over, then notifies it."""
        with self._called:
            self._pending.append(operation)
            self._call()
        if operation.advance(0):  # the leader may wait for the end of another one
            self.finish(operation)

    def finish(self, operation: Pending) -> None:
        """Notifies `operation`, which is over, on another thread than the caller's."""
        with self._called:
            if operation in self._pending:
                self._pending.remove(operation)
                self._ended.append(operation)
                self._call()

    def close(self) -> None:
        """Returns when all added operations are over, except for callbacks that block. No more may be added."""
        with self._called:
            self._closed = True
            self._called.notify_all()
            self._emptied.wait_for(lambda: not self._pending and not self._ended, _CLOSE_S)

    def _call(self) -> None:
        """Provides a thread for new work."""
        if not self._ended and self._led:
            return
        if self._idle:
            self._idle -= 1
            self._calls += 1
            self._called.notify()
        else:
            threading.Thread(target=self._run, name="openmrc-futures", daemon=True).start()

    def _run(self) -> None:
        while (ended := self._await_ended()) is not None:
            for operation in ended:
                operation.notify()

    def _await_ended(self) -> list[Pending] | None:
        """Operations to notify; None: the thread is no longer needed."""
        with self._called:
            while True:
                if self._ended:
                    operation = self._ended.popleft()
                    self._emptied.notify_all()
                    return [operation]
                if self._pending and not self._led:
                    self._led = True
                    break
                if not self._await_call():
                    return None
        return self._lead()

    def _await_call(self) -> bool:
        """True if this thread is called before it has been idle for long."""
        self._idle += 1
        if self._called.wait_for(lambda: self._calls or self._closed, _IDLE_S) and self._calls:
            self._calls -= 1
            return True
        self._idle -= 1
        return False

    def _lead(self) -> list[Pending]:
        """Drives all operations until some are over; releases the lead then."""
        ended: list[Pending] = []
        while not ended:
            seen = self._executor.ended()  # before the look at those added, so that the end of none is missed
            with self._called:
                now = list(self._pending)
            if not now:
                break
            ended = [one for one in now if one.advance(0) or one.expire()]
            if not ended:
                self._executor.await_end(seen, _SLICE_NS)
        with self._called:
            # Some may be in `_ended` already: a thread that waited for them was faster.
            ended = [one for one in ended if one in self._pending]
            self._pending = [one for one in self._pending if one not in ended]
            self._led = False
            if self._pending:
                self._call()
            self._emptied.notify_all()
        return ended


class Job:
    """The ranks of a process group that was not created from another one.

    Args:
        store: torch's, of this process group alone.
        ranks: The ranks by the default group's numbers.
        rank: Own position among them.
        timeout_s: Limit for the arrival of all ranks.

    Raises:
        ConfigError: the environment has invalid ports, or unclear values for shared memory.
        DeviceError: the operating system refuses them.
        PeerError, TimeoutError: a rank is missing, or two have no common settings.
    """

    def __init__(self, store: Any, ranks: Sequence[int], rank: int, timeout_s: float) -> None:
        self.ranks = tuple(ranks)
        # A store outlives process groups; the ranks' texts for the previous one must not be taken for this one's.
        self.life = store.add(f"openmrc/lives/{rank}", 1)
        """Number of this job among those that used the store."""
        shared_memory, host = sharing(os.environ)
        name = f"torch-{self.life}"
        with Rendezvous(store, name, rank, timeout_s) as meeting:
            neighbours = meet(meeting, rank, len(ranks))
            _warn_of_variables(first_of_host=neighbours.own_index == 0)
            self._nic = nics.acquire(neighbours, _host_of(store))
        try:
            self.world = World(
                self._nic.device,
                rank,
                len(ranks),
                store,
                address=self._nic.address,
                name=name,
                timeout_s=timeout_s,
                shared_memory=shared_memory,
                host=host,
            )
        except BaseException:
            nics.release(self._nic)
            raise
        self.completer = Completer(self.world.executor)
        self.ordering = Ordering(self.world)
        self.failed = False
        """True after a failed operation: the end of this rank is then no success, and the others are informed."""
        said = f"openmrc: rank {rank} of {len(ranks)}, UDP port {self._nic.device.udp_port}, {self._nic.why}"
        if self.world.neighbours:
            said += f"; shares memory with {len(self.world.neighbours)} of {len(ranks) - 1} others"
        _LOG.info(said)
        if rank == 0:
            sys.stderr.write(f"{said}\n")
            sys.stderr.flush()

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self.world.closed

    def group(self, ranks: Sequence[int], name: str) -> Group:
        """A group of some of the ranks, by the default group's numbers; all of them call this with the same name."""
        return self.world.new_group([self.ranks.index(rank) for rank in ranks], name)

    def dead(self, group: Group) -> int | None:
        """The first dead member of a group, in the world's numbers."""
        return next((rank for rank in self.world.missing if rank in group.members), None)

    def close(self) -> None:
        """Ends everything; running operations fail. Idempotent."""
        if self.world.closed:
            return
        self.world.close(goodbye=not self.failed, reason="one of its operations failed")
        self.completer.close()
        nics.release(self._nic)


def _warn_of_variables(*, first_of_host: bool) -> None:
    """Warns before a failure that an unknown variable may cause; on stderr once per host."""
    for warning in unknown_variables(os.environ):
        if first_of_host:
            sys.stderr.write(f"openmrc: warning: {warning}\n")
            sys.stderr.flush()
        _LOG.info(warning)


def _host_of(store: Any) -> str | None:
    """Host that serves a TCPStore, inside any prefixes."""
    while (below := getattr(store, "underlying_store", None)) is not None:
        store = below
    host = getattr(store, "host", None)
    return host if isinstance(host, str) else None
