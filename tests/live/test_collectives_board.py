"""Small all-reduces and barriers of ranks that share memory: groups side by side, many at once, a rank that dies."""

from __future__ import annotations

import os
import random
import signal
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from collective_ranks import Ranks, run_ranks

from openmrc.collectives import CollectiveError, World

pytestmark = [pytest.mark.live]

RANKS = 4
SUBGROUPS = ((0, 1), (2, 3), (0, 2, 3), (3, 1))


def by_chance(world: World) -> bool:
    """Random sequences of operations, some of them awaited later; the same at all members of a group."""
    groups = [world.group] + [
        world.new_group(members, f"part{number}") for number, members in enumerate(SUBGROUPS) if world.rank in members
    ]
    draws = {group.name: random.Random(group.name) for group in groups}
    running = []
    for _ in range(300):
        for group in groups:
            draw = draws[group.name]
            if draw.random() < 0.3:
                running.append((group.barrier(), None, 0.0))
                continue
            value, count = draw.randrange(100), draw.choice([1, 7, 64, 200])
            buffer = np.full(count, value + group.rank, np.float32)
            expected = value * group.size + group.size * (group.size - 1) / 2
            running.append((group.all_reduce(buffer), buffer, expected))
        if draws[world.group.name].random() < 0.1:
            for work, buffer, expected in running:
                work.wait(30)
                assert buffer is None or (buffer == expected).all()
            running.clear()
    for work, _, _ in running:
        work.wait(30)
    return True


def test_groups_and_operations_side_by_side_get_their_own_results(tmp_path: Path):
    assert all(run_ranks(RANKS, tmp_path, by_chance, hosts=[""] * RANKS))


def test_a_rank_without_shared_memory_is_served_as_well(tmp_path: Path):
    assert all(run_ranks(RANKS, tmp_path, by_chance, hosts=["", "", "", None]))


def ordered(world: World) -> bytes:
    """Sums of numbers of very different magnitude, bit for bit."""
    found = b""
    for count in (1, 2, 31, 64):
        buffer = np.random.default_rng(world.rank + count).standard_normal(count).astype(np.float32) * 10.0**world.rank
        world.group.all_reduce(buffer).wait(30)
        found += buffer.tobytes()
    return found


def test_all_ranks_get_the_same_bits(tmp_path: Path):
    assert len(set(run_ranks(RANKS, tmp_path, ordered, hosts=[""] * RANKS))) == 1


def ahead(world: World, folder: Path) -> bool:
    """Far more barriers at once than a board has room for, while a rank is late; then one for which another is late.
    True: the late one had called it.
    """
    if world.rank == 1:
        time.sleep(0.3)
    for work in [world.group.barrier() for _ in range(100)]:
        work.wait(30)
    if world.rank == 0:
        time.sleep(0.2)
        (folder / "called").touch()
    world.group.barrier().wait(30)
    return (folder / "called").exists()


def test_a_barrier_ends_after_the_last_call(tmp_path: Path):
    assert all(run_ranks(RANKS, tmp_path, partial(ahead, folder=tmp_path), hosts=[""] * RANKS))


def deserted(world: World) -> str:
    buffer = np.zeros(2, np.float32)
    try:
        for number in range(1_000_000):
            if world.rank == 1 and number == 3000:
                os.kill(os.getpid(), signal.SIGKILL)
            work = world.group.barrier() if number % 2 else world.group.all_reduce(buffer)
            work.wait(30)
    except CollectiveError as error:
        return str(error)
    return ""


def test_a_rank_that_dies_amid_small_operations_is_named(tmp_path: Path):
    with Ranks(RANKS, tmp_path, deserted, hosts=[""] * RANKS) as ranks:
        found = ranks.answers([0, 2, 3])
    assert all("rank 1 is gone: its process was killed by SIGKILL" in text for text in found.values()), found
