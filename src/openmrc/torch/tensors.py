"""Tensors as memory that collectives can use: contiguous, of bytes where elements do not matter, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from openmrc.errors import ConfigError

__all__ = ["as_bytes", "beside", "checked", "dense", "one", "restore", "spread"]

Tensor = Any


def checked(tensor: Tensor, name: str = "tensor") -> Tensor:
    """The tensor without its graph.

    Raises:
        ConfigError: it is not a dense tensor on the CPU.
    """
    if not isinstance(tensor, torch.Tensor):
        raise ConfigError(name, type(tensor).__name__, "a tensor")
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        raise ConfigError(name, f"{tensor.layout} on {tensor.device}", "a dense tensor on the CPU")
    return tensor.detach()


def one(tensors: Sequence[Any], name: str = "tensors") -> Any:
    """The only element of a list.

    Raises:
        ConfigError: there are none or several.
    """
    if len(tensors) != 1:
        raise ConfigError(name, f"{len(tensors)} of them", "one for each rank and call, as a rank has one device")
    return tensors[0]


def dense(tensor: Tensor) -> Tensor:
    """Itself if it is contiguous, otherwise a copy that is."""
    return checked(tensor).contiguous()


def restore(tensor: Tensor, used: Tensor) -> list[Callable[[], None]]:
    """Steps that bring the result from the copy that was used into the tensor; none if it is there."""
    if used.data_ptr() == tensor.data_ptr() and tensor.is_contiguous():
        return []
    return [lambda: _copy(checked(tensor), used.view(tensor.shape))]


def as_bytes(tensor: Tensor) -> Tensor:
    """The memory of a contiguous tensor."""
    # One element is contiguous whatever its stride, which a view of another type would ask about.
    return checked(tensor).as_strided((tensor.numel(),), (1,)).view(torch.uint8)


def beside(tensors: Sequence[Tensor]) -> Tensor:
    """A copy of all of them in one piece, as bytes."""
    parts = [as_bytes(dense(tensor)) for tensor in tensors]
    return torch.cat(parts) if parts else torch.empty(0, dtype=torch.uint8)


def spread(whole: Tensor, tensors: Sequence[Tensor]) -> None:
    """The reverse: takes the bytes apart into the tensors."""
    at = 0
    for tensor in tensors:
        length = tensor.numel() * tensor.element_size()
        piece = whole[at : at + length]
        if tensor.is_contiguous():
            as_bytes(tensor).copy_(piece)
        elif length:
            # A view as the type needs the alignment that a new tensor has.
            _copy(checked(tensor), piece.clone().view(tensor.dtype).view(tensor.shape))
        at += length


def _copy(into: Tensor, found: Tensor) -> None:
    with torch.no_grad():
        into.copy_(found)
