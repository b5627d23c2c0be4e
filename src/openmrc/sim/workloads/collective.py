"""Collectives as workloads: participants, repetitions, and algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np

from openmrc.config.section import count
from openmrc.errors import ConfigError
from openmrc.sim.ops import Array, OpGraph
from openmrc.sim.workloads.builder import Builder
from openmrc.sim.workloads.message_patterns import finish, halving_doubling, ring, shift_exchange, split, tree
from openmrc.sim.workloads.ranks import Ranks
from openmrc.sim.workloads.values import Bytes, Count, GroupSize, Limit, Settings, ranks_or_words

__all__ = [
    "Algorithm",
    "AllGather",
    "AllReduce",
    "AllToAll",
    "Chunks",
    "Neighbours",
    "ReduceScatter",
    "add_all_reduce",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "check_algorithm",
    "group_matrix",
    "inner_size",
    "neighbours",
    "reduce_scatter",
]

Algorithm = Literal["ring", "tree", "halving_doubling", "hierarchical"]
Chunks = Annotated[int, count(1, 4096)]


class _Collective(Settings):
    """`bytes` is the buffer of a rank. `group_size`: consecutive ranks that work together (default: all of the job).

    `repeat`: number of repetitions; a rank starts the next one when it has finished.
    """

    bytes: Bytes
    group_size: GroupSize | None = None
    repeat: Count = 1


class AllReduce(_Collective):
    """All-reduce of `bytes` by `algorithm`; a ring and a tree divide their sends into `chunks` that are pipelined.

    Hierarchical: a ring reduce-scatter inside every `inner` (a number of consecutive ranks, or `t0`, `pod`, `site`), a
    ring all-reduce of each part across them, and a ring all-gather inside.
    """

    name: Literal["all_reduce"]
    algorithm: Algorithm = "ring"
    chunks: Chunks = 1
    inner: Annotated[int | str | None, ranks_or_words("t0", "pod", "site", low=2)] = None


class AllGather(_Collective):
    """Ring all-gather; `bytes` is the gathered buffer, to which every rank contributes an equal part."""

    name: Literal["all_gather"]
    chunks: Chunks = 1


class ReduceScatter(_Collective):
    """Ring reduce-scatter; `bytes` is the initial buffer of a rank, of which it keeps an equal part."""

    name: Literal["reduce_scatter"]
    chunks: Chunks = 1


class AllToAll(_Collective):
    """Every rank sends `bytes` to every other of its group, at most `parallel` at a time (0: all at once)."""

    name: Literal["all_to_all"]
    parallel: Limit = 0


class Neighbours(_Collective):
    """Every rank sends `bytes` to the next in its group, and unless `direction` is `next` also to the one before.

    A rank begins round k + 1 when all messages of round k have reached it: a pipeline's or a halo's exchange.
    """

    name: Literal["neighbours"]
    direction: Literal["next", "both"] = "both"


# Adds one pass of a collective: (builder, groups, gate or None, step, job) -> sends, receivers, steps used.
Pass = Callable[[Builder, Array, Array | None, int, int], tuple[Array, Array, int]]


def group_matrix(ranks: Ranks, group_size: int | None) -> Array:
    """One row of ranks per group.

    Raises:
        ConfigError: the ranks are not divisible into such groups, or there is only one rank.
    """
    count = len(ranks)
    if count < 2:
        raise ConfigError("hosts", count, "at least 2 hosts")
    size = group_size or count
    if count % size:
        raise ConfigError("group_size", size, f"a divisor of the number of hosts, {count}")
    return np.arange(count).reshape(-1, size)


def _repeated(settings: _Collective, ranks: Ranks, one_pass: Pass) -> OpGraph:
    groups = group_matrix(ranks, settings.group_size)
    builder = Builder()
    job = builder.group(settings.name)
    gate, step = None, 0
    for turn in range(settings.repeat):
        sends, peers, steps = one_pass(builder, groups, gate, step, job)
        step += steps
        if turn + 1 < settings.repeat:
            gate = finish(builder, groups, sends, peers, step=step - 1, job=job)
    return builder.build()


def _ring(*rounds: str, size_bytes: int, chunks: int) -> Pass:
    def one_pass(builder: Builder, groups: Array, gate: Array | None, step: int, job: int) -> tuple[Array, Array, int]:
        sends, peers = ring(builder, groups, size_bytes, rounds, chunks=chunks, step=step, job=job, gate=gate)
        return sends, peers, len(rounds) * (groups.shape[1] - 1)

    return one_pass


def add_all_reduce(
    builder: Builder,
    groups: Array,
    size_bytes: int,
    settings: AllReduce,
    inner: int | None,
    *,
    gate: Array | None,
    step: int,
    job: int,
) -> tuple[Array, Array, int]:
    """Sends, receivers and number of steps of one all-reduce; `inner` is the size of a hierarchy's inner groups."""
    count = groups.shape[1]
    chunks = settings.chunks
    if settings.algorithm == "ring":
        return _ring("reduce", "gather", size_bytes=size_bytes, chunks=chunks)(builder, groups, gate, step, job)
    if settings.algorithm == "tree":
        return *tree(builder, groups, size_bytes, chunks=chunks, step=step, job=job, gate=gate), 2
    if settings.algorithm == "halving_doubling":
        ops, peers = halving_doubling(builder, groups, size_bytes, step=step, job=job, gate=gate)
        return ops, peers, 2 * (count.bit_length() - 1)
    assert inner is not None
    return _hierarchical(builder, groups, size_bytes, inner, chunks, gate, step, job)


def _hierarchical(
    builder: Builder, groups: Array, size_bytes: int, inner: int, chunks: int, gate: Array | None, step: int, job: int
) -> tuple[Array, Array, int]:
    """All-reduces every part of the buffer among the ranks with the same position in the inner groups."""
    areas = groups.reshape(-1, inner)
    gates = None if gate is None else gate.reshape(areas.shape)
    first = ring(builder, areas, size_bytes, ("reduce",), chunks=chunks, step=step, job=job, gate=gates)
    step += inner - 1
    reduced = finish(builder, areas, *first, step=step - 1, job=job)
    outer = groups.shape[1] // inner
    if outer > 1:
        # [group, area, place] -> [group, place, area]: ranks of one place across the areas of a group.
        across = groups.reshape(-1, outer, inner).transpose(0, 2, 1)
        gate_across = reduced.reshape(-1, outer, inner).transpose(0, 2, 1)
        done = np.empty(across.shape, dtype=np.int64)
        for place, part in enumerate(split(size_bytes, inner).tolist()):
            at = (slice(None), place)
            second = ring(
                builder, across[at], part, ("reduce", "gather"), chunks=chunks, step=step, job=job, gate=gate_across[at]
            )
            done[at] = finish(builder, across[at], *second, step=step + 2 * outer - 3, job=job)
        step += 2 * (outer - 1)
        reduced = done.transpose(0, 2, 1).reshape(areas.shape)
    ops, peers = ring(builder, areas, size_bytes, ("gather",), chunks=chunks, step=step, job=job, gate=reduced)
    return ops, peers, 2 * (inner - 1) + 2 * (outer - 1)


def inner_size(settings: AllReduce, ranks: Ranks, group: int) -> int | None:
    """Ranks per inner group of a hierarchical all-reduce; None for the other algorithms.

    Raises:
        ConfigError: `inner` does not fit the algorithm, the fabric, or the order of the ranks.
    """
    if settings.algorithm != "hierarchical":
        if settings.inner is not None:
            raise ConfigError("inner", settings.inner, "no value unless algorithm is hierarchical")
        return None
    if settings.inner is None:
        raise ConfigError("inner", None, "required for hierarchical: t0, pod, site, or a number of ranks")
    if isinstance(settings.inner, int):
        size = settings.inner
    else:
        areas = ranks.t0 if settings.inner == "t0" else ranks.pod  # a site is a pod
        changes = np.flatnonzero(np.diff(areas)) + 1
        size = int(changes[0]) if len(changes) else len(ranks)
        regular = len(ranks) % size == 0 and np.array_equal(changes, np.arange(size, len(ranks), size))
        if not regular:
            allowed = f"an area with equally many hosts in a row in each; here the first {settings.inner} has {size}"
            raise ConfigError("inner", settings.inner, allowed, hint="use order: t0, or a number of ranks")
    if size < 2 or group % size:
        raise ConfigError(
            "inner", settings.inner, f"at least 2 ranks, and a divisor of the group's {group}; it is {size}"
        )
    return size


def check_algorithm(settings: AllReduce) -> None:
    """Checks that the settings fit the algorithm.

    Raises:
        ConfigError: chunks for an algorithm that has none.
    """
    if settings.algorithm == "halving_doubling" and settings.chunks != 1:
        raise ConfigError("chunks", settings.chunks, "1: halving and doubling does not pipeline")


def all_reduce(settings: AllReduce, ranks: Ranks) -> OpGraph:
    """All-reduce, see `AllReduce`.

    Raises:
        ConfigError: algorithm, sizes and hosts do not fit together.
    """
    check_algorithm(settings)
    inner = inner_size(settings, ranks, settings.group_size or len(ranks))

    def one_pass(builder: Builder, groups: Array, gate: Array | None, step: int, job: int) -> tuple[Array, Array, int]:
        return add_all_reduce(builder, groups, settings.bytes, settings, inner, gate=gate, step=step, job=job)

    return _repeated(settings, ranks, one_pass)


def all_gather(settings: AllGather, ranks: Ranks) -> OpGraph:
    """Ring all-gather, see `AllGather`."""
    return _repeated(settings, ranks, _ring("gather", size_bytes=settings.bytes, chunks=settings.chunks))


def reduce_scatter(settings: ReduceScatter, ranks: Ranks) -> OpGraph:
    """Ring reduce-scatter, see `ReduceScatter`."""
    return _repeated(settings, ranks, _ring("reduce", size_bytes=settings.bytes, chunks=settings.chunks))


def all_to_all(settings: AllToAll, ranks: Ranks) -> OpGraph:
    """All-to-all, see `AllToAll`."""

    def one_pass(builder: Builder, groups: Array, gate: Array | None, step: int, job: int) -> tuple[Array, Array, int]:
        parallel = settings.parallel
        ops, peers = shift_exchange(builder, groups, settings.bytes, parallel=parallel, step=step, job=job, gate=gate)
        return ops, peers, groups.shape[1] - 1

    return _repeated(settings, ranks, one_pass)


def neighbours(settings: Neighbours, ranks: Ranks) -> OpGraph:
    """Exchange with the neighbours in rank, see `Neighbours`."""

    def one_pass(builder: Builder, groups: Array, gate: Array | None, step: int, job: int) -> tuple[Array, Array, int]:
        # With two ranks, the next one is also the previous one.
        ways = (-1, 1) if settings.direction == "both" and groups.shape[1] > 2 else (-1,)
        peers = np.stack([np.roll(groups, way, axis=1) for way in ways])
        ops = builder.sends(np.broadcast_to(groups, peers.shape), peers, settings.bytes, step=step, job=job)
        if gate is not None:
            builder.after(ops, gate)
        return ops, peers, 1

    return _repeated(settings, ranks, one_pass)
