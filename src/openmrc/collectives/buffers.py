"""Addresses of NumPy arrays, torch CPU tensors and other buffers; and reusable scratch memory."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from openmrc._native import collectives as native
from openmrc.collectives.elements import ElementType, element_type
from openmrc.errors import ConfigError

__all__ = ["Scratch", "View", "view_of"]

_KEPT_BYTES_MAX = 256 << 20
_SMALLEST = 4096


class View(NamedTuple):
    """Address and size of a buffer's elements. `owner` keeps the memory alive."""

    address: int
    bytes: int
    element: ElementType
    owner: Any


def view_of(buffer: Any, name: str = "buffer") -> View:
    """The memory of a contiguous array, CPU tensor or buffer, in place.

    Raises:
        ConfigError: not contiguous, not on the CPU, read-only, or of an unsupported element type.
        TypeError: a subclass of torch.Tensor that has no memory of its own.
    """
    if isinstance(buffer, View):  # the caller has already inspected its tensor
        return buffer
    if hasattr(buffer, "data_ptr"):
        return _view_of_tensor(buffer, name)
    array = np.asarray(buffer)
    flags = array.flags
    if not flags.c_contiguous or not flags.writeable:
        raise ConfigError(name, f"array of shape {array.shape}", "contiguous and writable")
    return View(native.address_of(array), array.nbytes, element_type(array.dtype), array)


def _view_of_tensor(tensor: Any, name: str) -> View:
    kind: type = type(tensor)
    if _dispatches(kind):
        # Result of a functional collective: wait for its value.
        wait = getattr(tensor, "trigger_wait", None)
        if wait is None:
            msg = (
                f"{name} is a {type(tensor).__name__}, which has no storage; pass the torch.Tensor that it "
                "wraps, such as `.to_local()` of a DTensor"
            )
            raise TypeError(msg)
        return _view_of_tensor(wait(), name)
    if tensor.device.type != "cpu" or _layout(tensor.layout) != "strided" or not tensor.is_contiguous():
        found = f"{tuple(tensor.shape)}, {tensor.layout}, on {tensor.device}"
        raise ConfigError(name, found, "a contiguous tensor on the CPU")
    length = tensor.numel() * tensor.element_size()
    address = tensor.data_ptr()
    if length and (
        not address or tensor.untyped_storage().nbytes() < tensor.storage_offset() * tensor.element_size() + length
    ):
        raise ConfigError(name, "a tensor without memory for all its elements", "a tensor with allocated storage")
    if tensor.is_neg():
        raise ConfigError(name, "a tensor that is negated lazily", "`.resolve_neg()` of it")
    return View(address, length, element_type(tensor.dtype), tensor)


@cache
def _dispatches(kind: type) -> bool:
    """True if operations on tensors of this class go to Python: its memory, if any, is then not the tensor's."""
    dispatch = getattr(kind, "__torch_dispatch__", None)
    return dispatch is not None and getattr(dispatch, "__name__", "") != "_disabled_torch_dispatch_impl"


@cache
def _layout(layout: Any) -> str:
    return str(layout).rpartition(".")[2]


class Scratch:
    """Scratch memory of operations, kept for reuse because new pages cost more than the reduction.

    Thread safe.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[npt.NDArray[np.uint8]]] = {}
        self._kept_bytes = 0
        self._lock = threading.Lock()

    def take(self, length: int) -> npt.NDArray[np.uint8]:
        """An array of at least `length` bytes."""
        size = max(1 << (length - 1).bit_length(), _SMALLEST) if length else 0
        with self._lock:
            if free := self._free.get(size):
                self._kept_bytes -= size
                return free.pop()
        return np.empty(size, dtype=np.uint8)

    def give_back(self, array: npt.NDArray[np.uint8]) -> None:
        """Returns memory for the next operation, unless enough is kept already."""
        size = array.nbytes
        with self._lock:
            if size and self._kept_bytes + size <= _KEPT_BYTES_MAX:
                self._free.setdefault(size, []).append(array)
                self._kept_bytes += size
