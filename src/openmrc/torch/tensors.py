"""Tensors as memory for collectives: contiguous, as bytes if elements do not matter, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from openmrc.collectives.buffers import View
from openmrc.collectives.elements import ElementType, element_type
from openmrc.errors import ConfigError

__all__ = ["Tensor", "dense", "elements", "joined_bytes", "one", "raw", "restore", "split_bytes"]

Tensor = Any


def one(tensors: Sequence[Any], name: str = "tensors") -> Any:
    """The only element of a list.

    Raises:
        ConfigError: there are none or several.
    """
    if len(tensors) != 1:
        raise ConfigError(name, f"{len(tensors)} of them", "one for each rank and call, as a rank has one device")
    return tensors[0]


def dense(tensor: Tensor, name: str = "tensor") -> Tensor:
    """The tensor itself if contiguous, otherwise a contiguous copy.

    Raises:
        ConfigError: it is sparse.
    """
    if tensor.layout is not torch.strided:
        raise ConfigError(name, str(tensor.layout), "torch.strided")
    return tensor if tensor.is_contiguous() else tensor.detach().contiguous()


def elements(tensor: Tensor) -> View:
    """The memory of a contiguous tensor, as its elements. The native backend has checked that it has memory."""
    return View(tensor.data_ptr(), tensor.numel() * tensor.element_size(), element_type(tensor.dtype), tensor)


def raw(tensor: Tensor) -> View:
    """The memory of a contiguous tensor, as bytes."""
    return View(tensor.data_ptr(), tensor.numel() * tensor.element_size(), ElementType.UINT8, tensor)


def restore(tensor: Tensor, used: Tensor) -> list[Callable[[], None]]:
    """Steps that move the result from the copy into the tensor; none if it is in place."""
    return [] if used is tensor else [lambda: _copy(tensor, used)]


def joined_bytes(tensors: Sequence[Tensor]) -> Tensor:
    """A copy of all of them in one block, as bytes."""
    parts = [_as_bytes(dense(tensor)) for tensor in tensors]
    return torch.cat(parts) if parts else torch.empty(0, dtype=torch.uint8)


def split_bytes(whole: Tensor, tensors: Sequence[Tensor]) -> None:
    """The reverse: distributes the bytes to the tensors."""
    at = 0
    for tensor in tensors:
        length = tensor.numel() * tensor.element_size()
        piece = whole[at : at + length]
        if tensor.is_contiguous():
            _as_bytes(tensor).copy_(piece)
        elif length:
            # A view of a new tensor, which has the alignment of the type.
            _copy(tensor, piece.clone().view(tensor.dtype).view(tensor.shape))
        at += length


def _as_bytes(tensor: Tensor) -> Tensor:
    # One element is contiguous with any stride, but a view of another type would check the stride.
    return tensor.detach().as_strided((tensor.numel(),), (1,), tensor.storage_offset()).view(torch.uint8)


def _copy(into: Tensor, found: Tensor) -> None:
    with torch.no_grad():
        into.copy_(found.view(into.shape))
