"""The loop of data-parallel training: compute, reduce the gradients bucket by bucket, synchronise, and repeat."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from openmrc.config.section import count
from openmrc.sim.ops import Array, OpGraph
from openmrc.sim.workloads.builder import Builder
from openmrc.sim.workloads.collective import (
    Algorithm,
    AllReduce,
    Chunks,
    add_all_reduce,
    check_algorithm,
    group_matrix,
    inner_size,
)
from openmrc.sim.workloads.message_patterns import finish, split
from openmrc.sim.workloads.ranks import Ranks
from openmrc.sim.workloads.values import Bytes, Duration, GroupSize, Settings, Switch, ranks_or_words

__all__ = ["Training", "training"]

BARRIER_BYTES = 64


class Training(Settings):
    """`steps` training steps: `forward`, then `backward` in `buckets` equal pieces, and an all-reduce of the gradients.

    A piece of the backward pass produces an equal part of the `bytes` of gradients, which the ranks of a group
    all-reduce (see the workload `all_reduce` for `algorithm`, `chunks`, `inner`, `group_size`). The all-reduces of one
    rank run one after another, as on one communication stream. With `overlap` they begin during the backward pass,
    without it afterwards. With `barrier` all ranks of all groups synchronise before the next step (dissemination, 64 B
    messages); without, a rank continues when its own all-reduces are done.
    """

    name: Literal["training"]
    steps: Annotated[int, count(1, 1_000_000)] = 1
    bytes: Bytes
    forward: Duration = 0
    backward: Duration = 0
    buckets: Annotated[int, count(1, 4096)] = 1
    overlap: Switch = True
    barrier: Switch = True
    algorithm: Algorithm = "ring"
    chunks: Chunks = 1
    inner: Annotated[int | str | None, ranks_or_words("t0", "pod", "site", low=2)] = None
    group_size: GroupSize | None = None


def training(settings: Training, ranks: Ranks) -> OpGraph:
    """The loop; `step` of every op is its training step.

    Raises:
        ConfigError: algorithm, sizes and hosts do not fit together.
    """
    groups = group_matrix(ranks, settings.group_size)
    reduce = AllReduce(
        name="all_reduce",
        bytes=settings.bytes,
        algorithm=settings.algorithm,
        chunks=settings.chunks,
        inner=settings.inner,
        group_size=settings.group_size,
    )
    check_algorithm(reduce)
    inner = inner_size(reduce, ranks, groups.shape[1])
    builder = Builder()
    job = builder.group("training")
    gate: Array | None = None
    for step in range(settings.steps):
        first = len(builder)
        gate = _step(builder, groups, settings, reduce, inner, gate, job)
        builder.label_from(first, step)
    return builder.build()


def _step(
    builder: Builder,
    groups: Array,
    settings: Training,
    reduce: AllReduce,
    inner: int | None,
    gate: Array | None,
    job: int,
) -> Array:
    """One step after `gate`; per rank an op that completes at its end."""
    done = builder.computes(groups, settings.forward, job=job)
    if gate is not None:
        builder.after(done, gate)
    pieces = []
    for duration_ps in split(settings.backward, settings.buckets):
        pieces.append(builder.computes(groups, duration_ps, job=job))
        builder.after(pieces[-1], pieces[-2] if len(pieces) > 1 else done)
    reduced: Array | None = None
    for piece, size in zip(pieces, split(settings.bytes, settings.buckets), strict=True):
        ready = piece if settings.overlap else pieces[-1]
        if reduced is not None:
            both = builder.computes(groups, 0, job=job)
            builder.after(both, ready)
            builder.after(both, reduced)
            ready = both
        sends, peers, _ = add_all_reduce(builder, groups, int(size), reduce, inner, gate=ready, step=0, job=job)
        reduced = finish(builder, groups, sends, peers, step=0, job=job)
        builder.after(reduced, ready)
    assert reduced is not None
    return _barrier(builder, reduced, groups, job) if settings.barrier else reduced


def _barrier(builder: Builder, gate: Array, groups: Array, job: int) -> Array:
    """Dissemination: in round k rank i notifies rank i + 2^k; a rank notified in every round knows that all have
    arrived.
    """
    everyone = groups.reshape(1, -1)
    arrived = gate.reshape(1, -1)
    sends: list[Array] = []
    peers: list[Array] = []
    distance = 1
    while distance < everyone.size:
        peer = np.roll(everyone, -distance, axis=1)
        sends.append(builder.sends(everyone, peer, BARRIER_BYTES, job=job))
        builder.after(sends[-1], arrived)
        if len(sends) > 1:
            builder.after_receipt(sends[-1], np.roll(sends[-2], distance // 2, axis=1))
        peers.append(peer)
        distance *= 2
    done = finish(builder, everyone, np.stack(sends), np.stack(peers), step=0, job=job)
    builder.after(done, arrived)
    return done.reshape(groups.shape)
