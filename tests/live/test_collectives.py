"""Collectives between real processes over loopback: every operation, odd sizes, groups, failures."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collective_ranks import Ranks, run_ranks
from own_ports import UDP_PORT, with_own_devices

from openmrc import Device
from openmrc.collectives import CollectiveError, FileStore, Group, ReduceOp, World
from openmrc.errors import ConfigError

pytestmark = [pytest.mark.live]

SIZES = (0, 1, 3, 7, 1021, 100_003)
Body = Callable[[Group], Any]


def run(ranks: int, folder: Path, body: Body) -> list[Any]:
    return run_ranks(ranks, folder, lambda world: body(world.group))


def numbers(rank: int, count: int, dtype: str) -> np.ndarray:
    values = np.random.default_rng(rank).integers(0, 3, count)
    return values.astype(dtype)


def reductions(group: Group) -> list[str]:
    wrong = []
    wanted = {ReduceOp.SUM: np.add, ReduceOp.PROD: np.multiply, ReduceOp.MIN: np.minimum, ReduceOp.MAX: np.maximum}
    for dtype in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8"):
        for op, ufunc in wanted.items():
            count = 1021
            parts = [numbers(rank, count, dtype) for rank in range(group.size)]
            expected = ufunc.reduce(parts, dtype=dtype)
            for algorithm in ("ring", "direct", "doubling", "halving", "tree"):
                mine = parts[group.rank].copy()
                group.all_reduce(mine, op, algorithm=algorithm).wait(30)
                if not np.array_equal(mine, expected):
                    wrong.append(f"{dtype} {op.name} {algorithm}")
    return wrong


def everything(group: Group) -> list[str]:
    wrong = []
    rank, ranks = group.rank, group.size

    def check(what: str, found: np.ndarray, expected: np.ndarray) -> None:
        if not np.array_equal(found, expected):
            wrong.append(what)

    for size in SIZES:
        blocks = np.repeat(np.arange(ranks, dtype=np.int32), size)
        own = np.full(size, rank, np.int32)
        for algorithm in ("ring", "direct"):
            out = np.empty(size * ranks, np.int32)
            group.all_gather(out, own, algorithm=algorithm).wait(30)
            check(f"all_gather {algorithm} {size}", out, blocks)
        out = np.empty(size, np.int32)
        group.reduce_scatter(out, np.tile(np.arange(size, dtype=np.int32), ranks) + rank).wait(30)
        check(f"reduce_scatter {size}", out, np.arange(size, dtype=np.int32) * ranks + ranks * (ranks - 1) // 2)
        for root in {0, ranks - 1}:
            for algorithm in ("chain", "tree"):
                out = own.copy()
                group.broadcast(out, root, algorithm=algorithm).wait(30)
                check(f"broadcast {algorithm} {size}", out, np.full(size, root, np.int32))
                out = own + 1
                group.reduce(out, root, algorithm=algorithm).wait(30)
                if rank == root:
                    check(f"reduce {algorithm} {size}", out, np.full(size, ranks * (ranks + 1) // 2, np.int32))
            whole = np.empty(size * ranks, np.int32) if rank == root else None
            group.gather(whole, own, root).wait(30)
            if whole is not None:
                check(f"gather {size}", whole, blocks)
            out = np.empty(size, np.int32)
            group.scatter(out, blocks if rank == root else None, root).wait(30)
            check(f"scatter {size}", out, own)
        out = np.empty(size * ranks, np.int32)
        group.all_to_all(out, np.repeat(np.arange(ranks, dtype=np.int32), size) + 10 * rank).wait(30)
        check(f"all_to_all {size}", out, blocks * 10 + rank)
        right, left = (rank + 1) % ranks, (rank - 1) % ranks
        if ranks > 1:
            sending, out = group.send(own, right), np.empty(size, np.int32)
            group.recv(out, left).wait(30)
            sending.wait(30)
            check(f"send {size}", out, np.full(size, left, np.int32))
    return wrong


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_collective_of_every_size(tmp_path: Path, ranks: int):
    assert run(ranks, tmp_path, everything) == [[]] * ranks


def test_every_type_and_operation_reduces_as_numpy_does(tmp_path: Path):
    assert run(3, tmp_path, reductions) == [[]] * 3


def overlapping(group: Group) -> bool:
    """Twenty operations at once on two groups and both traffic classes, waited for in reverse order."""
    halves = group.world.new_group([rank for rank in range(group.size) if rank % 2 == group.rank % 2], "halves")
    buffers, works = [], []
    for number in range(20):
        where = group if number % 2 else halves
        buffers.append((where, np.full(50_000 if number % 3 else 3, group.rank + number, np.int64)))
        works.append(where.all_reduce(buffers[-1][1], traffic_class="critical" if number % 5 == 0 else "bulk"))
    for work in reversed(works):
        work.wait(30)
    return all(
        np.all(buffer == sum(rank + number for rank in where.members)) for number, (where, buffer) in enumerate(buffers)
    )


def test_operations_of_several_groups_run_at_once(tmp_path: Path):
    assert run(4, tmp_path, overlapping) == [True] * 4


def deserted(group: Group) -> str:
    if group.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        group.all_reduce(np.ones(1_000_000)).wait(60)
    except CollectiveError as error:
        time.sleep(1)  # a rank that left earlier would count as gone for one that has not detected the failure yet
        return f"{error.rank}: {error}"
    return "no error"


def test_a_rank_that_dies_is_named_at_the_others(tmp_path: Path):
    with Ranks(3, tmp_path, lambda world: deserted(world.group)) as ranks:
        found = ranks.answers(of=(0, 2))
    for answer in found.values():
        assert answer.startswith("1: all_reduce of world failed at rank 1: rank 1 is gone")


def mistaken(group: Group) -> list[str]:
    said = []
    attempts: list[Callable[[], Any]] = [
        lambda: group.all_reduce(np.ones(3, complex)),
        lambda: group.all_reduce(np.ones((4, 4))[:, ::2]),
        lambda: group.all_reduce(np.ones(3), ReduceOp.XOR),
        lambda: group.all_reduce(np.ones(3), algorithm="rign"),
        lambda: group.all_reduce(np.ones(3), traffic_class="urgent"),
        lambda: group.all_gather(np.ones(3), np.ones(3)),
        lambda: group.broadcast(np.ones(3), root=2),
        lambda: group.all_to_all(np.ones(3), np.ones(4)),
        lambda: group.send(np.ones(3), group.rank),
    ]
    for attempt in attempts:
        try:
            attempt()
        except ConfigError as error:
            said.append(error.field)
    return said


def test_mistakes_name_the_field(tmp_path: Path):
    expected = ["dtype", "buffer", "op", "algorithm", "traffic_class", "output", "root", "output_counts", "to"]
    assert run(2, tmp_path, mistaken) == [expected] * 2


def test_ranks_that_do_not_come_are_named(tmp_path: Path):
    store = FileStore(tmp_path, 60)
    with Device(["127.0.40.1"], udp_port=UDP_PORT) as device:
        with pytest.raises(TimeoutError, match="ranks 1, 2 of 'world' did not connect"):
            World(device, 0, 3, store, timeout_s=0.2)
        with pytest.raises(ConfigError, match="sites"):
            World(device, 0, 3, store, sites=[[0, 1], [1, 2]])


def test_the_example_reduces_over_three_processes(repository: Path, tmp_path: Path):
    program = tmp_path / "all_reduce.py"
    program.write_text(with_own_devices((repository / "examples" / program.name).read_text()))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    said = re.findall(r"rank (\d): mean 2 by ring, most steps 20", done.stdout)  # lines of processes may interleave
    assert sorted(said) == ["0", "1", "2"]


def disagreeing(group: Group) -> str:
    try:
        group.all_reduce(np.ones(100 if group.rank else 200)).wait(30)
    except CollectiveError as error:
        return str(error)
    return "no error"


def test_ranks_that_disagree_about_the_size_are_told(tmp_path: Path):
    with Ranks(2, tmp_path, lambda world: disagreeing(world.group)) as ranks:
        found = ranks.answers()
    assert "no error" not in found.values()
    assert "rank 1: its call of all_reduce differs in size (800 bytes, here 1600 bytes)" in found[0]
    assert "rank 0: its call of all_reduce differs in size (1600 bytes, here 800 bytes)" in found[1]
