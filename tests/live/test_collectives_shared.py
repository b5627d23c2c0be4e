"""Ranks on one host share memory: the same bits, nothing over the network, and nothing left behind."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collective_ranks import Ranks, run_ranks
from own_ports import UDP_PORT
from waiting import until

from openmrc import Device
from openmrc.collectives import CollectiveError, FileStore, Group, ReduceOp, World
from openmrc.collectives.world import TRAFFIC_CLASSES
from openmrc.errors import ConfigError

pytestmark = [pytest.mark.live]

SIZES = (0, 1, 1021, 300_007)

GroupBody = Callable[[Group], Any]
# Host name of each rank; None: it shares no memory.
Hosts = Sequence[str | None]
Sites = Sequence[Sequence[int]]


def run(hosts: Hosts, folder: Path, body: GroupBody, sites: Sites = ()) -> dict[int, Any]:
    """Results of `body`, by rank."""
    return dict(enumerate(run_ranks(len(hosts), folder, lambda world: body(world.group), hosts=hosts, sites=sites)))


def part(rank: int, count: int, dtype: str = "float32") -> np.ndarray:
    """Numbers of very different magnitude: another order of additions gives other bits."""
    draw = np.random.default_rng(rank)
    return (draw.standard_normal(count) * 10.0 ** draw.integers(-3, 3, count)).astype(dtype)


def digest(buffer: np.ndarray) -> str:
    return hashlib.sha256(buffer.tobytes()).hexdigest()


def everything(group: Group) -> dict[str, str]:
    """Digests of the results of every operation and algorithm."""
    found: dict[str, str] = {}
    rank, ranks = group.rank, group.size
    for size in SIZES:
        for algorithm in ("ring", "direct", "doubling", "halving"):
            for dtype in ("float32", "float16"):
                buffer = part(rank, size, dtype)
                group.all_reduce(buffer, algorithm=algorithm).wait(30)
                found[f"all_reduce {algorithm} {dtype} {size}"] = digest(buffer)
        whole, out = part(rank, size * ranks), part(0, size)
        group.reduce_scatter(out, whole, ReduceOp.AVG, algorithm="ring").wait(30)
        found[f"reduce_scatter {size}"] = digest(out)
        for algorithm in ("ring", "direct"):
            whole = part(0, size * ranks)
            group.all_gather(whole, part(rank, size), algorithm=algorithm).wait(30)
            found[f"all_gather {algorithm} {size}"] = digest(whole)
        for algorithm in ("chain", "tree"):
            buffer = part(rank, size)
            group.reduce(buffer, ranks - 1, ReduceOp.PREMUL_SUM, factor=0.3, algorithm=algorithm).wait(30)
            group.broadcast(buffer, ranks - 1, algorithm=algorithm, traffic_class="critical").wait(30)
            found[f"reduce, broadcast {algorithm} {size}"] = digest(buffer)
        gathered = np.zeros(size * ranks, np.float32) if rank == 0 else None
        group.gather(gathered, part(rank, size)).wait(30)
        group.scatter(out, gathered).wait(30)
        found[f"gather, scatter {size}"] = digest(out)
        whole = part(0, size * ranks)
        group.all_to_all(whole, part(rank, size * ranks)).wait(30)
        found[f"all_to_all {size}"] = digest(whole)
        sending = group.send(part(rank, size), (rank + 1) % ranks)
        group.recv(out, (rank - 1) % ranks).wait(30)
        sending.wait(30)
        found[f"send {size}"] = digest(out)
    works = [group.all_reduce(part(rank, 100_003 + number)) for number in range(8)]
    for work in reversed(works):
        work.wait(30)
    return found


def traffic(group: Group, body: GroupBody) -> tuple[Any, dict[int, int], dict[str, int]]:
    """Result of `body`, bytes sent over the QPs to each rank, and the executor's counters."""
    answer, world = body(group), group.world
    others = [rank for rank in range(world.size) if rank != world.rank]
    sent = {rank: sum(world.qp_statistics(rank)[name].sent_bytes for name in TRAFFIC_CLASSES) for rank in others}
    return answer, sent, world.statistics()


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_every_collective_has_the_same_bits_and_sends_nothing_over_qps(tmp_path: Path, ranks: int):
    over_qps = run([None] * ranks, tmp_path / "qps", everything)
    shared = run([""] * ranks, tmp_path / "shared", partial(traffic, body=everything))
    for rank, (digests, sent, counters) in shared.items():
        assert digests == over_qps[rank]
        assert set(sent.values()) == {0}
        assert counters["shared_bytes"] > 0
        assert counters["slot_messages"] == counters["direct_messages"] == counters["protocol_errors"] == 0


def across(group: Group) -> dict[str, str]:
    """Digests of the results of the hierarchical algorithms."""
    found: dict[str, str] = {}
    rank, ranks = group.rank, group.size
    for size in SIZES:
        buffer = part(rank, size)
        group.all_reduce(buffer, ReduceOp.AVG, algorithm="hierarchical").wait(30)
        found[f"all_reduce {size}"] = digest(buffer)
        whole, out = np.resize(buffer, size // 2 * ranks), part(0, size // 2)
        group.reduce_scatter(out, whole, algorithm="hierarchical").wait(30)
        found[f"reduce_scatter {size}"] = digest(out)
        group.all_gather(whole, out, algorithm="hierarchical").wait(30)
        found[f"all_gather {size}"] = digest(whole)
    return found


def test_hosts_and_sites_give_the_same_bits(tmp_path: Path):
    sites = [[0, 2], [1, 3]]
    over_qps = run([None] * 4, tmp_path / "qps", across, sites=sites)
    assert run(["a", "b", "a", "b"], tmp_path / "shared", across) == over_qps
    assert run([""] * 4, tmp_path / "overridden", across, sites=sites) == over_qps


def in_segments(group: Group) -> bool:
    buffer = np.full(17_000_003, group.rank + 1, np.float32)
    group.all_reduce(buffer).wait(60)
    return bool(np.all(buffer == sum(range(group.size + 1))))


def test_operations_beyond_scratch_memory_go_in_segments(tmp_path: Path):
    assert run(["", ""], tmp_path, in_segments) == {0: True, 1: True}


def halves(group: Group) -> tuple[tuple[int, ...], Any, str, str]:
    buffer = part(group.rank, 300_007)
    work = group.all_reduce(buffer)
    work.wait(30)
    return group.world.neighbours, group.sites, work.algorithm, digest(buffer)


def test_hosts_by_name_are_the_sites_and_only_columns_cross_the_network(tmp_path: Path):
    found = run(["a", "b", "a", "b"], tmp_path / "shared", partial(traffic, body=halves))
    for rank, ((neighbours, sites, algorithm, _), sent, _) in found.items():
        assert neighbours == ((rank + 2) % 4,)
        assert sites == ((0, 2), (1, 3))
        assert algorithm == "hierarchical"
        column = rank ^ 1
        assert {peer for peer, count in sent.items() if count} == {column}
        assert 300_007 * 4 / 2 <= sent[column] < 1.2 * 300_007 * 4 / 2  # its half goes both ways, by halves
    assert len({answer[3] for answer, _, _ in found.values()}) == 1


def test_ranks_that_refuse_are_served_over_qps(tmp_path: Path):
    over_qps = run([None] * 3, tmp_path / "qps", halves)
    mixed = run(["", None, ""], tmp_path / "mixed", halves)
    assert [mixed[rank][0] for rank in range(3)] == [(2,), (), (0,)]
    assert {mixed[rank][1] for rank in range(3)} == {((0, 2), (1,))}
    assert {mixed[rank][2] for rank in range(3)} == {"hierarchical"}
    assert {over_qps[rank][2] for rank in range(3)} == {"ring"}


def deserted(group: Group, bytes_before: int) -> str:
    buffer = np.ones(bytes_before // 8)
    try:
        if group.rank == 1:
            group.all_reduce(buffer, algorithm="ring")
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            group.all_reduce(buffer, algorithm="ring").wait(60)
    except CollectiveError as error:
        FileStore(Path(os.environ["DESERTED"])).set(str(group.rank), "")
        FileStore(Path(os.environ["DESERTED"]), 30).get(str(2 - group.rank))  # keeps this rank from leaving, too
        return f"{error.rank}: {error}"


@pytest.mark.parametrize("bytes_before", [8, 8_000_000])
def test_a_rank_that_is_killed_is_named(tmp_path: Path, bytes_before: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DESERTED", str(tmp_path / "deserted"))
    with Ranks(3, tmp_path / "store", lambda world: deserted(world.group, bytes_before), hosts=[""] * 3) as ranks:
        found = ranks.answers([0, 2])
    for answer in found.values():
        # Their parent does not fetch the status before the test is over, so that every Linux shows it.
        assert answer == "1: all_reduce of world failed at rank 1: rank 1 is gone: its process was killed by SIGKILL"


def reported(world: World) -> str:
    """Rank 0 shares the host of rank 1, which dies, and leaves when rank 2 has noticed the loss by itself."""
    signs = FileStore(Path(os.environ["DESERTED"]), 30)
    assert world.statistics()["descriptors"] == 2 + len(world.neighbours)
    if world.rank == 1:
        signs.get("noticed before")
        os.kill(os.getpid(), signal.SIGKILL)
    if world.rank == 2:
        signs.set("noticed before", "")
        until(lambda: 1 in world.missing)
        assert world.missing[1].startswith("it ended without a goodbye")
        signs.set("noticed", "")
        until(lambda: 0 in world.missing)
        return world.missing[1]
    signs.get("noticed")
    until(lambda: 1 in world.missing)
    world.close(goodbye=False, reason="its operation failed")
    return world.missing[1]


def test_ranks_on_other_hosts_learn_the_signal_from_those_beside_the_killed_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DESERTED", str(tmp_path / "signs"))
    with Ranks(3, tmp_path / "store", reported, hosts=["a", "a", "b"]) as ranks:
        found = ranks.answers([0, 2])
    assert found == dict.fromkeys((0, 2), "its process was killed by SIGKILL")


def shared_files(group: Group) -> tuple[int, list[str], int]:
    """Amount and names of the shared memory mapped by this rank, and the number of its files that others could still
    open.
    """
    group.barrier().wait(30)
    maps = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines()]
    names = [fields[5] for fields in maps if len(fields) == 6 and "openmrc" in fields[5] and "memfd" in fields[5]]
    open_files = [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.exists()]
    return len(names), sorted(set(names)), sum("memfd" in name for name in open_files)


def test_shared_memory_has_no_name_that_could_be_left_behind(tmp_path: Path):
    for mapped, names, still_open in run([""] * 3, tmp_path, shared_files).values():
        assert mapped == 7  # one for each peer and direction, and the board of each rank
        assert names == ["/memfd:openmrc-collectives (deleted)"]
        assert still_open == 0


def test_a_host_name_without_shared_memory_is_a_mistake(tmp_path: Path):
    with (
        Device(["127.0.40.1"], udp_port=UDP_PORT) as device,
        pytest.raises(ConfigError, match="drop shared_memory=False"),
    ):
        World(device, 0, 1, FileStore(tmp_path), shared_memory=False, host="a")
