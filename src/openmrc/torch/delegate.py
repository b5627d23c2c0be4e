"""The delegate of the native backend: torch's calls as collectives of openmrc."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch

from openmrc.collectives import Group, Work
from openmrc.errors import ConfigError, ForkedError, InvalidStateError
from openmrc.torch import native
from openmrc.torch.failures import ProcessGroupError, RefusedError
from openmrc.torch.job import Job
from openmrc.torch.monitored_barrier import monitored_barrier
from openmrc.torch.operation import Operation, Part, Step
from openmrc.torch.options import Options
from openmrc.torch.ordering import share_memory
from openmrc.torch.reductions import reduction
from openmrc.torch.sparse import SparseSum
from openmrc.torch.tensors import Tensor, dense, elements, joined_bytes, one, raw, restore, split_bytes

__all__ = ["Delegate"]

Lists = Sequence[Sequence[Tensor]]
_P = ParamSpec("_P")
_T = TypeVar("_T")


def _entry(method: Callable[Concatenate[Delegate, _P], _T]) -> Callable[Concatenate[Delegate, _P], _T]:
    """A method that the native backend calls: its exceptions are of torch's types, and name operation and group."""

    @wraps(method)
    def call(self: Delegate, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return self._in_order(method, *args, **kwargs)
        except ConfigError as error:
            field = f"{method.__name__} of {self.name}: {error.field}"
            raise RefusedError(field, error.value, error.allowed, hint=error.hint) from None
        except ForkedError as error:
            msg = f"{method.__name__} of {self.name}: {error}"
            raise ProcessGroupError(msg) from None
        except InvalidStateError:
            msg = f"{method.__name__} of {self.name}: the process group has ended; make a new one first"
            raise ProcessGroupError(msg) from None

    return call


class Delegate:
    """Starts the operations of one process group; called by the native backend, which torch's dispatcher calls.

    Operations are numbered as in c10d, times are in seconds, and 0 or less means the group's timeout. Tensors that are
    not contiguous are copied.

    Args:
        job: Connected ranks.
        group: Members.
        store: Torch's, of this group alone.
        timeout_s: Default limit of operations.
        options: As given to torch.
        owns_job: The job ends with this group.
    """

    def __init__(
        self, job: Job, group: Group, store: Any, timeout_s: float, options: Options, *, owns_job: bool
    ) -> None:
        self._job, self._group, self._store, self._owns_job = job, group, store, owns_job
        self.rank, self.size = self._rank, self._size = group.rank, group.size
        self._timeout_s = timeout_s
        self._options, self._class = options, options.traffic_class
        self._tags: dict[int, Group] = {}
        self._coalesced: list[Operation] | None = None
        self._barriers = self._sparse = 0
        self._sums: list[Operation] = []  # of sparse tensors, whose second half belongs to no group's operations

    @property
    def name(self) -> str:
        """Name of the group, for messages."""
        return self._group.name

    def set_timeout(self, timeout_s: float) -> None:
        """Sets the default limit of later operations."""
        self._timeout_s = timeout_s

    def failed(self) -> bool:
        """True if an operation of the job has failed."""
        return self._job.failed

    def shutdown(self) -> None:
        """Ends the group, and the connections if this group connected the ranks."""
        if self._owns_job:
            self._job.close()

    def abort(self) -> None:
        """As `shutdown`, and the other ranks count this one as failed."""
        self._job.failed = True
        self.shutdown()

    # --- reductions

    @_entry
    def all_reduce(self, tensors: Sequence[Tensor], op: int, factor: float, timeout_s: float) -> Operation:
        """Combines the elements of all ranks in every rank's tensor."""
        tensor = one(tensors)
        if tensor.layout is not torch.strided:
            return self._sparse_sum(tensor, op, timeout_s)
        return self._all_reduce("all_reduce", tensors, op, factor, timeout_s)

    @_entry
    def all_reduce_coalesced(self, tensors: Sequence[Tensor], op: int, factor: float, timeout_s: float) -> Operation:
        """As `all_reduce`, for several tensors, each by itself."""
        return self._all_reduce("all_reduce_coalesced", tensors, op, factor, timeout_s)

    @_entry
    def reduce(self, tensors: Sequence[Tensor], root: int, op: int, factor: float, timeout_s: float) -> Operation:
        """Combines all ranks' elements in the root's tensor; the tensors of the others are unchanged."""
        tensor = one(tensors)
        how, buffer = reduction(op, factor), dense(tensor)
        steps: list[Step] = []
        if self._rank != root:
            buffer = buffer.detach().clone()
        else:
            steps += restore(tensor, buffer)
        parts = [self._group.reduce(elements(buffer), root, **how, traffic_class=self._class)]
        return self._operation("reduce", parts, steps, timeout_s)

    @_entry
    def reduce_scatter(
        self, outputs: Sequence[Tensor], inputs: Lists, op: int, factor: float, timeout_s: float
    ) -> Operation:
        """Combines tensor r of all ranks' lists in the output of rank r. The tensors may differ in size."""
        output, pieces = one(outputs, "outputs"), list(one(inputs, "inputs"))
        self._check_count(pieces, "inputs")
        _check_same(pieces[self._rank], output, "output")
        if len({piece.numel() for piece in pieces}) == 1:
            whole = joined_bytes(pieces).view(output.dtype)
            return self._reduce_scatter("reduce_scatter", [(output, whole)], op, factor, timeout_s)
        how, parts = reduction(op, factor), []
        steps: list[Step] = []
        for rank, piece in enumerate(pieces):
            buffer = dense(piece).detach().clone()
            parts.append(self._group.reduce(elements(buffer), rank, **how, traffic_class=self._class))
            if rank == self._rank:
                steps += restore(output, buffer)
        return self._operation("reduce_scatter", parts, steps, timeout_s)

    @_entry
    def reduce_scatter_tensor(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], op: int, factor: float, timeout_s: float
    ) -> Operation:
        """Combines part r of all ranks' tensors in the output of rank r."""
        return self._reduce_scatter("reduce_scatter_tensor", _pairs(outputs, inputs), op, factor, timeout_s)

    @_entry
    def reduce_scatter_tensor_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], op: int, factor: float, timeout_s: float
    ) -> Operation:
        """As `reduce_scatter_tensor`, for several tensors, each by itself."""
        return self._reduce_scatter("reduce_scatter_tensor_coalesced", _pairs(outputs, inputs), op, factor, timeout_s)

    # --- moving data: bytes, for any elements

    @_entry
    def broadcast(self, tensors: Sequence[Tensor], root: int, timeout_s: float) -> Operation:
        """Copies the root's tensor to every rank's."""
        tensor = one(tensors)
        buffer = dense(tensor)
        parts = [self._group.broadcast(raw(buffer), root, traffic_class=self._class)]
        return self._operation("broadcast", parts, restore(tensor, buffer), timeout_s)

    @_entry
    def all_gather(self, outputs: Lists, inputs: Sequence[Tensor], timeout_s: float) -> Operation:
        """Gathers all ranks' tensors in every rank's list. They may differ in size."""
        pieces, tensor = list(one(outputs, "outputs")), one(inputs, "inputs")
        return self._all_gather_lists("all_gather", [(pieces, tensor)], timeout_s)

    @_entry
    def all_gather_coalesced(self, outputs: Lists, inputs: Sequence[Tensor], timeout_s: float) -> Operation:
        """As `all_gather`, for several tensors: list r has those of rank r."""
        self._check_count(outputs, "outputs")
        for pieces in outputs:
            if len(pieces) != len(inputs):
                raise ConfigError("outputs", f"a list of {len(pieces)} tensors", f"{len(inputs)}, as the inputs")
        pairs = [([pieces[index] for pieces in outputs], tensor) for index, tensor in enumerate(inputs)]
        return self._all_gather_lists("all_gather_coalesced", pairs, timeout_s)

    @_entry
    def all_gather_into_tensor(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], timeout_s: float
    ) -> Operation:
        """Gathers all ranks' tensors side by side, by rank."""
        return self._all_gather("all_gather_into_tensor", outputs, inputs, timeout_s)

    @_entry
    def all_gather_into_tensor_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], timeout_s: float
    ) -> Operation:
        """As `all_gather_into_tensor`, for several tensors, each by itself."""
        return self._all_gather("all_gather_into_tensor_coalesced", outputs, inputs, timeout_s)

    @_entry
    def gather(self, outputs: Lists, inputs: Sequence[Tensor], root: int, timeout_s: float) -> Operation:
        """Gathers all ranks' tensors in the root's list."""
        tensor, whole = one(inputs, "inputs"), None
        steps: list[Step] = []
        if self._rank == root:
            pieces = list(one(outputs, "outputs"))
            self._check_alike(pieces, tensor, "outputs")
            result = whole = torch.empty(sum(_bytes_of(piece) for piece in pieces), dtype=torch.uint8)
            steps.append(lambda: split_bytes(result, pieces))
        elif outputs:
            raise ConfigError("outputs", f"{len(outputs)} lists", f"none, except at the root, rank {root}")
        parts = [
            self._group.gather(
                None if whole is None else raw(whole), raw(dense(tensor)), root, traffic_class=self._class
            )
        ]
        return self._operation("gather", parts, steps, timeout_s)

    @_entry
    def scatter(self, outputs: Sequence[Tensor], inputs: Lists, root: int, timeout_s: float) -> Operation:
        """Copies tensor r of the root's list to rank r's."""
        tensor, whole = one(outputs, "outputs"), None
        if self._rank == root:
            pieces = list(one(inputs, "inputs"))
            self._check_alike(pieces, tensor, "inputs")
            whole = joined_bytes(pieces)
        elif inputs:
            raise ConfigError("inputs", f"{len(inputs)} lists", f"none, except at the root, rank {root}")
        buffer = dense(tensor)
        parts = [
            self._group.scatter(raw(buffer), None if whole is None else raw(whole), root, traffic_class=self._class)
        ]
        return self._operation("scatter", parts, restore(tensor, buffer), timeout_s)

    @_entry
    def all_to_all(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], timeout_s: float) -> Operation:
        """Sends tensor p to rank p, and receives that rank's tensor into output p."""
        self._check_count(outputs, "outputs")
        self._check_count(inputs, "inputs")
        counts, wanted = [_bytes_of(piece) for piece in inputs], [_bytes_of(piece) for piece in outputs]
        whole, result = joined_bytes(inputs), torch.empty(sum(wanted), dtype=torch.uint8)
        parts = [self._group.all_to_all(raw(result), raw(whole), wanted, counts, traffic_class=self._class)]
        return self._operation("all_to_all", parts, [lambda: split_bytes(result, outputs)], timeout_s)

    @_entry
    def all_to_all_single(
        self, output: Tensor, buffer: Tensor, output_splits: Sequence[int], splits: Sequence[int], timeout_s: float
    ) -> Operation:
        """Exchanges rows with each rank; without splits the same number with all."""
        if output.dtype != buffer.dtype:
            raise ConfigError("dtype", str(buffer.dtype), f"{output.dtype}, as the output")
        result, whole = dense(output), dense(buffer)
        wanted, counts = self._rows(output_splits, result, "output"), self._rows(splits, whole, "input")
        parts = [
            self._group.all_to_all(raw(result), raw(whole), wanted, counts, traffic_class=self._class),
        ]
        return self._operation("all_to_all_single", parts, restore(output, result), timeout_s)

    @_entry
    def send(self, tensors: Sequence[Tensor], to: int, tag: int) -> Operation:
        """Sends to one rank, which must `recv` with the same tag."""
        tensor = one(tensors)
        part = self._tagged(tag).send(raw(dense(tensor)), to, traffic_class=self._class)
        return self._operation("send", [part], [], 0)

    @_entry
    def recv(self, tensors: Sequence[Tensor], source: int | None, tag: int) -> Operation:
        """Receives that rank's next message with this tag; source None: any rank's."""
        tensor = one(tensors)
        buffer = dense(tensor)
        part = self._tagged(tag).recv(raw(buffer), source, traffic_class=self._class)
        return self._operation("recv", [part], restore(tensor, buffer), 0)

    # --- waiting for each other

    @_entry
    def barrier(self, timeout_s: float) -> Operation:
        """Done when all ranks have called it, and the results of their earlier calls are in place everywhere."""
        self._job.ordering.finish(self._group)
        parts: list[Part] = [self._group.barrier(), *(one.as_part() for one in self._sums if not one.poll())]
        return self._operation("barrier", parts, [], timeout_s)

    @_entry
    def monitored_barrier(self, timeout_s: float, wait_all: bool) -> None:
        """Returns when all ranks have called it; rank 0 detects the missing ones, and all raise an error that names
        them.

        Raises:
            ProcessGroupError: ranks did not come in time; `.rank` is the first of them.
        """
        self._barriers += 1
        limit_s = timeout_s if timeout_s >= 0 else self._timeout_s  # 0: accept only the ranks already present
        key = f"openmrc/{self._job.life}/barrier/{self._barriers}"
        monitored_barrier(self._store, key, self._ranks(), self._rank, limit_s, wait_all=wait_all)

    # --- groups and batches

    @_entry
    def split(self, store: Any, ranks: Sequence[int], timeout_s: float, name: str) -> Any:
        """A backend for some ranks, in this group's numbers, which these call at the same time; None for others."""
        if self._rank not in ranks:
            return None
        members = [self._group.members[rank] for rank in ranks]
        group = self._job.world.new_group(members, f"group {name}")
        timeout = timeout_s if timeout_s > 0 else self._timeout_s
        names = [self._job.ranks[member] for member in members]
        delegate = Delegate(self._job, group, store, timeout, self._options, owns_job=False)
        return native.backend(delegate, timeout, name, names)

    def start_coalescing(self) -> None:
        """Starts collecting operations."""
        self._coalesced = []

    def end_coalescing(self) -> Operation:
        """One operation for all since `start_coalescing`."""
        operations, self._coalesced = self._coalesced or [], None
        whole = Operation.of_all(self._job, self._group, operations, self._timeout_s)
        self._job.ordering.merge(operations, whole)
        return whole

    # --- inside

    def _in_order(self, method: Callable[Concatenate[Delegate, _P], _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        ordering = self._job.ordering
        spans = ordering.enter(method.__name__, args, self._timeout_s)
        started = method(self, *args, **kwargs)
        if spans and isinstance(started, Operation):
            ordering.note(started, spans)
        return started

    def _operation(
        self, name: str, parts: Sequence[Part], steps: Sequence[Step], timeout_s: float, *, alone: bool = False
    ) -> Operation:
        limit_s = timeout_s if timeout_s > 0 else self._timeout_s
        operation = Operation(self._job, self._group, name, parts, steps, limit_s)
        if self._coalesced is not None and not alone:
            self._coalesced.append(operation)
        return operation

    def _all_reduce(self, name: str, tensors: Sequence[Tensor], op: int, factor: float, timeout_s: float) -> Operation:
        how, parts = reduction(op, factor), []
        steps: list[Step] = []
        shared = share_memory(tensors)
        for tensor in tensors:
            # Each is reduced by its current value, and results are placed one after another, as if combined in one
            # operation.
            buffer = dense(tensor).detach().clone() if shared else dense(tensor)
            parts.append(self._group.all_reduce(elements(buffer), **how, traffic_class=self._class))
            steps += restore(tensor, buffer)
        return self._operation(name, parts, steps, timeout_s)

    def _sparse_sum(self, tensor: Tensor, op: int, timeout_s: float) -> Operation:
        self._sparse += 1
        # Its second half starts when a rank has finished the first one, so it needs an order of its own.
        group = self._job.world.new_group(self._group.members, f"{self._group.name}/sparse{self._sparse}")
        total = SparseSum(group, tensor, op, self._class)
        operation = self._operation("all_reduce", total.start(), total.steps, timeout_s, alone=True)
        self._sums = [*(one for one in self._sums if not one.over), operation]
        self._job.completer.add(operation)  # other ranks need its second half, even if this one does not wait
        return operation

    def _reduce_scatter(
        self, name: str, pairs: Sequence[tuple[Tensor, Tensor]], op: int, factor: float, timeout_s: float
    ) -> Operation:
        how, parts = reduction(op, factor), []
        steps: list[Step] = []
        for output, buffer in pairs:
            result = dense(output)
            parts.append(
                self._group.reduce_scatter(elements(result), elements(dense(buffer)), **how, traffic_class=self._class)
            )
            steps += restore(output, result)
        return self._operation(name, parts, steps, timeout_s)

    def _all_gather(
        self, name: str, outputs: Sequence[Tensor], inputs: Sequence[Tensor], timeout_s: float
    ) -> Operation:
        parts: list[Work] = []
        steps: list[Step] = []
        for output, buffer in _pairs(outputs, inputs):
            if output.dtype != buffer.dtype:
                raise ConfigError("dtype", str(buffer.dtype), f"{output.dtype}, as the output")
            result = dense(output)
            parts.append(self._group.all_gather(raw(result), raw(dense(buffer)), traffic_class=self._class))
            steps += restore(output, result)
        return self._operation(name, parts, steps, timeout_s)

    def _all_gather_lists(self, name: str, pairs: Sequence[tuple[list[Tensor], Tensor]], timeout_s: float) -> Operation:
        parts: list[Work] = []
        steps: list[Step] = []
        for pieces, tensor in pairs:
            self._check_count(pieces, "outputs")
            _check_same(pieces[self._rank], tensor, "input")
            sizes = [_bytes_of(piece) for piece in pieces]
            result = torch.empty(sum(sizes), dtype=torch.uint8)
            steps.append(lambda result=result, pieces=pieces: split_bytes(result, pieces))  # type: ignore[misc]
            own = dense(tensor)
            if len(set(sizes)) == 1:
                parts.append(self._group.all_gather(raw(result), raw(own), traffic_class=self._class))
                continue
            for rank, place in enumerate(result.split(sizes)):
                if rank == self._rank:
                    place.copy_(joined_bytes([own]))
                parts.append(self._group.broadcast(raw(place), rank, traffic_class=self._class))
        return self._operation(name, parts, steps, timeout_s)

    def _rows(self, splits: Sequence[int], tensor: Tensor, name: str) -> list[int]:
        rows = tensor.size(0) if tensor.dim() else 1
        row_bytes = tensor.element_size() * math.prod(tensor.shape[1:])
        if not splits:
            if rows % self._size:
                raise ConfigError(name, f"{rows} rows", f"a multiple of {self._size}, without split sizes")
            splits = [rows // self._size] * self._size
        if len(splits) != self._size or sum(splits) != rows:
            raise ConfigError(f"{name}_split_sizes", list(splits), f"{self._size} numbers with the sum {rows}")
        return [count * row_bytes for count in splits]

    def _tagged(self, tag: int) -> Group:
        """Sub-group for a tag: messages of different tags do not match."""
        if tag == 0:
            return self._group
        if tag not in self._tags:
            self._tags[tag] = self._job.world.new_group(self._group.members, f"{self._group.name}/tag{tag}")
        return self._tags[tag]

    def _ranks(self) -> list[int]:
        return [self._job.ranks[member] for member in self._group.members]

    def _check_count(self, tensors: Sequence[Any], name: str) -> None:
        self._job.world.check_open()
        if len(tensors) != self._size:
            raise ConfigError(name, f"a list of {len(tensors)}", f"{self._size}, one for each rank")

    def _check_alike(self, tensors: Sequence[Tensor], tensor: Tensor, name: str) -> None:
        self._check_count(tensors, name)
        for other in tensors:
            _check_same(other, tensor, name)


def _pairs(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    if len(outputs) != len(inputs):
        raise ConfigError("outputs", f"{len(outputs)} tensors", f"{len(inputs)}, as the inputs")
    return list(zip(outputs, inputs, strict=True))


def _check_same(tensor: Tensor, other: Tensor, name: str) -> None:
    if tensor.dtype != other.dtype or tensor.numel() != other.numel():
        raise ConfigError(
            name, f"{other.numel()} x {other.dtype}", f"{tensor.numel()} x {tensor.dtype}, as its counterpart"
        )


def _bytes_of(tensor: Tensor) -> int:
    if tensor.layout is not torch.strided:
        raise ConfigError("tensor", str(tensor.layout), "torch.strided")
    return int(tensor.numel() * tensor.element_size())
