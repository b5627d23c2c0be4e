"""Memory regions: any writable contiguous buffer, registered in place."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Self

from openmrc import _native
from openmrc.errors import InvalidArgumentError
from openmrc.verbs.enums import Access
from openmrc.verbs.snapshots import MemoryRegionStatistics
from openmrc.verbs.status import check

if TYPE_CHECKING:
    from types import TracebackType

    from openmrc.verbs.device import Device, ProtectionDomain

__all__ = ["MemoryRegion"]

_ALLOWED = "a writable, C-contiguous buffer: bytearray, NumPy array, mmap, torch CPU tensor, ..."


def buffer_of(obj: Any) -> Any:
    """An object with the buffer protocol over the memory of `obj`, without copying."""
    if hasattr(obj, "data_ptr") and hasattr(obj, "is_contiguous"):  # a torch tensor, without importing torch
        if str(obj.device) != "cpu" or not obj.is_contiguous():
            msg = (
                f"a tensor on {obj.device}, contiguous={obj.is_contiguous()}, cannot be registered; allowed: {_ALLOWED}"
            )
            raise InvalidArgumentError(msg)
        return _view(obj.data_ptr(), obj.numel() * obj.element_size(), obj)
    interface = getattr(obj, "__array_interface__", None)
    if interface is not None and not _has_buffer(obj):
        address, read_only = interface["data"]
        if read_only or interface.get("strides") is not None:
            msg = f"{type(obj).__name__} is read-only or strided; allowed: {_ALLOWED}"
            raise InvalidArgumentError(msg)
        size = int(interface["typestr"][2:])
        for extent in interface["shape"]:
            size *= extent
        return _view(address, size, obj)
    return obj


def _has_buffer(obj: Any) -> bool:
    try:
        memoryview(obj).release()
    except TypeError:
        return False
    return True


def _view(address: int, size_bytes: int, keep: Any) -> Any:
    view: Any = (ctypes.c_char * size_bytes).from_address(address)
    view._openmrc_keep = keep  # keeps the owner of the memory alive
    return view


class MemoryRegion:
    """A registered buffer; created by `ProtectionDomain.register`, released by `close` or at the end of a `with` block.

    While registered, the buffer is exported, so that Python refuses to free or resize it (`BufferError` from bytearray
    and mmap). A peer needs `rkey` to write into it; it is drawn at random.
    """

    def __init__(self, pd: ProtectionDomain, obj: Any, access: Access) -> None:
        self._device: Device = pd.device
        self._pd = pd
        self._native = pd.device._native
        try:
            self._buffer = _native.Buffer(buffer_of(obj))
        except (BufferError, TypeError, ValueError) as error:
            msg = f"a {type(obj).__name__} cannot be registered ({error}); allowed: {_ALLOWED}"
            raise InvalidArgumentError(msg) from error
        self.address: int = self._buffer.address
        """Virtual address of the first byte, the origin of remote and local addresses in work requests."""
        self.length_bytes: int = self._buffer.length_bytes
        self.access = Access(access)
        try:
            status, key = self._native.register_memory(self._buffer, int(access), pd.number)
            check(status, f"cannot register {self.length_bytes} bytes")
        except BaseException:
            self._buffer.release()
            raise
        self.lkey: int = key
        self.rkey: int = key
        self._open = True
        self._device._regions.add(self)

    def close(self) -> None:
        """Deregisters the buffer. A later WRITE of a peer is refused and moves its QP to ERR. Idempotent.

        Raises:
            BusyError: posted sends still read from it.
        """
        if not self._open:
            return
        if not self._native.closed:
            check(self._native.deregister_memory(self.lkey), "posted sends still read from this memory region")
        self._open = False
        self._buffer.release()
        self._device._regions.discard(self)

    @property
    def closed(self) -> bool:
        """True once deregistered."""
        return not self._open

    def statistics(self) -> MemoryRegionStatistics:
        """Properties of the region."""
        return MemoryRegionStatistics(
            address=self.address,
            length_bytes=self.length_bytes,
            remote_write=Access.REMOTE_WRITE in self.access,
            registered=self._open,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<MemoryRegion {self.length_bytes} bytes at {self.address:#x}, {self.access!r}>"
