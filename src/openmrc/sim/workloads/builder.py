"""Collects ops in blocks; a generator passes hosts and bytes as arrays and gets the ops' numbers back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from openmrc.errors import ConfigError
from openmrc.sim.ops import COMPLETED, COMPUTE, OPS_MAX, RECEIVED, SEND, Array, OpGraph

__all__ = ["Builder"]

_PER_OP = ("kind", "host", "peer", "bytes", "duration_ps", "earliest_ps", "job", "step")


class Builder:
    """An OpGraph under construction. Every value may be an array or one number for all."""

    def __init__(self) -> None:
        self._blocks: list[tuple[Array, ...]] = []
        self._dependencies: list[tuple[Array, Array, int]] = []
        self._groups: list[str] = []
        self._labels: list[tuple[int, int]] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def group(self, name: str) -> int:
        """The job number for ops of this name."""
        if name not in self._groups:
            self._groups.append(name)
        return self._groups.index(name)

    def sends(
        self,
        host: npt.ArrayLike,
        peer: npt.ArrayLike,
        size_bytes: npt.ArrayLike,
        *,
        step: npt.ArrayLike = 0,
        earliest_ps: npt.ArrayLike = 0,
        job: int = 0,
    ) -> Array:
        """Numbers of new sends, in the shape that the values broadcast to."""
        return self._add(SEND, host, peer, size_bytes, 0, earliest_ps, job, step)

    def computes(
        self,
        host: npt.ArrayLike,
        duration_ps: npt.ArrayLike,
        *,
        step: npt.ArrayLike = 0,
        earliest_ps: npt.ArrayLike = 0,
        job: int = 0,
    ) -> Array:
        """Numbers of new computations, in the shape that the values broadcast to."""
        return self._add(COMPUTE, host, host, 0, duration_ps, earliest_ps, job, step)

    def _add(self, *values: npt.ArrayLike) -> Array:
        shaped = np.broadcast_arrays(*values)
        count = shaped[0].size
        if self._length + count > OPS_MAX:
            raise ConfigError("workload", f"{self._length + count} ops", f"at most {OPS_MAX} ops")
        self._blocks.append(tuple(array.ravel() for array in shaped))
        first = self._length
        self._length += count
        return np.arange(first, self._length).reshape(shaped[0].shape)

    def after(self, ops: Array, on: Array, event: int = COMPLETED) -> None:
        """Makes every op wait for its counterpart in `on`; the two broadcast against each other."""
        left, right = np.broadcast_arrays(ops, on)
        self._dependencies.append((left.ravel(), right.ravel(), event))

    def after_receipt(self, ops: Array, on: Array) -> None:
        """Makes every op wait until its counterpart in `on`, a send to its host, was received."""
        self.after(ops, on, RECEIVED)

    def label_from(self, first: int, step: int) -> None:
        """Sets the `step` of all ops from `first` on, replacing their original one."""
        self._labels.append((first, step))

    def build(self) -> OpGraph:
        """The graph so far."""
        per_op = {
            name: np.concatenate([np.empty(0, np.int64), *(block[at] for block in self._blocks)])
            for at, name in enumerate(_PER_OP)
        }
        for first, step in self._labels:
            per_op["step"][first:] = step
        nothing = np.empty(0, np.int64)
        return OpGraph(
            **per_op,
            dep_op=np.concatenate([nothing, *(ops for ops, _, _ in self._dependencies)]),
            dep_on=np.concatenate([nothing, *(on for _, on, _ in self._dependencies)]),
            dep_event=np.concatenate([nothing, *(np.full(len(ops), event) for ops, _, event in self._dependencies)]),
            groups=tuple(self._groups) or ("all",),
        )
