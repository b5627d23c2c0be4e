"""All ranks of a job, connected with each other: one QP per pair and traffic class, and an executor that runs plans.

Ranks on one host may have memory in common instead, which needs three rounds through the store: who is on which host,
where each has made memory for whom, and who could open it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from openmrc._native import collectives as native
from openmrc.collectives.group import Group
from openmrc.collectives.hosts import Host, hosts_of_ranks, identify_host
from openmrc.collectives.sites import sites_of_world
from openmrc.collectives.stores import Store
from openmrc.connection import GOODBYE, QpLink, QpSettings, connect_link, listen
from openmrc.errors import ConfigError, OpenmrcError
from openmrc.verbs import CompletionQueue, Device
from openmrc.verbs.stats import QueuePairStatistics

__all__ = ["TRAFFIC_CLASSES", "World"]

TRAFFIC_CLASSES = ("bulk", "critical")
_LANES = {name: number for number, name in enumerate(TRAFFIC_CLASSES)}
RANKS_MAX = 1024
_SEND_DEPTH = 1024
_RECV_DEPTH = 512
_SPIN_US = 2000
_POLL_US = 200
_FLUSH_NS = 2_000_000_000  # what was sent last is on its way when a rank closes


@dataclass(frozen=True, slots=True)
class _Card:
    """What a rank tells the others of itself."""

    address: str
    mailbox_address: int
    mailbox_rkeys: list[int]
    ports: tuple[str, ...]
    host: Host | None


class World:
    """The ranks of a job, from one rank's side.

    Args:
        device: The NIC to use; it stays open when the world closes.
        rank: Own number.
        size: How many ranks there are.
        store: Where ranks find each other.
        address: Host address at which other ranks can reach this one by TCP, for connecting; not for data.
        name: Of the job, for the store's keys.
        settings: Of the QPs; depths are set here.
        spin_us: A waiting thread drives the device itself until nothing has come for so long.
        poll_us: Where little is to come, it looks again and again for so long, and lets others run in between; then it
            sleeps until something comes.
        timeout_s: For connecting.
        sites: Which ranks stand together, on one site or one host; the same at all ranks. Large reductions and
            all-gathers then send less from site to site. Empty: no matter, or with shared memory the hosts.
        shared_memory: Between ranks on one host, data goes through memory that they share, not through ports, where
            both ask for it and can.
        host: With shared memory, parts a machine into several hosts: only ranks of one machine that give the same
            name share. For test beds.

    Raises:
        ConfigError: a rank out of range.
        PeerError, TimeoutError: a rank did not come, or the two cannot agree.
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
        shared_memory: bool = False,
        host: str = "",
    ) -> None:
        if not 1 <= size <= RANKS_MAX:
            raise ConfigError("size", size, f"1 to {RANKS_MAX} ranks")
        if not 0 <= rank < size:
            raise ConfigError("rank", rank, f"0 to {size - 1}")
        if host and not shared_memory:
            raise ConfigError("host", host, "nothing, unless ranks share memory", hint="add shared_memory=True")
        self.device, self.rank, self.size = device, rank, size
        self.sites = sites_of_world(sites, size)
        """Which ranks stand together."""
        self.neighbours: tuple[int, ...] = ()
        """Ranks that this one shares memory with."""
        self._host = identify_host(host) if shared_memory else None
        self._name = name
        recv_depth = _RECV_DEPTH + native.CREDIT_RECEIVES
        self._settings = replace(settings or QpSettings(), send_depth=_SEND_DEPTH, recv_depth=recv_depth)
        per_qp = _SEND_DEPTH + recv_depth + 2
        self._queue = CompletionQueue(device, per_qp * max(size - 1, 1) * len(TRAFFIC_CLASSES))
        self._domain = device.open_context().alloc_pd()
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
        self._closed = False
        self._missing: dict[int, str] = {}
        self._ports = {rank: tuple(port.seen_as for port in device.ports)}
        try:
            self._connect(store, address, timeout_s)
        except BaseException:
            self.close(goodbye=False)
            raise
        self.group = Group(self, tuple(range(size)), name)
        """All ranks."""

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def missing(self) -> dict[int, str]:
        """Ranks that went without a goodbye, in the order in which that was noticed, and how."""
        return dict(self._missing)

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
        """What runs the plans of all groups."""
        return self._executor

    def new_group(self, members: tuple[int, ...] | list[int], name: str) -> Group:
        """A group of some ranks, which all of them must make with the same name.

        Raises:
            ConfigError: a rank that is not there, or is there twice, or own rank is not a member.
        """
        return Group(self, tuple(members), name)

    def statistics(self) -> dict[str, int]:
        """Counters of the executor: operations, messages, bytes reduced and copied."""
        return dict(self._executor.statistics())

    def qp_statistics(self, rank: int) -> dict[str, QueuePairStatistics]:
        """Counters of the QPs to another rank, by traffic class; what goes through shared memory is not among them.

        Raises:
            ConfigError: it is own rank, or there is no such one.
        """
        if not 0 <= rank < self.size or rank == self.rank:
            raise ConfigError("rank", rank, f"another rank from 0 to {self.size - 1}")
        return {name: self._links[rank, lane].statistics() for lane, name in enumerate(TRAFFIC_CLASSES)}

    def close(self, *, goodbye: bool = True) -> None:
        """Ends everything; operations that run fail. Idempotent.

        Args:
            goodbye: This rank has done its part. False: it gives up, and the others are to count it as dead.
        """
        if self._closed:
            return
        self._closed = True
        self._executor.flush(_FLUSH_NS)
        self._executor.close()
        for link in self._links.values():
            if goodbye:
                link.say_goodbye()
            link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close(goodbye=_type is None)

    # --- connecting

    def _connect(self, store: Store, address: str, timeout_s: float) -> None:
        where = f"[{address}]:0" if ":" in address else f"{address}:0"
        with listen(self.device, where, settings=self._settings) as listener:
            own = [listener.address, self._executor.mailbox_address, list(self._executor.mailbox_rkeys)]
            store.set(self._key(self.rank), json.dumps([*own, self._ports[self.rank], self._host]))
            failures: list[Exception] = []
            found: dict[tuple[int, int], QpLink] = {}

            def accept() -> None:
                try:
                    for _ in range(self.rank * len(TRAFFIC_CLASSES)):
                        link = listener.accept_link(self._queue, timeout_s, self._domain)
                        rank, lane = link.note
                        found[int(rank), int(lane)] = link
                except (OpenmrcError, TimeoutError) as error:
                    failures.append(error)

            acceptor = threading.Thread(target=accept, name="openmrc-accept", daemon=True)
            acceptor.start()
            cards = {rank: _Card(*card) for rank, card in self._ask(store, "").items()}
            self._ports |= {rank: tuple(card.ports) for rank, card in cards.items()}
            for rank in range(self.rank + 1, self.size):
                for lane in range(len(TRAFFIC_CLASSES)):
                    found[rank, lane] = connect_link(
                        self.device,
                        cards[rank].address,
                        self._queue,
                        note=[self.rank, lane],
                        settings=self._settings,
                        timeout_s=timeout_s,
                        domain=self._domain,
                    )
            acceptor.join()
            self._links = found
            if failures:
                raise failures[0]
        for rank, card in cards.items():
            qps = [found[rank, lane].qp.qp_num for lane in range(len(TRAFFIC_CLASSES))]
            self._executor.connect(rank, qps, card.mailbox_address, card.mailbox_rkeys[self.rank])
        hosts = hosts_of_ranks({self.rank: self._host} | {rank: card.host for rank, card in cards.items()})
        if self._host is not None:
            own_host = next(ranks for ranks in hosts if self.rank in ranks)
            self._share_memory(store, [rank for rank in own_host if rank != self.rank])
        # By what all ranks know of all, so that all have the same: not by who could open whose memory.
        self.sites = self.sites or (hosts if len(hosts) < self.size else ())
        # Nobody may write to a rank whose receives are not posted.
        store.set(f"{self._key(self.rank)}/ready", "1")
        self._ask(store, "/ready")
        for (rank, _), link in found.items():
            link.watch(lambda reason, rank=rank: self._lost(rank, reason))  # type: ignore[misc]

    def _share_memory(self, store: Store, others: Sequence[int]) -> None:
        own = {rank: self._executor.offer_memory(rank) for rank in others}
        store.set(f"{self._key(self.rank)}/memory", json.dumps(own))
        offers = self._ask(store, "/memory", others)
        opened = [rank for rank in others if self._executor.open_memory(rank, offers[rank][str(self.rank)])]
        store.set(f"{self._key(self.rank)}/opened", json.dumps(opened))
        answers = self._ask(store, "/opened", others)
        self.neighbours = tuple(rank for rank in opened if self.rank in answers[rank])
        for rank in others:
            self._executor.use_memory(rank, rank in self.neighbours)

    def _lost(self, rank: int, reason: str) -> None:
        if self._closed:
            return
        if reason != GOODBYE:
            self._missing.setdefault(rank, reason)
        self._executor.fail_peer(rank, f"rank {rank} is gone: {reason}", left=reason == GOODBYE)

    def _key(self, rank: int) -> str:
        return f"openmrc/{self._name}/{rank}"

    def _ask(self, store: Store, what: str, ranks: Iterable[int] | None = None) -> dict[int, Any]:
        """What other ranks, by default all, have put into the store."""
        asked = range(self.size) if ranks is None else ranks
        keys = {rank: f"{self._key(rank)}{what}" for rank in asked if rank != self.rank}
        values: dict[int, Any] = {}
        for rank, key in keys.items():
            try:
                values[rank] = json.loads(store.get(key))
            except (TimeoutError, RuntimeError) as error:  # torch's stores raise the latter
                late = [str(one) for one, key in keys.items() if one not in values and not store.check([key])]
                who = f"ranks {', '.join(late)}" if len(late) > 1 else f"rank {''.join(late) or rank}"
                msg = f"{who} of {self._name!r} did not come: {error}"
                raise TimeoutError(msg) from error
        return values
