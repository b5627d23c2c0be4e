"""Ranks of collectives over loopback: each is a process with a device and a world of its own."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from own_ports import UDP_PORT

from openmrc import Device
from openmrc.collectives import FileStore, World

Body = Callable[[World], Any]

LOOPBACK_PLANES = 2


class Ranks:
    """Processes that run `body(world)` at every rank for the duration of the block; remaining ones are then killed.

    Args:
        count: Number of ranks.
        folder: Of their store.
        body: Function of each rank; every rank waits for the others after it.
        ports: Of every rank's device, by rank; None: two on loopback.
        evs_per_port: Of every device; None: the default.
        sites: For the world.
        hosts: Of every rank that shares memory its host's name, of others None; empty: no rank does.
        world: Further arguments of a rank's world.
    """

    def __init__(
        self,
        count: int,
        folder: Path,
        body: Body,
        *,
        ports: Sequence[Sequence[str]] | None = None,
        evs_per_port: int | None = None,
        sites: Sequence[Sequence[int]] = (),
        hosts: Sequence[str | None] = (),
        world: Callable[[int], dict[str, Any]] | None = None,
    ) -> None:
        self._count, self._folder, self._body = count, folder, body
        self._ports = ports or [[f"127.0.{40 + n}.{rank + 1}" for n in range(LOOPBACK_PLANES)] for rank in range(count)]
        self._evs_per_port, self._sites, self._hosts = evs_per_port, sites, hosts
        self._world = world or (lambda _: {})
        context = multiprocessing.get_context("fork")
        self._answers = context.Queue()
        self._processes = [context.Process(target=self._run, args=(rank,)) for rank in range(count)]

    def __enter__(self) -> Self:
        for process in self._processes:
            process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
            process.join()

    def answers(self, of: Iterable[int] | None = None, *, timeout_s: float = 100) -> dict[int, Any]:
        """The results of the body, by rank; messages after the following barrier are ignored.

        Raises:
            AssertionError: the body raised at a rank, or the rank could not begin.
            queue.Empty: a rank is silent for too long.
        """
        wanted = set(range(self._count) if of is None else of)
        found: dict[int, Any] = {}
        while not wanted <= found.keys():
            found.setdefault(*self._answers.get(timeout=timeout_s))
        for answer in found.values():
            if isinstance(answer, BaseException):
                raise answer
        return found

    def pid(self, rank: int) -> int:
        """Process id of a rank."""
        pid = self._processes[rank].pid
        assert pid is not None
        return pid

    def join(self) -> None:
        """Waits until the ranks have ended by themselves."""
        for process in self._processes:
            process.join(30)

    def _run(self, rank: int) -> None:
        host = self._hosts[rank] if self._hosts else None
        more: dict[str, Any] = {"shared_memory": False} if host is None else {"host": host}
        more |= self._world(rank)
        try:
            with (
                Device(self._ports[rank], udp_port=UDP_PORT, evs_per_port=self._evs_per_port) as device,
                World(device, rank, self._count, FileStore(self._folder, 30), sites=self._sites, **more) as world,
            ):
                self._answers.put((rank, self._body(world)))
                world.group.barrier().wait(30)
        except BaseException:
            self._answers.put((rank, AssertionError(traceback.format_exc())))


def run_ranks(count: int, folder: Path, body: Body, **settings: Any) -> list[Any]:
    """The results of `body` at every rank. `settings`: those of `Ranks`."""
    with Ranks(count, folder, body, **settings) as ranks:
        found = ranks.answers()
        ranks.join()
    return [found[rank] for rank in range(count)]
