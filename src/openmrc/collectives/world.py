"""All ranks of a job, connected with each other: one QP per pair and traffic class, and an executor that runs plans.

Connecting takes one round through the store, in which ranks publish their cards, and one TCP connection per pair. Ranks
on one host use shared memory instead of QPs if possible, which takes two more rounds among them: for the memory created
for each other rank, and for the offers that could be opened.
"""

from __future__ import annotations

import atexit
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Annotated, Self, TypeVar
from weakref import WeakSet

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from openmrc._native import collectives as native
from openmrc.collectives.exit_status import ProcessHandle, open_process, status_text
from openmrc.collectives.group import Group
from openmrc.collectives.hosts import (
    Host,
    Machine,
    any_crowded,
    hosts_of_ranks,
    identify_host,
    identify_machine,
)
from openmrc.collectives.port_counts import differing_ports
from openmrc.collectives.rendezvous import Rendezvous
from openmrc.collectives.sites import sites_of_world
from openmrc.collectives.stores import Store
from openmrc.connection import Evidence, Loss, Member, Mesh, MeshPeer, QpLink, QpSettings
from openmrc.connection.settings import retries_for
from openmrc.errors import ConfigError, HandshakeError, InvalidStateError, PeerError
from openmrc.forks import Ownership, keep_from_children
from openmrc.verbs import CompletionQueue, Device, QpErrorCause
from openmrc.verbs.snapshots import QueuePairStatistics

__all__ = ["TRAFFIC_CLASSES", "World"]

TRAFFIC_CLASSES = ("bulk", "critical")
_LANES = {name: number for number, name in enumerate(TRAFFIC_CLASSES)}
RANKS_MAX = 1024
_SEND_DEPTH = 1024
_RECV_DEPTH = 512
_SPIN_US = 50_000
_POLL_US = 200
T = TypeVar("T")
_U64 = Annotated[int, Field(ge=0, lt=1 << 64)]
_File = tuple[_U64, _U64, _U64, _U64]
_SharedOffer = tuple[_File, _File, _File, _File]
_SLICE_S = 0.1  # Ctrl-C is noticed between slices
_FLUSH_SLICE_NS = int(_SLICE_S * 1e9)
_GIVE_UP_S = 2.0  # limit on the wait for acknowledgements of a rank that ends irregularly
_REASON_MAX = 200


class _Card(BaseModel):
    """A rank's description of itself, in the store."""

    model_config = ConfigDict(strict=True, frozen=True, cache_strings="none")

    address: Annotated[str, Field(max_length=300)]
    token: Annotated[str, Field(max_length=64)]
    ports: Annotated[tuple[Annotated[str, Field(max_length=64)], ...], Field(min_length=1, max_length=16)]
    host: Host | None
    machine: Machine | None = None


class World:
    """The ranks of a job, from one rank's side.

    Args:
        device: The NIC to use; it stays open when the world closes.
        rank: Own number.
        size: Number of ranks.
        store: Through which ranks find each other.
        address: Host address at which other ranks can reach this one by TCP, for connecting; not for data.
        name: Of the job, for the store's keys.
        settings: Of the QPs; depths are set here.
        spin_us: A waiting thread drives the device itself until nothing has arrived for this long.
        poll_us: If little is expected, it polls repeatedly for this long, and lets others run in between; then it
        sleeps
            until something arrives.
        timeout_s: For connecting; for the silence on all planes after which a rank counts as gone, unless `settings`
            specify the number of retries; and for the wait of a closing rank until the others have acknowledged its
            data.
        sites: The ranks of each site or host; the same at all ranks. Large reductions and all-gathers then send less
            from site to site. Empty: irrelevant, or with shared memory the hosts.
        shared_memory: Data between ranks on one host goes through shared memory, not through ports, unless one of the
            two has False here or cannot open the other's memory. A network namespace counts as a host.
        host: With shared memory, divides a machine into several hosts: only ranks with the same name share. For test
            beds.

    Raises:
        ConfigError: a rank out of range.
        PeerError, TimeoutError: a rank is missing, or two have no common settings.
        HandshakeError: ranks have different numbers of ports; all ranks raise it, with the same text.
    """

    def __init__(
        self,
        device: Device,
        rank: int,
        size: int,
        store: Store,
        *,
        address: str = "127.0.0.1",
        name: str = "world",
        settings: QpSettings | None = None,
        spin_us: int = _SPIN_US,
        poll_us: int = _POLL_US,
        timeout_s: float = 60.0,
        sites: Sequence[Sequence[int]] = (),
        shared_memory: bool = True,
        host: str = "",
    ) -> None:
        if not 1 <= size <= RANKS_MAX:
            raise ConfigError("size", size, f"1 to {RANKS_MAX} ranks")
        if not 0 <= rank < size:
            raise ConfigError("rank", rank, f"0 to {size - 1}")
        if host and not shared_memory:
            raise ConfigError("host", host, "no host name unless ranks share memory", hint="drop shared_memory=False")
        self.device, self.rank, self.size = device, rank, size
        self.sites = sites_of_world(sites, size)
        """The ranks of each site or host."""
        self.neighbours: tuple[int, ...] = ()
        """Ranks that share memory with this one."""
        self.hosts: tuple[tuple[int, ...], ...] = ()
        """The ranks of each host, as all ranks know them."""
        self._host = identify_host(host) if shared_memory else None
        self._name = name
        self._timeout_s = timeout_s
        recv_depth = _RECV_DEPTH + native.CREDIT_RECEIVES
        self._settings = replace(settings or QpSettings(), send_wr_max=_SEND_DEPTH, recv_wr_max=recv_depth)
        self._silence_by_timeout = self._settings.exponential_retries is None
        if self._silence_by_timeout:
            self._settings = replace(self._settings, exponential_retries=retries_for(timeout_s, self._settings))
        per_qp = _SEND_DEPTH + recv_depth + 2
        self._queue = CompletionQueue(device, per_qp * max(size - 1, 1) * len(TRAFFIC_CLASSES))
        self._domain = device.open_context().alloc_pd()
        meeting = Rendezvous(store, name, rank, timeout_s)
        with meeting:
            self._executor = native.Executor(
                device._native,
                self._queue.id,
                rank,
                size,
                len(TRAFFIC_CLASSES),
                _RECV_DEPTH,
                spin_us * 1000,
                poll_us * 1000,
                self._domain.number,
            )
        self._links: dict[tuple[int, int], QpLink] = {}  # by rank and traffic class
        self._closed = self._closing = False
        self._ownership = Ownership()
        self._missing: dict[int, Loss] = {}
        self._processes: dict[int, ProcessHandle] = {}  # of neighbours
        self._ports = {rank: tuple(port.seen_as for port in device.ports)}
        try:
            with meeting:
                self._connect(meeting, address)
        except BaseException:
            self.close(goodbye=False, reason="it could not connect with all ranks")
            raise
        _open.add(self)
        keep_from_children(self)
        self.group = Group(self, tuple(range(size)), name)
        """All ranks."""

    @property
    def closed(self) -> bool:
        """True after `close`, and in a process forked from the rank's."""
        return self._closed

    def check_open(self) -> None:
        """Returns while operations can be started.

        Raises:
            ForkedError: this process was forked from the rank's.
            InvalidStateError: the world is closed.
        """
        self._ownership.check()
        if self._closed:
            raise InvalidStateError("the world is closed")

    @property
    def missing(self) -> dict[int, str]:
        """Ranks that left without a goodbye, with the reason; ranks that ended because of another one come after that
        one.
        """
        return {rank: loss.reason for rank, loss in self._missing.items()}

    def ports_of(self, rank: int) -> tuple[str, ...]:
        """Addresses of a rank's ports, by plane."""
        return self._ports[rank]

    def lane(self, traffic_class: str) -> int:
        """Number of the QPs of a traffic class.

        Raises:
            ConfigError: there is no such class.
        """
        lane = _LANES.get(traffic_class)
        if lane is None:
            raise ConfigError("traffic_class", traffic_class, ", ".join(TRAFFIC_CLASSES))
        return lane

    @property
    def executor(self) -> native.Executor:
        """Executor of the plans of all groups."""
        return self._executor

    def new_group(self, members: tuple[int, ...] | list[int], name: str) -> Group:
        """A group of some ranks, which all of them must create with the same name.

        Raises:
            ConfigError: a rank that does not exist, a repeated one, or own rank is not a member.
        """
        return Group(self, tuple(members), name)

    def await_memory(self, address: int, length: int, *, writes: bool, timeout_s: float) -> bool:
        """Returns when no running operation writes this memory, or uses it at all; for callers that copy it.

        Args:
            address: Of its first byte.
            length: In bytes.
            writes: The caller writes, so that operations may not read either.
            timeout_s: Limit.

        Returns:
            False: the time is over.
        """
        deadline = time.monotonic() + timeout_s
        while operation := self._executor.user_of(address, length, writes):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return False
            self._executor.wait(operation, int(min(left_s, _SLICE_S) * 1e9))
        return True

    def statistics(self) -> dict[str, int]:
        """Counters of the executor (operations, messages, bytes reduced and copied), and the cost of connections.

        `connections`: other ranks that are connected; `descriptors`: open for them, beside those of the device;
        `reserved_bytes`: address space for small messages, of which used pages take memory.
        """
        peers = {rank for rank, _ in self._links}
        sockets = sum(link._socket is not None for link in self._links.values())
        reserved = 2 * native.MAILBOX_BYTES * self.size * len(TRAFFIC_CLASSES)
        descriptors = sockets + len(self._processes)
        taken = {"connections": len(peers), "descriptors": descriptors, "reserved_bytes": reserved}
        return {**self._executor.statistics(), **taken}

    def qp_statistics(self, rank: int) -> dict[str, QueuePairStatistics]:
        """Counters of the QPs to another rank, by traffic class; without data through shared memory.

        Raises:
            ConfigError: it is own rank, or does not exist.
        """
        if not 0 <= rank < self.size or rank == self.rank:
            raise ConfigError("rank", rank, f"another rank from 0 to {self.size - 1}")
        return {name: self._links[rank, lane].statistics() for lane, name in enumerate(TRAFFIC_CLASSES)}

    def close(self, *, goodbye: bool = True, reason: str = "") -> None:
        """Ends everything; running operations fail. Idempotent.

        Returns at once if the other ranks have acknowledged all data of this one, or are gone. Otherwise it waits for
        them, at most for `timeout_s`: a slow rank does not count as gone.

        Args:
            goodbye: This rank has finished. False: it gives up, and the others are to count it as gone.
            reason: Reason for giving up, for the others. The loss of another rank takes precedence.
        """
        if self._closed or self._closing:
            return
        self._closing = True
        words = Loss("", goodbye=True)
        try:
            flushed = self._flush(self._timeout_s if goodbye else min(self._timeout_s, _GIVE_UP_S))
            if not goodbye:
                words = self._first_cause() or Loss(reason or "it gave up")
            elif not flushed:
                words = self._first_cause() or Loss(
                    f"not all ranks took its last messages within {self._timeout_s:g} s"
                )
        except BaseException:  # Ctrl-C during the wait
            words = Loss("it was interrupted while it closed")
            raise
        finally:
            self._closed = True
            _open.discard(self)
            self._executor.close()
            for link in self._links.values():
                link.close(words)
            while self._processes:
                self._processes.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        failure = "" if _type is None else f"its program failed: {_type.__name__}: {_value}"
        self.close(goodbye=_type is None, reason=failure[:_REASON_MAX])

    # --- connecting

    def _connect(self, meeting: Rendezvous, address: str) -> None:
        others = [rank for rank in range(self.size) if rank != self.rank]
        rkeys = list(self._executor.mailbox_rkeys)
        with Mesh(
            self.device,
            self._queue,
            rank=self.rank,
            size=self.size,
            job=self._name,
            host=address,
            settings=self._settings,
            urgent=[name == "critical" for name in TRAFFIC_CLASSES],
            mailbox=lambda rank: (self._executor.mailbox_address, rkeys[rank]),
            connected=self._take_peer,
            domain=self._domain,
        ) as mesh:
            card = _Card(
                address=mesh.card.address,
                token=mesh.card.token,
                ports=self._ports[self.rank],
                host=self._host,
                machine=identify_machine(),
            )
            meeting.publish("card", card.model_dump_json())
            cards = self._gather(meeting, "card", others, _Card)
            self._ports |= {rank: card.ports for rank, card in cards.items()}
            if (problem := differing_ports(self._ports)) is not None:
                meeting.leave_together("leaves", others)
                raise HandshakeError(problem)
            peers = {rank: MeshPeer(card.address, card.token) for rank, card in cards.items()}
            with meeting:  # the reason is published before the listener closes
                links = mesh.connect(peers, meeting.left_s, meeting.check)
        self._links = {(rank, lane): link for rank, lanes in links.items() for lane, link in enumerate(lanes)}
        hosts = hosts_of_ranks({self.rank: self._host} | {rank: card.host for rank, card in cards.items()})
        self.crowded = any_crowded([card.machine, *(other.machine for other in cards.values())])
        """Some machine has more ranks than processors."""
        own_host = next(ranks for ranks in hosts if self.rank in ranks)
        self.hosts = hosts
        if len(own_host) > 1:
            self._share_memory(meeting, [rank for rank in own_host if rank != self.rank])
        # Derived from data common to all ranks, so that all get the same result; not from the offers that could be
        # opened.
        self.sites = self.sites or (hosts if len(hosts) < self.size else ())
        paths = [link.agreed["rate_bps"] * link.agreed["base_rtt_ns"] for link in self._links.values()]
        self.path_bytes = max(paths, default=0) // 8_000_000_000
        """Data on the way to another rank and back when its paths are full, at most."""
        for (rank, _), link in self._links.items():
            if self._silence_by_timeout:
                link.silence_max_s = self._timeout_s
            link.watch(lambda loss, rank=rank: self._lost(rank, loss))  # type: ignore[misc]

    def _take_peer(self, rank: int, links: Sequence[QpLink], theirs: Member) -> None:
        """Posts receives for a rank, which may write from now on."""
        self._executor.connect(rank, [link.qp.qp_num for link in links], theirs.mailbox_address, theirs.mailbox_rkey)

    def _share_memory(self, meeting: Rendezvous, others: Sequence[int]) -> None:
        offered = {rank: self._executor.offer_memory(rank) for rank in others}
        own = {rank: offer for rank, offer in offered.items() if offer is not None}
        meeting.publish("memory", json.dumps(own))
        offers = self._gather(meeting, "memory", others, dict[str, _SharedOffer])
        own_key = str(self.rank)
        opened = []
        for rank in others:
            if (offer := offers[rank].get(own_key)) is None:
                continue
            if (process := open_process(offer[0][0])) is not None:
                self._processes[rank] = process
            # Only after that: a process that has the memory is the one that offered it.
            if self._executor.open_memory(rank, offer):
                opened.append(rank)
        meeting.publish("opened", json.dumps(opened))
        answers = self._gather(meeting, "opened", others, list[int])
        self.neighbours = tuple(rank for rank in opened if self.rank in answers[rank])
        for rank in others:
            self._executor.use_memory(rank, rank in self.neighbours)
        for rank in self._processes.keys() - set(self.neighbours):
            self._processes.pop(rank).close()

    # --- ending

    def _lost(self, rank: int, loss: Loss) -> None:
        if self._closed:
            return
        culprit, text = rank, f"rank {rank} is gone: {loss.reason}"
        if loss.goodbye:
            self._executor.fail_peer(rank, text, left=True)
            return
        if loss.culprit is not None and 0 <= loss.culprit < self.size:
            loss = self._report_of(rank, loss.culprit, loss)
            text = f"rank {rank} is gone: {loss.reason}"
            if loss.culprit is not None:
                culprit, text = loss.culprit, f"rank {loss.culprit} is gone: {self._missing[loss.culprit].reason}"
        else:
            text = f"rank {rank} is gone: {self._note_missing(rank, loss).reason}"
        self._missing.setdefault(rank, loss)
        self._executor.fail_peer(rank, text, culprit=culprit)

    def _report_of(self, rank: int, culprit: int, report: Loss) -> Loss:
        """The end of a rank that reports the loss of another one as its cause, possibly of this one."""
        if culprit == self.rank:
            return Loss(f"it gave this rank up: {report.reason}")
        if culprit == rank:
            return Loss(report.reason)
        cause = self._note_missing(culprit, Loss(report.reason, evidence=report.evidence))
        return Loss(f"it ended because rank {culprit} is gone: {cause.reason}", culprit=culprit)

    def _note_missing(self, rank: int, loss: Loss) -> Loss:
        """The loss of a rank, with the exit status of its process where known; that replaces earlier reasons."""
        if loss.evidence is Evidence.SILENCE and rank in self._processes:
            status = self._processes[rank].exit_status()
            if status is not None:
                loss = Loss(status_text(status), evidence=Evidence.EXIT_STATUS)
        if loss.evidence is Evidence.EXIT_STATUS:
            self._missing[rank] = loss
        self._missing.setdefault(rank, loss)
        return loss

    def _first_cause(self) -> Loss | None:
        """The first lost rank, in the form for the others; None: no rank is lost."""
        for rank, loss in self._missing.items():
            return replace(loss, culprit=rank)
        for (rank, _), link in self._links.items():
            if not self.device.closed and link.qp.error_cause is QpErrorCause.RETRY_EXCEEDED:
                reason = "it did not answer on any path until the retries ran out"
                return replace(self._note_missing(rank, Loss(reason, evidence=Evidence.SILENCE)), culprit=rank)
        return None

    def _flush(self, limit_s: float) -> bool:
        """Waits until all sent data has arrived, except at lost ranks; False: not within `limit_s`."""
        deadline = time.monotonic() + limit_s
        while not self._executor.flush(_FLUSH_SLICE_NS):
            if self.device.closed or time.monotonic() >= deadline:
                return False
        return True

    def _leave_to_parent(self) -> None:
        self._closed = True
        _open.discard(self)

    # --- the store

    def _gather(self, meeting: Rendezvous, topic: str, ranks: Sequence[int], form: type[T]) -> dict[int, T]:
        adapter = TypeAdapter(form)
        return {rank: self._parse(rank, adapter, text) for rank, text in meeting.gather(topic, ranks).items()}

    def _parse(self, rank: int, form: TypeAdapter[T], text: str) -> T:
        """Text that another rank has published, parsed by its model.

        Raises:
            PeerError: it does not have that form; the rank is named.
        """
        try:
            return form.validate_json(text, strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "it"
            msg = f"rank {rank} of {self._name!r} published text that is malformed: {place}: {first['msg']}"
            raise PeerError(msg) from None


_open: WeakSet[World] = WeakSet()


@atexit.register
def _close_all() -> None:
    """Closes worlds that a program left open at its end, perhaps because of another rank's error, with a notice to
    peers.
    """
    for world in list(_open):
        world.close(goodbye=False, reason="its program ended without closing the world")
