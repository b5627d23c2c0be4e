"""Memory of NumPy arrays, torch CPU tensors and other buffers, as addresses; and scratch memory that is used again."""

from __future__ import annotations

import threading
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
    """Where the elements of a buffer lie. `owner` keeps the memory alive."""

    address: int
    bytes: int
    element: ElementType
    owner: Any


def view_of(buffer: Any, name: str = "buffer") -> View:
    """The memory of a contiguous array, CPU tensor or buffer, in place.

    Raises:
        ConfigError: not contiguous, not on the CPU, read-only, or of a type that collectives do not have.
    """
    if hasattr(buffer, "data_ptr"):
        if buffer.device.type != "cpu" or not buffer.is_contiguous():
            raise ConfigError(name, f"{tuple(buffer.shape)} on {buffer.device}", "a contiguous tensor on the CPU")
        return View(buffer.data_ptr(), buffer.numel() * buffer.element_size(), element_type(buffer.dtype), buffer)
    array = np.asarray(buffer)
    flags = array.flags
    if not flags.c_contiguous or not flags.writeable:
        raise ConfigError(name, f"array of shape {array.shape}", "contiguous and writable")
    return View(native.address_of(array), array.nbytes, element_type(array.dtype), array)


class Scratch:
    """Memory that operations use between themselves; kept, because new pages cost more than the reduction.

    For several threads.
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
        """For the next operation, unless enough is kept already."""
        size = array.nbytes
        with self._lock:
            if size and self._kept_bytes + size <= _KEPT_BYTES_MAX:
                self._free.setdefault(size, []).append(array)
                self._kept_bytes += size
