"""Order among operations that copy tensors: those that are not contiguous, and lists whose parts travel together.

The executor orders operations by the memory that it is given. For a copied tensor it only knows the copy, so data
copied at the call must be complete by then, and results that are placed later must not be overtaken.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from openmrc.torch.failures import OperationTimeoutError, ProcessGroupError

if TYPE_CHECKING:
    from openmrc.collectives import Group, World
    from openmrc.torch.operation import Operation

__all__ = ["Ordering", "Span", "overlapping", "share_memory", "spans_of"]

# Arguments, by position, that are copied at the call or placed after the end even if contiguous.
_COPIED = {"reduce": 0, "reduce_scatter": 1, "scatter": 1, "all_to_all": 1}
_PLACED = {"all_gather": 0, "all_gather_coalesced": 0, "gather": 0, "all_to_all": 0}
_PLAIN = (torch.Tensor, torch.nn.Parameter)  # other classes may have no memory
# Lists whose tensors travel one by one if their sizes differ; the other argument is then copied or placed, too.
_COPIED_IF_UNEVEN = {"all_gather": 1, "all_gather_coalesced": 1}
_PLACED_IF_UNEVEN = {"reduce_scatter": 0}


class Span(NamedTuple):
    """Address range from the first element of a tensor to the end of its last one."""

    begin: int
    end: int


class Ordering:
    """Operations of a job with results still to be placed, by the memory of these results.

    Args:
        world: Connected ranks, whose executor knows the memory in use.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._placing: list[tuple[Operation, Sequence[Span]]] = []
        self._lock = threading.Lock()

    def enter(self, name: str, arguments: Sequence[Any], timeout_s: float) -> list[Span]:
        """Waits for earlier operations that an operation would overtake by copying; returns the memory that it places
        later.

        Args:
            name: Method of the delegate.
            arguments: As passed to it: tensors and lists of tensors come first.
            timeout_s: Limit for each wait.

        Raises:
            OperationTimeoutError: an earlier operation on the same memory has not ended.
        """
        tensors = [list(_flat(argument)) for argument in arguments[:2]]
        if self._placing:
            self._finish_users(spans_of([*tensors[0], *tensors[-1]]) if tensors else [])
        odd = [tensor for part in tensors for tensor in part if not tensor.is_contiguous()]
        copied, placed = list(odd), list(odd)
        if name in _COPIED:
            copied += tensors[_COPIED[name]]
        if name in _PLACED:
            placed += tensors[_PLACED[name]]
        if name in _COPIED_IF_UNEVEN and _uneven(tensors[0]):
            copied += tensors[_COPIED_IF_UNEVEN[name]]
        if name in _PLACED_IF_UNEVEN and _uneven(tensors[1]):
            placed += tensors[_PLACED_IF_UNEVEN[name]]
        if name == "all_reduce_coalesced" and share_memory(tensors[0]):
            copied, placed = tensors[0], tensors[0]
        for span in spans_of(copied):
            self._await_memory(name, span, timeout_s, writes=False)
        spans = spans_of(placed)
        for span in spans:
            self._await_memory(name, span, timeout_s, writes=True)
        return spans

    def note(self, operation: Operation, spans: Sequence[Span]) -> None:
        """Makes later operations that use this memory wait for `operation`."""
        with self._lock:
            self._placing = [(one, memory) for one, memory in self._placing if not one.poll()]
            self._placing.append((operation, spans))

    def merge(self, operations: Sequence[Operation], into: Operation) -> None:
        """Replaces several operations by one."""
        with self._lock:
            spans = [span for one, memory in self._placing if one in operations for span in memory]
            self._placing = [(one, memory) for one, memory in self._placing if one not in operations]
            if spans:
                self._placing.append((into, spans))

    def finish(self, group: Group) -> None:
        """Waits until all operations of a group have placed their results."""
        for operation, _ in list(self._placing):
            if operation.group is group:
                _end(operation)

    def _finish_users(self, spans: Sequence[Span]) -> None:
        for operation, memory in list(self._placing):
            if any(overlapping(one, other) for one in memory for other in spans):
                _end(operation)

    def _await_memory(self, name: str, span: Span, timeout_s: float, *, writes: bool) -> None:
        if not self._world.await_memory(span.begin, span.end - span.begin, writes=writes, timeout_s=timeout_s):
            msg = f"{name} timed out: an earlier operation on the same memory is not done after {timeout_s:g} s"
            raise OperationTimeoutError(msg)


def overlapping(one: Span, other: Span) -> bool:
    """True if two spans share an address."""
    return one.begin < other.end and other.begin < one.end


def share_memory(tensors: Sequence[Any]) -> bool:
    """True if any two of them overlap."""
    return len(tensors) > 1 and any(overlapping(one, other) for one, other in pairwise(sorted(spans_of(tensors))))


def _uneven(tensors: Sequence[Any]) -> bool:
    return len({tensor.numel() for tensor in tensors}) > 1


def spans_of(tensors: Iterable[Any]) -> list[Span]:
    """Memory of strided tensors that have elements."""
    found = []
    for tensor in tensors:
        if tensor.layout is not torch.strided or tensor.numel() == 0:
            continue
        last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
        begin = tensor.data_ptr()
        found.append(Span(begin, begin + (last + 1) * tensor.element_size()))
    return found


def _flat(argument: Any) -> Iterator[Any]:
    if type(argument) in _PLAIN:
        if argument.layout is torch.strided:
            yield argument
    elif isinstance(argument, list | tuple):
        for one in argument:
            yield from _flat(one)


def _end(operation: Operation) -> None:
    try:
        operation.wait(0)
    except ProcessGroupError:
        return  # the waiter of that operation sees the reason
