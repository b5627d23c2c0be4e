"""Sums of sparse tensors: every rank gathers the elements of all and adds them up, as their indices differ."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch

from openmrc.collectives import Group, Work
from openmrc.errors import ConfigError
from openmrc.torch.reductions import SUM
from openmrc.torch.tensors import Tensor, raw

__all__ = ["SparseSum"]

_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16)


class SparseSum:
    """Two rounds: number of elements, number of dimensions and sizes at each rank; then the elements.

    Args:
        group: Members, for this sum alone.
        tensor: Own part, which becomes the sum.
        op: Must be SUM.
        traffic_class: Of all messages.

    Raises:
        ConfigError: another layout than COO, or an operation or type that sparse tensors do not have.
    """

    def __init__(self, group: Group, tensor: Tensor, op: int, traffic_class: str) -> None:
        if tensor.layout is not torch.sparse_coo:
            raise ConfigError("layout", str(tensor.layout), "torch.strided or torch.sparse_coo")
        if op != SUM:
            raise ConfigError("op", "another one", "SUM, for sparse tensors")
        if tensor.dtype not in _DTYPES:
            raise ConfigError("dtype", str(tensor.dtype), f"{', '.join(map(str, _DTYPES))}, for sparse tensors")
        self._group, self._tensor, self._class = group, tensor, traffic_class
        own = tensor.detach().coalesce()
        self._indices = own.indices().contiguous()
        self._values = own.values().contiguous()
        shape = [own.sparse_dim(), own.dense_dim(), *own.shape]
        self._own = torch.tensor([own._nnz(), _digest(shape)], dtype=torch.int64)
        self._all = torch.empty(group.size, 2, dtype=torch.int64)
        self._gathered: list[tuple[Tensor, Tensor]] = []
        self.steps = [self._gather, self._sum]

    def start(self) -> Sequence[Work]:
        """The first round."""
        return [self._group.all_gather(raw(self._all), raw(self._own), traffic_class=self._class)]

    def _gather(self) -> Sequence[Work]:
        works = []
        for rank, (count, shape) in enumerate(self._all.tolist()):
            if shape != int(self._own[1]):
                raise ConfigError("shape", tuple(self._tensor.shape), f"the shape that rank {rank} of the group has")
            if rank == self._group.rank:
                indices, values = self._indices, self._values
            else:
                indices = self._indices.new_empty((self._indices.shape[0], count))
                values = self._values.new_empty((count, *self._values.shape[1:]))
            self._gathered.append((indices, values))
            works += [self._group.broadcast(raw(part), rank, traffic_class=self._class) for part in (indices, values)]
        return works

    def _sum(self) -> None:
        indices = torch.cat([one for one, _ in self._gathered], 1)
        values = torch.cat([one for _, one in self._gathered])
        total = torch.sparse_coo_tensor(indices, values, self._tensor.shape, check_invariants=False).coalesce()
        with torch.no_grad():
            self._tensor.copy_(total)


def _digest(shape: Sequence[int]) -> int:
    return int.from_bytes(hashlib.blake2b(repr(shape).encode(), digest_size=7).digest(), "little")
