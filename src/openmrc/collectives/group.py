"""A group of ranks and the collectives among them."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from openmrc._native import collectives as native
from openmrc.collectives import planner as schedules
from openmrc.collectives.buffers import Scratch, View, view_of
from openmrc.collectives.elements import ElementType, ReduceOp, check_reducible
from openmrc.collectives.planner import Request, choose
from openmrc.collectives.sites import sites_of_group
from openmrc.collectives.work import Receive, Work, failure_of, lateness_of
from openmrc.errors import ConfigError

if TYPE_CHECKING:
    from openmrc.collectives.world import World

__all__ = ["Group"]

_PLANS_KEPT = 256
_SEQUENCE_MASK = (1 << native.SEQUENCE_BITS) - 1


# Kind, sizes of the buffers in bytes, type, operation, root, algorithm, parts, factor.
_Wanted = tuple[str, tuple[int, ...], ElementType, ReduceOp, int, str, tuple[tuple[int, ...], ...], float]


class _Planned(NamedTuple):
    """Plan of a call of a collective. `scratch_bytes`: None if it needs no scratch memory."""

    plan: native.Plan
    algorithm: str
    scratch_bytes: int | None


class Group:
    """Ranks that run collectives together, numbered from 0 in the order of `members`.

    All ranks must call the same ones in the same order; several groups may be active at once. Buffers are NumPy arrays,
    torch CPU tensors, or anything with a writable contiguous buffer. Every operation returns a `Work` at once; wait for
    it before accessing its arguments. Operations whose memory overlaps run in the order of the calls if one of them
    writes; a barrier follows the collectives before it.
    """

    def __init__(self, world: World, members: tuple[int, ...], name: str) -> None:
        if len(set(members)) != len(members) or not all(0 <= rank < world.size for rank in members):
            raise ConfigError("members", members, f"different ranks from 0 to {world.size - 1}")
        if world.rank not in members:
            raise ConfigError("members", members, f"own rank, {world.rank}, among them")
        self.world, self.members, self.name = world, members, name
        self.rank, self.size = members.index(world.rank), len(members)
        self.sites = sites_of_group(world.sites, members)
        """Members of each site or host, in the group's numbers; empty: all on one site, or each on its own."""
        one_host = any(set(members) <= set(host) for host in world.hosts)
        # Common to all its requests.
        self._where = Request(
            "",
            self.rank,
            self.size,
            (),
            sites=self.sites,
            one_host=one_host,
            crowded=world.crowded,
            path_bytes=world.path_bytes,
        )
        base = _key_base((name, members))
        self._calls = native.Calls(world.executor, name, base, View, failure_of, lateness_of)
        self._lock = threading.Lock()
        self._plans: OrderedDict[_Wanted, _Planned] = OrderedDict()
        self._scratch = Scratch()
        self._unsettled: list[Work] = []
        self._sent: dict[int, tuple[int, int]] = {}  # by receiver: base of the keys, and number of messages
        self._inbox: native.Inbox | None = None

    def algorithm_for(self, kind: str, nbytes: int) -> str:
        """The algorithm that "auto" selects for a collective.

        Args:
            kind: Such as "all_reduce".
            nbytes: Size of its `buffer`, in bytes.
        """
        return choose(replace(self._where, kind=kind, buffer_bytes=(nbytes,)))

    # --- collectives

    def all_reduce(
        self,
        buffer: Any,
        op: ReduceOp = ReduceOp.SUM,
        *,
        factor: float = 1.0,
        algorithm: str = "auto",
        traffic_class: str = "bulk",
    ) -> Work:
        """Combines the elements of all ranks in every rank's `buffer`.

        Args:
            buffer: In place; the same size and type at all ranks.
            op: Operation on elements, applied in an order that depends on ranks alone.
            factor: For PREMUL_SUM: factor of this rank's elements.
            algorithm: "ring", "direct", "doubling", "halving", "hierarchical", "tree", or "auto": by size, sites, and
                processors.
            traffic_class: "bulk", or "critical": its messages do not queue behind bulk traffic. Affects times only.

        Raises:
            ConfigError: an invalid buffer, type, operation, algorithm or class.
        """
        if factor == 1.0:
            again = self._calls.start(buffer, op, algorithm, traffic_class)
            if again is not None:
                return again  # type: ignore[return-value]  # Work in all but its class
        view = view_of(buffer)
        check_reducible(view.element, op, factor)
        work = self._start(
            "all_reduce", [view], view.element, op, factor=factor, algorithm=algorithm, traffic_class=traffic_class
        )
        if factor == 1.0:
            wanted = ("all_reduce", (view.bytes,), view.element, op, 0, algorithm, (), factor)
            self._remember(wanted, buffer, op, algorithm, traffic_class)
        return work

    def reduce_scatter(
        self,
        output: Any,
        buffer: Any,
        op: ReduceOp = ReduceOp.SUM,
        *,
        factor: float = 1.0,
        algorithm: str = "auto",
        traffic_class: str = "bulk",
    ) -> Work:
        """Combines block r of all ranks' `buffer` in `output` of rank r; `buffer` is `size` times as long."""
        result, view = view_of(output, "output"), view_of(buffer)
        check_reducible(view.element, op, factor)
        _same_type(view, result)
        _exactly("buffer", view.bytes, result.bytes * self.size)
        return self._start(
            "reduce_scatter",
            [view, result],
            view.element,
            op,
            factor=factor,
            algorithm=algorithm,
            traffic_class=traffic_class,
        )

    def all_gather(self, output: Any, buffer: Any, *, algorithm: str = "auto", traffic_class: str = "bulk") -> Work:
        """Gathers all ranks' `buffer` side by side in every `output`, by rank. `buffer` may be its own part of it."""
        result, view = view_of(output, "output"), view_of(buffer)
        _same_type(view, result)
        _exactly("output", result.bytes, view.bytes * self.size)
        return self._start("all_gather", [view, result], algorithm=algorithm, traffic_class=traffic_class)

    def broadcast(self, buffer: Any, root: int = 0, *, algorithm: str = "auto", traffic_class: str = "bulk") -> Work:
        """Copies the root's buffer to every rank's."""
        return self._start("broadcast", [view_of(buffer)], root=root, algorithm=algorithm, traffic_class=traffic_class)

    def reduce(
        self,
        buffer: Any,
        root: int = 0,
        op: ReduceOp = ReduceOp.SUM,
        *,
        factor: float = 1.0,
        algorithm: str = "auto",
        traffic_class: str = "bulk",
    ) -> Work:
        """Combines all ranks' elements in the root's `buffer`; the others' contents are undefined afterwards."""
        view = view_of(buffer)
        check_reducible(view.element, op, factor)
        return self._start(
            "reduce",
            [view],
            view.element,
            op,
            root=root,
            factor=factor,
            algorithm=algorithm,
            traffic_class=traffic_class,
        )

    def gather(self, output: Any, buffer: Any, root: int = 0, *, traffic_class: str = "bulk") -> Work:
        """Gathers all ranks' `buffer` side by side in the root's `output`, by rank; `output` is None at other ranks."""
        view = view_of(buffer)
        result = self._at_root(output, view, root, "output")
        return self._start("gather", [view, result], root=root, traffic_class=traffic_class)

    def scatter(self, output: Any, buffer: Any, root: int = 0, *, traffic_class: str = "bulk") -> Work:
        """Copies part r of the root's `buffer` into `output` of rank r; `buffer` is None at other ranks."""
        result = view_of(output, "output")
        view = self._at_root(buffer, result, root, "buffer")
        return self._start("scatter", [view, result], root=root, traffic_class=traffic_class)

    def all_to_all(
        self,
        output: Any,
        buffer: Any,
        output_counts: Sequence[int] | None = None,
        counts: Sequence[int] | None = None,
        *,
        traffic_class: str = "bulk",
    ) -> Work:
        """Sends part p of `buffer` to rank p, and receives that rank's part for us into part p of `output`.

        Args:
            output: Receives the parts of all ranks, by rank.
            buffer: The parts for all ranks, by rank.
            output_counts: Elements from each rank; None: the same from all.
            counts: Elements for each rank; None: the same for all.
            traffic_class: As for `all_reduce`.
        """
        result, view = view_of(output, "output"), view_of(buffer)
        _same_type(view, result)
        parts = tuple(
            self._parts(given, whole, name)
            for given, whole, name in ((counts, view, "counts"), (output_counts, result, "output_counts"))
        )
        return self._start("all_to_all", [view, result], view.element, parts=parts, traffic_class=traffic_class)

    def send(self, buffer: Any, to: int, *, traffic_class: str = "bulk") -> Work:
        """Sends the buffer to one rank, which must `recv` it. Not counted among the group's operations."""
        view, lane = view_of(buffer), self._lane(traffic_class)
        self._check_peer("to", to)
        with self._lock:
            planned = self._plan(_between("send", view, to))
            base, count = self._sent.get(to) or (self._key_of(self.rank, to), 0)
            self._sent[to] = base, count + 1
        return self._submit("send", planned, base | count & _SEQUENCE_MASK, [view], lane)

    def recv(self, buffer: Any, source: int | None = None, *, traffic_class: str = "bulk") -> Work:
        """Receives a rank's next message into the buffer, which has the same size.

        Receives take messages in the order of their calls: while one from any source waits, the next message is for
        that one, and those behind it wait, too.

        Args:
            buffer: Must have the message's size.
            source: The rank; None: any other, by turns if several have sent. `Work.source` is then the sender.
            traffic_class: As for `all_reduce`.
        """
        view, lane = view_of(buffer), self._lane(traffic_class)
        if source is not None:
            self._check_peer("source", source)
        elif self.size == 1:
            raise ConfigError("source", None, "another rank, and this group has none")
        # With any source, a plan for one of them, which is later used for the actual one.
        root = (self.rank + 1) % self.size if source is None else source
        number = native.ANY_SOURCE if source is None else self.members[source]
        with self._lock:
            planned = self._plan(_between("recv", view, root))
            inbox = self._receives()
        executor = self.world.executor
        operation = executor.receive(inbox, number, planned.plan, lane, [(view.address, view.bytes)])
        work = Receive(executor, operation, self.name, view, self._scratch, self.members)
        self._keep(work)
        return work

    def barrier(self, *, traffic_class: str = "critical") -> Work:
        """Done when all ranks have called it, and their earlier collectives have ended everywhere.

        Messages between two ranks do not count: a receive may be called after the barrier that follows its send.
        """
        again = self._calls.start(None, None, None, traffic_class)
        if again is not None:
            return again  # type: ignore[return-value]
        work = self._start("barrier", [], traffic_class=traffic_class)
        wanted = ("barrier", (), ElementType.UINT8, ReduceOp.SUM, 0, "auto", (), 1.0)
        self._remember(wanted, None, None, None, traffic_class)
        return work

    # --- inside

    def _start(
        self,
        kind: str,
        views: list[View],
        element: ElementType = ElementType.UINT8,
        op: ReduceOp = ReduceOp.SUM,
        *,
        root: int = 0,
        factor: float = 1.0,
        algorithm: str = "auto",
        parts: tuple[tuple[int, ...], ...] = (),
        traffic_class: str,
    ) -> Work:
        if not 0 <= root < self.size:
            raise ConfigError("root", root, f"0 to {self.size - 1}")
        sizes = tuple([view.bytes for view in views])
        wanted = (kind, sizes, element, op, root, algorithm, parts, factor)
        lane = self._lane(traffic_class)
        with self._lock:
            planned = self._plan(wanted)  # an error must not count, or this rank would be one ahead of the others
            key = self._calls.next_key()
        return self._submit(kind, planned, key, views, lane)

    def _lane(self, traffic_class: str) -> int:
        self.world.check_open()
        return self.world.lane(traffic_class)

    def _plan(self, wanted: _Wanted) -> _Planned:
        planned = self._plans.get(wanted)
        if planned is not None:
            self._plans.move_to_end(wanted)
            return planned
        kind, sizes, element, op, root, algorithm, parts, factor = wanted
        request = replace(
            self._where,
            kind=kind,
            buffer_bytes=sizes,
            element=element,
            op=op,
            root=root,
            algorithm=algorithm,
            parts=parts,
            factor=float(factor),
        )
        plan = schedules.plan_of(request, self.members, self.world.size)
        needed = plan.buffer_bytes
        planned = _Planned(plan, choose(request), needed[-1] if len(needed) > len(sizes) else None)
        self._plans[wanted] = planned
        if len(self._plans) > _PLANS_KEPT:
            self._plans.popitem(last=False)
        return planned

    def _submit(self, kind: str, planned: _Planned, key: int, views: list[View], lane: int) -> Work:
        memory = [(view.address, view.bytes) for view in views]
        scratch = None
        if planned.scratch_bytes is not None:
            scratch = self._scratch.take(planned.scratch_bytes)
            memory.append((native.address_of(scratch), scratch.nbytes))
        executor = self.world.executor
        number = executor.submit(planned.plan, key, lane, memory)
        work = Work(executor, number, kind, self.name, [(views, scratch)], self._scratch, planned.algorithm)
        self._keep(work)
        return work

    def _remember(self, wanted: _Wanted, buffer: Any, op: Any, algorithm: Any, traffic_class: str) -> None:
        """Registers the call, so that repetitions with the same arguments take the fast path."""
        with self._lock:
            planned = self._plan(wanted)
            lane, scratch_bytes = self.world.lane(traffic_class), planned.scratch_bytes or 0
            self._calls.remember(
                buffer, op, algorithm, traffic_class, wanted[0], planned.algorithm, planned.plan, lane, scratch_bytes
            )

    def _keep(self, work: Work) -> None:
        """Keeps running operations and their memory alive, even if the caller drops the Work."""
        with self._lock:
            self._unsettled = [one for one in self._unsettled if not one.settled]
            self._unsettled.append(work)

    def _check_peer(self, name: str, peer: int) -> None:
        if not 0 <= peer < self.size or peer == self.rank:
            raise ConfigError(name, peer, f"another rank from 0 to {self.size - 1}")

    def _receives(self) -> native.Inbox:
        if self._inbox is None:
            others = [peer for peer in range(self.size) if peer != self.rank]
            self._inbox = native.Inbox([(self.members[peer], self._key_of(peer, self.rank)) for peer in others])
        return self._inbox

    def _key_of(self, sender: int, receiver: int) -> int:
        return _key_base((self.name, self.members, (sender, receiver)))

    def _at_root(self, whole: Any, part: View, root: int, name: str) -> View:
        if self.rank != root:
            if whole is not None:
                raise ConfigError(name, "given", f"None, except at the root, rank {root}")
            return View(0, 0, part.element, None)
        view = view_of(whole, name)
        _same_type(view, part)
        _exactly(name, view.bytes, part.bytes * self.size)
        return view

    def _parts(self, counts: Sequence[int] | None, whole: View, name: str) -> tuple[int, ...]:
        size = whole.element.bytes
        if counts is None:
            if whole.bytes % (size * self.size):
                raise ConfigError(name, "equal parts", f"{whole.bytes // size} elements do not divide by {self.size}")
            return (whole.bytes // self.size,) * self.size
        if len(counts) != self.size or any(one < 0 for one in counts) or sum(counts) * size > whole.bytes:
            raise ConfigError(name, tuple(counts), f"{self.size} numbers that fit {whole.bytes // size} elements")
        return tuple(one * size for one in counts)


def _between(kind: str, view: View, peer: int) -> _Wanted:
    return kind, (view.bytes,), ElementType.UINT8, ReduceOp.SUM, peer, "auto", (), 1.0


def _key_base(what: tuple[Any, ...]) -> int:
    """Base of the keys of operations with this name at all ranks; their sequence number is in the low bits."""
    digest = hashlib.blake2b(repr(what).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") & ~_SEQUENCE_MASK


def _same_type(one: View, other: View) -> None:
    if one.element is not other.element:
        raise ConfigError("dtype", one.element.name.lower(), f"{other.element.name.lower()}, as the other buffer")


def _exactly(name: str, found_bytes: int, wanted_bytes: int) -> None:
    if found_bytes != wanted_bytes:
        raise ConfigError(name, f"{found_bytes} bytes", f"{wanted_bytes} bytes")
