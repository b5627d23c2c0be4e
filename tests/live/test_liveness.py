"""A peer is gone after a goodbye or without an answer on any plane, but not because of a lost TCP connection or
slowness.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collective_ranks import Ranks
from own_ports import UDP_PORT

from openmrc.collectives import CollectiveError, FileStore, World
from openmrc.connection import QpSettings
from openmrc.emulate import EmulatedFabric
from openmrc.fabric import Fabric, host_ports, make_fabric

pytestmark = [pytest.mark.live]

SHORT = QpSettings(timeout_exponent=8)  # 10 exponential retries of these end after 0.6 s


def end_tcp(world: World) -> None:
    """Ends every TCP connection of the rank, like a middlebox that drops its state."""
    for link in world._links.values():
        if link._socket is not None:
            with suppress(OSError):
                link._socket.shutdown(socket.SHUT_RDWR)


def believe_in_all(world: World) -> None:
    """Returns when this rank has verified that its peers live although TCP has ended."""
    while any(link._tcp_open or link._suspected_at is not None for link in world._links.values() if link._socket):
        time.sleep(0.01)


def meet(world: World, folder: Path) -> None:
    """Returns when all ranks are here. An operation may end before its last messages have left: a rank that dies or
    stops then keeps them from the others.
    """
    signs = FileStore(folder / "signs", 60)
    signs.set(str(world.rank), "")
    for rank in range(world.size):
        signs.get(str(rank))


def reductions(world: World, count: int) -> float:
    """Result of many consecutive all-reduces of a one."""
    buffer = np.ones(5_000, np.float32)
    for _ in range(count):
        world.group.all_reduce(buffer).wait(30)
        buffer /= world.size
    return float(buffer[-1])


def failure(world: World, operation: Callable[[], Any]) -> tuple[int | None, str, list[int]]:
    """The rank in an operation's failure, the words of the failure, and the ranks that are missing then."""
    try:
        while True:
            operation()
    except CollectiveError as error:
        return error.rank, str(error), list(world.missing)


def test_a_job_lives_on_without_tcp(tmp_path: Path):
    def body(world: World) -> tuple[float, dict[int, str]]:
        reductions(world, 1)
        if world.rank == 1:
            end_tcp(world)
        time.sleep(0.5)  # nothing is sent meanwhile: the planes are probed
        return reductions(world, 20), world.missing

    with Ranks(3, tmp_path, body) as ranks:
        assert set(map(repr, ranks.answers().values())) == {repr((1.0, {}))}
        ranks.join()


def test_a_rank_that_dies_without_tcp_is_named_after_the_timeout(tmp_path: Path):
    def body(world: World) -> Any:
        reductions(world, 1)
        end_tcp(world)
        believe_in_all(world)
        reductions(world, 20)
        meet(world, tmp_path)
        if world.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        # Both survivors wait for rank 1 itself; in a tree one would wait for the other.
        return failure(world, lambda: world.group.all_reduce(np.zeros(2), algorithm="direct").wait(60))

    with Ranks(3, tmp_path, body, world=lambda _: {"timeout_s": 6.0}) as ranks:
        for rank, words, missing in ranks.answers([0, 2]).values():
            assert (rank, missing[0]) == (1, 1)
            assert "rank 1 is gone: no answer on any plane for 6 s" in words


def stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_a_rank_that_is_stopped_for_less_than_the_timeout_is_waited_for(tmp_path: Path):
    def body(world: World) -> float:
        reductions(world, 5)
        if world.rank == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        return reductions(world, 5)

    with Ranks(3, tmp_path, body, world=lambda _: {"timeout_s": 40.0, "settings": SHORT}) as ranks:
        while not stopped(ranks.pid(1)):
            time.sleep(0.01)
        time.sleep(3)  # five times the retry time of a QP with these settings
        os.kill(ranks.pid(1), signal.SIGCONT)
        assert ranks.answers() == {0: 1.0, 1: 1.0, 2: 1.0}
        ranks.join()


def test_all_ranks_name_the_one_that_was_lost_first(tmp_path: Path):
    """Rank 0 loses rank 2, which is stopped, and ends; rank 1, with a longer limit, does not blame rank 0."""

    def body(world: World) -> Any:
        reductions(world, 1)
        meet(world, tmp_path)
        if world.rank == 2:
            os.kill(os.getpid(), signal.SIGSTOP)
        buffer = np.zeros(3)
        group = world.group
        try:
            return failure(world, lambda: (group.barrier() if world.rank == 0 else group.recv(buffer, 0)).wait(60))
        finally:
            if world.rank == 0:
                world.close(goodbye=False)

    with Ranks(3, tmp_path, body, world=lambda rank: {"timeout_s": 5.0} if rank == 0 else {}) as ranks:
        found = ranks.answers([0, 1])
        assert found[0][0] == 2
        rank, words, missing = found[1]
        assert (rank, missing) == (2, [2, 0])
        assert "failed at rank 2: rank 2 is gone: no answer on any plane for 5 s" in words


def planes() -> Fabric:
    return make_fabric(
        planes=2,
        hosts=2,
        hosts_per_t0=1,
        t1s=1,
        rate="200Mbit",
        delay="50us",
        address_base="127.118.0.0",
        udp_port=UDP_PORT,
    )


def test_a_rank_that_leaves_waits_until_its_last_messages_have_arrived(tmp_path: Path):
    """Every plane is dead for longer than the earlier limit of two seconds for a leaving rank."""
    ports = [[str(port) for port in host_ports(planes(), rank)] for rank in range(2)]

    def body(world: World) -> float:
        signs = FileStore(tmp_path, 30)
        buffer = np.full(100, float(world.rank == 0))
        if world.rank == 0:
            world.group.barrier().wait(30)
            signs.set("begun", "")
            signs.get("struck")
            world.group.send(buffer, 1).wait(30)
            world.close()
        else:
            world.group.barrier().wait(30)
            world.group.recv(buffer, 0).wait(60)
        return float(buffer[99])

    with Ranks(2, tmp_path, body, ports=ports, evs_per_port=16) as ranks, EmulatedFabric(planes()) as fabric:
        FileStore(tmp_path, 30).get("begun")
        fabric.inject("all blackhole for 3s")
        FileStore(tmp_path, 30).set("struck", "")
        assert ranks.answers([1])[1] == 1.0
