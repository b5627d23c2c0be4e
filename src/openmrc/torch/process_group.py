"""The process group: torch's calls as collectives of openmrc."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from openmrc.collectives import Group, Work
from openmrc.errors import ConfigError, InvalidStateError
from openmrc.torch.entry import BACKEND
from openmrc.torch.job import Job
from openmrc.torch.monitored_barrier import monitored_barrier
from openmrc.torch.options import Options
from openmrc.torch.reductions import reduction
from openmrc.torch.tensors import Tensor, as_bytes, beside, checked, dense, one, restore, spread
from openmrc.torch.work import MrcWork

__all__ = ["MrcProcessGroup"]

Lists = Sequence[Sequence[Tensor]]
After = Callable[[], None]


class MrcProcessGroup(dist.ProcessGroup):
    """Made by `torch.distributed.init_process_group("mrc")` and `new_group`, and called by torch.

    Every operation returns a `MrcWork` at once. Tensors that are not contiguous are copied on the way.

    Args:
        job: The connected ranks.
        group: Those that belong to it.
        store: torch's, of this group alone.
        timeout: Of operations that name none.
        options: As given to torch; None: the defaults.
        owns_job: The job ends with this group.
    """

    def __init__(
        self, job: Job, group: Group, store: Any, timeout: timedelta, options: Options | None, *, owns_job: bool
    ) -> None:
        super().__init__(group.rank, group.size)
        self._job, self._group, self._store, self._owns_job = job, group, store, owns_job
        self._timeout_s = timeout.total_seconds()
        self._class = (options or Options()).traffic_class
        self._tags: dict[int, Group] = {}
        self._coalesced: list[MrcWork] | None = None
        self._name, self._description = "", ""
        self._barriers = 0

    # --- what it is

    def getBackendName(self) -> str:  # noqa: N802  # torch's name
        """As `init_process_group` takes it."""
        return BACKEND

    def getGroupName(self) -> str:  # noqa: N802
        """By which functional collectives find it."""
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """Called by torch, once."""
        self._name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        """As given to torch."""
        return self._description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        """Called by torch, once."""
        self._description = description

    @property
    def _device_types(self) -> list[Any]:
        return [torch.device("cpu")]

    def get_group_store(self) -> Any:
        """Torch's store, of this group alone."""
        return self._store

    def set_timeout(self, timeout: timedelta) -> None:
        """For operations from now on that name none."""
        self._timeout_s = timeout.total_seconds()

    def shutdown(self) -> None:
        """Ends the group, and with the group that connected the ranks the connections."""
        if self._owns_job:
            self._job.close()

    def abort(self) -> None:
        """As `shutdown`, but the other ranks are told that this one has failed."""
        self._job.failed = True
        self.shutdown()

    # --- reductions

    def allreduce(self, tensors: Sequence[Tensor], opts: Any = None) -> MrcWork:
        """Every rank's tensor becomes the elements of all, combined."""
        return self.allreduce_coalesced([one(tensors)], opts, name="all_reduce")

    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any = None, *, name: str = "") -> MrcWork:
        """As `allreduce`, of several tensors, each by itself."""
        opts = opts or dist.AllreduceOptions()
        how, parts = reduction(opts.reduceOp), []
        after: list[After] = []
        for tensor in tensors:
            buffer = dense(tensor)
            parts.append(self._group.all_reduce(buffer, **how, traffic_class=self._class))
            after += _actions(restore(tensor, buffer))
        return self._work(name or "all_reduce_coalesced", parts, after, list(tensors), opts)

    def reduce(self, tensors: Sequence[Tensor], opts: Any) -> MrcWork:
        """All ranks' elements, combined, in the root's tensor; those of the others stay as they are."""
        tensor = one(tensors)
        how, buffer = reduction(opts.reduceOp), dense(tensor)
        after: list[After] = []
        if self.rank() != opts.rootRank:
            buffer = buffer.clone()
        else:
            after += _actions(restore(tensor, buffer))
        parts = [self._group.reduce(buffer, opts.rootRank, **how, traffic_class=self._class)]
        return self._work("reduce", parts, after, [tensor], opts)

    def reduce_scatter(self, outputs: Sequence[Tensor], inputs: Lists, opts: Any = None) -> MrcWork:
        """Tensor r of all ranks' lists, combined, in the output of rank r. The tensors may be of different sizes."""
        opts = opts or dist.ReduceScatterOptions()
        output, pieces = one(outputs, "outputs"), list(one(inputs, "inputs"))
        self._check_count(pieces, "inputs")
        _check_same(pieces[self.rank()], output, "output")
        if len({piece.numel() for piece in pieces}) == 1:
            whole = beside(pieces).view(output.dtype)
            return self._reduce_scatter("reduce_scatter", [(output, whole)], [output], opts)
        how, parts = reduction(opts.reduceOp), []
        after: list[After] = []
        for rank, piece in enumerate(pieces):
            buffer = dense(piece).clone()
            parts.append(self._group.reduce(buffer, rank, **how, traffic_class=self._class))
            if rank == self.rank():
                after += _actions(restore(output, buffer))
        return self._work("reduce_scatter", parts, after, [output], opts)

    def reduce_scatter_single(self, output: Tensor, buffer: Tensor, opts: Any = None) -> MrcWork:
        """Part r of all ranks' tensors, combined, in the output of rank r."""
        opts = opts or dist.ReduceScatterOptions()
        return self._reduce_scatter("reduce_scatter_tensor", [(output, buffer)], [output], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None
    ) -> MrcWork:
        """As `reduce_scatter_single`, of several tensors, each by itself."""
        opts = opts or dist.ReduceScatterOptions()
        pairs = list(zip(outputs, inputs, strict=True))
        return self._reduce_scatter("reduce_scatter_tensor_coalesced", pairs, list(outputs), opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # --- moving data: bytes, whatever the elements are

    def broadcast(self, tensors: Sequence[Tensor], opts: Any = None) -> MrcWork:
        """The root's tensor in everybody's."""
        opts = opts or dist.BroadcastOptions()
        tensor = one(tensors)
        buffer = dense(tensor)
        parts = [self._group.broadcast(as_bytes(buffer), opts.rootRank, traffic_class=self._class)]
        after = _actions(restore(tensor, buffer))
        return self._work("broadcast", parts, after, [tensor], opts)

    def allgather(self, outputs: Lists, inputs: Sequence[Tensor], opts: Any = None) -> MrcWork:
        """All ranks' tensors in everybody's list. They may be of different sizes."""
        pieces, tensor = list(one(outputs, "outputs")), one(inputs, "inputs")
        return self._all_gather_lists("all_gather", [(pieces, tensor)], opts)

    def allgather_coalesced(self, outputs: Lists, inputs: Sequence[Tensor], opts: Any = None) -> MrcWork:
        """As `allgather`, of several tensors: list r has those of rank r."""
        pairs = [([pieces[index] for pieces in outputs], tensor) for index, tensor in enumerate(inputs)]
        return self._all_gather_lists("all_gather_coalesced", pairs, opts)

    def all_gather_single(self, output: Tensor, buffer: Tensor, opts: Any = None) -> MrcWork:
        """All ranks' tensors side by side, by rank."""
        return self._all_gather("all_gather_into_tensor", [output], [buffer], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None
    ) -> MrcWork:
        """As `all_gather_single`, of several tensors, each by itself."""
        return self._all_gather("all_gather_into_tensor_coalesced", outputs, inputs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outputs: Lists, inputs: Sequence[Tensor], opts: Any) -> MrcWork:
        """All ranks' tensors in the root's list."""
        tensor, whole = one(inputs, "inputs"), None
        value: list[Tensor] = []
        after: list[After] = []
        if self.rank() == opts.rootRank:
            value = list(one(outputs, "outputs"))
            self._check_alike(value, tensor, "outputs")
            result = torch.empty(sum(_bytes_of(piece) for piece in value), dtype=torch.uint8)
            whole = result
            after.append(lambda: spread(result, value))
        parts = [
            self._group.gather(whole, as_bytes(dense(tensor)), opts.rootRank, traffic_class=self._class),
        ]
        return self._work("gather", parts, after, value, opts)

    def scatter(self, outputs: Sequence[Tensor], inputs: Lists, opts: Any) -> MrcWork:
        """Tensor r of the root's list in rank r's."""
        tensor, whole = one(outputs, "outputs"), None
        if self.rank() == opts.rootRank:
            pieces = list(one(inputs, "inputs"))
            self._check_alike(pieces, tensor, "inputs")
            whole = beside(pieces)
        buffer = dense(tensor)
        parts = [self._group.scatter(as_bytes(buffer), whole, opts.rootRank, traffic_class=self._class)]
        after = _actions(restore(tensor, buffer))
        return self._work("scatter", parts, after, [tensor], opts)

    def alltoall(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None) -> MrcWork:
        """Tensor p goes to rank p; what it sends comes into output p."""
        self._check_count(outputs, "outputs")
        self._check_count(inputs, "inputs")
        counts, wanted = [_bytes_of(piece) for piece in inputs], [_bytes_of(piece) for piece in outputs]
        whole, result = beside(inputs), torch.empty(sum(wanted), dtype=torch.uint8)
        parts = [self._group.all_to_all(result, whole, wanted, counts, traffic_class=self._class)]
        return self._work("all_to_all", parts, [lambda: spread(result, outputs)], list(outputs), opts)

    def all_to_all_single(
        self,
        output: Tensor,
        buffer: Tensor,
        output_splits: Sequence[int] | None,
        splits: Sequence[int] | None,
        opts: Any = None,
    ) -> MrcWork:
        """Rows for each rank, from each rank; no splits: the same number for all."""
        result, whole = dense(output), dense(buffer)
        wanted, counts = self._rows(output_splits, result, "output"), self._rows(splits, whole, "input")
        parts = [
            self._group.all_to_all(as_bytes(result), as_bytes(whole), wanted, counts, traffic_class=self._class),
        ]
        after = _actions(restore(output, result))
        return self._work("all_to_all_single", parts, after, [output], opts)

    alltoall_base = all_to_all_single

    def send(self, tensors: Sequence[Tensor], to: int, tag: int = 0) -> MrcWork:
        """To one rank, which must `recv` with the same tag."""
        tensor = one(tensors)
        part = self._tagged(tag).send(as_bytes(dense(tensor)), to, traffic_class=self._class)
        return self._work("send", [part], [], [tensor], None)

    def recv(self, tensors: Sequence[Tensor], source: int, tag: int = 0) -> MrcWork:
        """What that rank sends next with this tag."""
        return self._recv(tensors, source, tag)

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int = 0) -> MrcWork:
        """What any rank sends next with this tag; `source_rank` of the work says which."""
        return self._recv(tensors, None, tag)

    # --- waiting for each other

    def barrier(self, opts: Any = None) -> MrcWork:
        """Done when all ranks have called it. Of traffic class "critical"."""
        return self._work("barrier", [self._group.barrier()], [], [], opts)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Returns when all ranks have called it; rank 0 finds out who has not, and all raise an error that says so.

        Raises:
            ProcessGroupError: ranks did not come in time; `.rank` is the first of them.
        """
        self._barriers += 1
        limit_s = self._timeout_s if timeout is None else timeout.total_seconds()
        key = f"openmrc/{self._job.life}/barrier/{self._barriers}"
        monitored_barrier(self._store, key, self._ranks(), self.rank(), limit_s, wait_all=wait_all_ranks)

    # --- groups and batches

    def split_group(
        self,
        ranks: Sequence[int],
        timeout: timedelta | None = None,
        opts: Options | None = None,
        group_name: str | None = None,  # noqa: ARG002  # torch numbers groups itself
        group_desc: str | None = None,
        device_types: Sequence[Any] | None = None,  # noqa: ARG002  # there is one
    ) -> Any:
        """A group of some ranks, in this group's numbers, which these and no others call at the same time."""
        names = self._ranks()
        return dist.new_group(
            [names[rank] for rank in ranks],
            timeout=timeout or timedelta(seconds=self._timeout_s),
            backend=BACKEND,
            pg_options=opts,
            use_local_synchronization=True,
            group_desc=group_desc,
        )

    def _start_coalescing(self, _device: Any) -> None:
        self._coalesced = []

    def _end_coalescing(self, _device: Any) -> MrcWork:
        works, self._coalesced = self._coalesced or [], None
        return MrcWork.of_all(self._job, self._group, works, self._timeout_s)

    # --- inside

    def _work(
        self,
        name: str,
        parts: Sequence[Work],
        after: Sequence[After],
        value: list[Tensor],
        opts: Any,
    ) -> MrcWork:
        limit = opts.timeout if opts is not None else timedelta(0)
        timeout_s = limit.total_seconds() if limit > timedelta(0) else self._timeout_s
        work = MrcWork(self._job, self._group, name, parts, after, value, timeout_s)
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _recv(self, tensors: Sequence[Tensor], source: int | None, tag: int) -> MrcWork:
        tensor = one(tensors)
        buffer = dense(tensor)
        part = self._tagged(tag).recv(as_bytes(buffer), source, traffic_class=self._class)
        return self._work("recv", [part], _actions(restore(tensor, buffer)), [tensor], None)

    def _reduce_scatter(
        self, name: str, pairs: Sequence[tuple[Tensor, Tensor]], value: list[Tensor], opts: Any
    ) -> MrcWork:
        how, parts = reduction(opts.reduceOp), []
        after: list[After] = []
        for output, buffer in pairs:
            result = dense(output)
            parts.append(self._group.reduce_scatter(result, dense(buffer), **how, traffic_class=self._class))
            after += _actions(restore(output, result))
        return self._work(name, parts, after, value, opts)

    def _all_gather(self, name: str, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any) -> MrcWork:
        parts: list[Work] = []
        after: list[After] = []
        for output, buffer in zip(outputs, inputs, strict=True):
            if output.dtype != buffer.dtype:
                raise ConfigError("dtype", str(buffer.dtype), f"{output.dtype}, as the output")
            result = dense(output)
            parts.append(self._group.all_gather(as_bytes(result), as_bytes(dense(buffer)), traffic_class=self._class))
            after += _actions(restore(output, result))
        return self._work(name, parts, after, list(outputs), opts)

    def _all_gather_lists(self, name: str, pairs: Sequence[tuple[list[Tensor], Tensor]], opts: Any) -> MrcWork:
        parts: list[Work] = []
        after: list[After] = []
        value: list[Tensor] = []
        for pieces, tensor in pairs:
            self._check_count(pieces, "outputs")
            _check_same(pieces[self.rank()], tensor, "input")
            value += pieces
            sizes = [_bytes_of(piece) for piece in pieces]
            result = torch.empty(sum(sizes), dtype=torch.uint8)
            after.append(lambda result=result, pieces=pieces: spread(result, pieces))  # type: ignore[misc]
            own = as_bytes(dense(tensor))
            if len(set(sizes)) == 1:
                parts.append(self._group.all_gather(result, own, traffic_class=self._class))
                continue
            for rank, place in enumerate(result.split(sizes)):
                if rank == self.rank():
                    place.copy_(own)
                parts.append(self._group.broadcast(place, rank, traffic_class=self._class))
        return self._work(name, parts, after, value, opts)

    def _rows(self, splits: Sequence[int] | None, tensor: Tensor, name: str) -> list[int]:
        rows = tensor.size(0) if tensor.dim() else 1
        row_bytes = tensor.element_size() * math.prod(tensor.shape[1:])
        if not splits:
            if rows % self.size():
                raise ConfigError(name, f"{rows} rows", f"a multiple of {self.size()}, without split sizes")
            splits = [rows // self.size()] * self.size()
        if len(splits) != self.size() or sum(splits) != rows:
            raise ConfigError(f"{name}_split_sizes", list(splits), f"{self.size()} numbers with the sum {rows}")
        return [count * row_bytes for count in splits]

    def _tagged(self, tag: int) -> Group:
        """Messages of different tags do not meet: they are those of different groups."""
        if tag == 0:
            return self._group
        if tag not in self._tags:
            self._tags[tag] = self._job.world.new_group(self._group.members, f"{self._group.name}/tag{tag}")
        return self._tags[tag]

    def _ranks(self) -> list[int]:
        return [self._job.ranks[member] for member in self._group.members]

    def _check_count(self, tensors: Sequence[Tensor], name: str) -> None:
        if self._job.closed:
            raise InvalidStateError("the process group has ended")
        if len(tensors) != self.size():
            raise ConfigError(name, f"{len(tensors)} tensors", f"{self.size()}, one for each rank")

    def _check_alike(self, tensors: Sequence[Tensor], tensor: Tensor, name: str) -> None:
        self._check_count(tensors, name)
        for other in tensors:
            _check_same(other, tensor, name)


def _check_same(tensor: Tensor, other: Tensor, name: str) -> None:
    checked(tensor, name)
    if tensor.dtype != other.dtype or tensor.numel() != other.numel():
        raise ConfigError(
            name, f"{other.numel()} x {other.dtype}", f"{tensor.numel()} x {tensor.dtype}, as its counterpart"
        )


def _bytes_of(tensor: Tensor) -> int:
    return int(checked(tensor).numel() * tensor.element_size())


def _actions(action: After | None) -> list[After]:
    return [] if action is None else [action]
