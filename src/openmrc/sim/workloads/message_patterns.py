"""The message patterns of collectives, for many groups of ranks at once.

A pattern adds its sends to a builder. `groups` is a matrix: row g lists the ranks of group g in order, all groups
having the same size. With `gate`, an op per rank, a rank sends its own data only after its gate has completed; without,
everything may start at once. A pattern returns its sends: a rank is done when all of them addressed to it have been
received.
"""

from __future__ import annotations

import numpy as np

from openmrc.errors import ConfigError
from openmrc.sim.ops import Array
from openmrc.sim.workloads.builder import Builder

__all__ = ["finish", "halving_doubling", "ring", "shift_exchange", "split", "tree"]


def split(size_bytes: int, parts: int) -> Array:
    """`parts` whole sizes that differ by at most one byte and add up to `size_bytes`, the larger ones first."""
    return size_bytes // parts + (np.arange(parts) < size_bytes % parts)


def finish(builder: Builder, groups: Array, sends: Array, peers: Array, *, step: int, job: int) -> Array:
    """Per rank of `groups` an op that completes when all sends addressed to the rank in `sends` were received.

    `peers` are the receivers of `sends`.

    Returns:
        Ops in the shape of `groups`.
    """
    done = builder.computes(groups, 0, step=step, job=job)
    at_rank = np.empty(int(groups.max()) + 1, dtype=np.int64)
    at_rank[groups] = done
    builder.after_receipt(at_rank[peers.ravel()], sends.ravel())
    return done


def ring(
    builder: Builder,
    groups: Array,
    size_bytes: int,
    rounds: tuple[str, ...],
    *,
    chunks: int = 1,
    step: int = 0,
    job: int = 0,
    gate: Array | None = None,
) -> tuple[Array, Array]:
    """A ring: `rounds` is ("reduce",) for reduce-scatter, ("gather",) for all-gather, both for all-reduce.

    The buffer of `size_bytes` has one segment per rank of the group, each cut into `chunks` that travel on their own.
    Segment j reduces from rank j + 1 around to rank j, and is gathered from rank j on around to rank j - 1. The send of
    a step waits for the receipt, at its host, of the same chunk's send of the step before.

    Returns:
        The sends and their receivers, in the order [step, chunk, group, rank].

    Raises:
        ConfigError: when a chunk would be empty.
    """
    count = groups.shape[1]
    if size_bytes < count * chunks:
        raise ConfigError("bytes", size_bytes, f"at least 1 byte in each of {count} segments of {chunks} chunks")
    if count == 1:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    segments = np.stack([split(int(segment), chunks) for segment in split(size_bytes, count)], axis=1)
    rank = np.arange(count)
    steps = [(kind, s) for kind in rounds for s in range(count - 1)]
    # Reduce: in step s rank i forwards segment i - s - 1. Gather: segment i - s, its own first.
    moved = np.stack([(rank - s - (kind == "reduce")) % count for kind, s in steps])
    sizes = segments[:, moved].transpose(1, 0, 2)[:, :, None, :]
    peers = np.roll(groups, -1, axis=1)
    shape = (len(steps), chunks, *groups.shape)
    labels = step + np.arange(len(steps))[:, None, None, None]
    ops = builder.sends(np.broadcast_to(groups, shape), peers, np.broadcast_to(sizes, shape), step=labels, job=job)
    builder.after_receipt(ops[1:], np.roll(ops[:-1], 1, axis=3))
    if gate is not None:
        reducing = max(rounds.count("reduce") * (count - 1), 1)
        builder.after(ops[:reducing], gate)
    return ops, np.broadcast_to(peers, shape)


def tree(
    builder: Builder,
    groups: Array,
    size_bytes: int,
    *,
    chunks: int = 1,
    step: int = 0,
    job: int = 0,
    gate: Array | None = None,
) -> tuple[Array, Array]:
    """All-reduce over one binary tree (rank i's parent is (i - 1) // 2): chunks reduce up to rank 0, then go down.

    A rank sends a chunk up when both children's have arrived, and down when its parent's has.

    Returns:
        The sends and their receivers, in the order [up and down, chunk, group, rank but the root].

    Raises:
        ConfigError: when a chunk would be empty.
    """
    if size_bytes < chunks:
        raise ConfigError("bytes", size_bytes, f"at least 1 byte in each of {chunks} chunks")
    child = np.arange(1, groups.shape[1])
    if not len(child):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    parent = (child - 1) // 2
    ends = (groups[:, child], groups[:, parent])
    sizes = split(size_bytes, chunks)[:, None, None]
    up = builder.sends(*ends, sizes, step=step, job=job)
    down = builder.sends(*ends[::-1], sizes, step=step + 1, job=job)
    # The link to rank c is at c - 1.
    inner = child[parent > 0]
    builder.after_receipt(up[:, :, parent[inner - 1] - 1], up[:, :, inner - 1])
    builder.after_receipt(down[:, :, inner - 1], down[:, :, parent[inner - 1] - 1])
    root_children = child[parent == 0] - 1
    for arrived in root_children:
        builder.after_receipt(down[:, :, root_children], up[:, :, [arrived]])
    if gate is not None:
        builder.after(up, gate[:, child])
        builder.after(down[:, :, root_children], gate[:, [0]])
    peers = np.stack([np.broadcast_to(ends[1], up.shape), np.broadcast_to(ends[0], up.shape)])
    return np.stack([up, down]), peers


def halving_doubling(
    builder: Builder, groups: Array, size_bytes: int, *, step: int = 0, job: int = 0, gate: Array | None = None
) -> tuple[Array, Array]:
    """All-reduce by recursive halving (reduce-scatter) and doubling (all-gather), partners 1, 2, 4, ... ranks apart.

    In halving step k partners keep one half each of what they still hold, and send the other: the pair nearest in rank
    exchanges the largest halves. Doubling goes back the same way. A step waits for the receipt of the step before.

    Returns:
        The sends and their receivers, in the order [step, group, rank].

    Raises:
        ConfigError: when the group is no power of two, or a part would be empty.
    """
    count = groups.shape[1]
    if count & (count - 1):
        raise ConfigError("hosts", count, "a power of two for halving and doubling", hint="use a ring or a tree")
    if size_bytes < count:
        raise ConfigError("bytes", size_bytes, f"at least 1 byte in each of {count} parts")
    if count == 1:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    rank, depth = np.arange(count), count.bit_length() - 1
    held = np.full(count, size_bytes)
    given = []
    for k in range(depth):
        larger = (rank >> k) & 1 == 0  # of two unequal halves the lower partner keeps the larger
        kept = np.where(larger, held - held // 2, held // 2)
        given.append(held - kept)
        held = kept
    # In doubling, a rank passes on all its data: its partner's part of that halving step.
    sizes = given + [given[k][rank ^ (1 << k)] for k in reversed(range(depth))]
    partners = [rank ^ (1 << k) for k in (*range(depth), *reversed(range(depth)))]
    ops, peers = [], []
    for s, (partner, size) in enumerate(zip(partners, sizes, strict=True)):
        peer = groups[:, partner]
        ops.append(builder.sends(groups, peer, size, step=step + s, job=job))
        peers.append(peer)
        if s:
            builder.after_receipt(ops[s], ops[s - 1][:, partners[s - 1]])
        if gate is not None and s < depth:
            builder.after(ops[s], gate)
    return np.stack(ops), np.stack(peers)


def shift_exchange(
    builder: Builder,
    groups: Array,
    size_bytes: int,
    *,
    parallel: int = 0,
    step: int = 0,
    job: int = 0,
    gate: Array | None = None,
) -> tuple[Array, Array]:
    """All-to-all by a linear shift: in step s rank i sends `size_bytes` to rank i + s + 1.

    At most `parallel` sends of a rank are unacknowledged (0: all go at once, as NCCL groups them): send s waits for the
    completion of send s - parallel.

    Returns:
        The sends and their receivers, in the order [step, group, rank].
    """
    count = groups.shape[1]
    shifts = np.arange(1, count)
    peers = groups[:, (np.arange(count) + shifts[:, None]) % count].transpose(1, 0, 2)
    labels = step + np.arange(count - 1)[:, None, None]
    ops = builder.sends(np.broadcast_to(groups, peers.shape), peers, size_bytes, step=labels, job=job)
    if parallel:
        builder.after(ops[parallel:], ops[:-parallel])
    if gate is not None:
        builder.after(ops[: parallel or count], gate)
    return ops, peers
