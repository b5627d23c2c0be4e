"""One rank of a benchmark of collectives, with the backend in its argument: openmrc, Gloo, Open MPI or NCCL.

    python -m _collective_rank JSON

The argument has "backend", "rank", "ranks", "store" (a folder, for rendezvous), "works", and the backend's settings. A
work is {"name", "bytes", "in_flight", "warm", "rounds"}: `rounds` times, after `warm` uncounted rounds, `in_flight`
operations with `bytes` in total. With "classes" in place of "rounds" it is a round in each of these traffic classes,
and with "beside" all of them during an all-gather of that size: a round that began later has no seconds. NCCL
also has the work "contents", which checks every operation.

Rank 0 sends {"work": number} at the start of the work with this number, from 1 on, and in the end {"measured": [begin,
seconds, processor seconds] of each round of each work}; other ranks send {"left": rank}, except those of Open MPI,
which share one pipe. They end at the parent's request.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np

from openmrc.runs.processes.child import Pipe, adopt, cpu_s
from openmrc.runs.processes.processor_time import MachineTime
from openmrc.variables import PORTS

Once = Callable[[], None]
STORE_PORT = 29401


class Mrc:
    """openmrc, over the given ports or paths."""

    def __init__(self, spec: dict[str, Any]) -> None:
        from openmrc import Device
        from openmrc.collectives import FileStore, World
        from openmrc.connection import QpSettings

        self.device = Device(spec["ports"], **spec.get("device", {}))
        store = FileStore(spec["store"], 60)
        settings = QpSettings(**spec.get("qp", {}))
        self.world = World(
            self.device,
            spec["rank"],
            spec["ranks"],
            store,
            address=spec["address"],
            settings=settings,
            **spec.get("world", {}),
        )
        self._gathered = self._own = np.zeros(0, np.uint8)

    def once(self, work: dict[str, Any], parts: list[Any], traffic_class: str = "bulk") -> Once:
        group = self.world.group
        if work["name"] == "barrier":
            return lambda: group.barrier().wait(60)
        if len(parts) == 1:
            return lambda: group.all_reduce(parts[0], traffic_class=traffic_class).wait(60)

        def several() -> None:
            for work in [group.all_reduce(part) for part in parts]:
                work.wait(60)

        return several

    def meet(self) -> None:
        self.world.group.barrier().wait(60)

    def gather(self, total_bytes: int, seed: int) -> Any:
        """Starts an all-gather with this total size; `check` it when it is done."""
        group = self.world.group
        if len(self._gathered) != total_bytes:  # page faults of new memory would be part of the measurement
            self._gathered = np.ones(total_bytes, np.uint8)
            self._own = np.ones(total_bytes // group.size, np.uint8)
        self._own[:] = seed + group.rank
        self.meet()
        return group.all_gather(self._gathered, self._own)

    def check(self, seed: int) -> None:
        """Checks that every gathered part is its rank's."""
        parts = self._gathered.reshape(self.world.group.size, -1)
        wrong = [rank for rank, part in enumerate(parts) if (part != seed + rank).any()]
        if wrong:
            raise SystemExit(f"the all-gather has not the bytes of rank {wrong[0]}")

    def close(self) -> None:
        self.world.close()
        self.device.close()


def join(dist: Any, backend: str, spec: dict[str, Any], **options: Any) -> None:
    """Makes PyTorch's default process group of all ranks."""
    dist.init_process_group(
        backend,
        init_method=f"tcp://{spec['root']}:{STORE_PORT}",
        rank=spec["rank"],
        world_size=spec["ranks"],
        timeout=timedelta(seconds=60),
        **options,
    )


class Gloo:
    """PyTorch's default for CPU tensors."""

    def __init__(self, spec: dict[str, Any]) -> None:
        os.environ["GLOO_SOCKET_IFNAME"] = ",".join(spec["interfaces"])
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        self.torch, self.dist = torch, dist
        join(dist, "gloo", spec)

    def once(self, work: dict[str, Any], parts: list[Any]) -> Once:
        dist = self.dist
        if work["name"] == "barrier":
            barrier: Once = dist.barrier
            return barrier
        tensors = [self.torch.from_numpy(part) for part in parts]
        if len(tensors) == 1:
            return lambda: dist.all_reduce(tensors[0])

        def several() -> None:
            for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
                work.wait()

        return several

    def meet(self) -> None:
        self.dist.barrier()

    def close(self) -> None:
        self.dist.barrier()
        self.dist.destroy_process_group()


class Nccl:
    """PyTorch's default for GPUs, over the network in "nccl_net"; ranks share GPUs if there are fewer."""

    def __init__(self, spec: dict[str, Any]) -> None:
        # NCCL refuses a GPU that two ranks of a host use, and takes namespaces for one host.
        os.environ["NCCL_HOSTID"] = f"openmrc-{spec['rank']}"
        os.environ["NCCL_NET"] = spec["nccl_net"]
        os.environ["NCCL_SOCKET_IFNAME"] = "=" + ",".join(spec["interfaces"])
        os.environ[PORTS] = ",".join(spec["ports"])
        import torch
        import torch.distributed as dist

        self.torch, self.dist = torch, dist
        self.device = torch.device("cuda", spec["rank"] % torch.cuda.device_count())
        torch.cuda.set_device(self.device)
        join(dist, "nccl", spec, device_id=self.device)

    def once(self, work: dict[str, Any], parts: list[Any]) -> Once:
        if work["name"] == "contents":
            return lambda: check_contents(self.torch, self.device, work["bytes"] // 4)
        tensors = [self.torch.from_numpy(part).to(self.device) for part in parts]

        def several() -> None:
            for work in [self.dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
                work.wait()
            self.torch.cuda.synchronize()

        return several

    def meet(self) -> None:
        self.dist.barrier()
        self.torch.cuda.synchronize()

    def close(self) -> None:
        self.meet()
        self.dist.destroy_process_group()


def check_contents(torch: Any, device: Any, elements: int) -> None:
    """Every collective and a message to the next rank, each with `elements` for a rank and a random content.

    Each rank draws the contents of all, so that it can compute what it has to get.
    """
    dist = torch.distributed
    rank, ranks = dist.get_rank(), dist.get_world_size()
    drawn = torch.Generator().manual_seed(elements)
    every = torch.randint(-1000, 1000, (ranks, ranks * elements), generator=drawn, dtype=torch.int32).to(device)
    own, total = every[rank], every.sum(0, dtype=torch.int32)

    def like(count: int) -> Any:
        return torch.full((count,), 7777, dtype=torch.int32, device=device)

    reduced = own.clone()
    dist.all_reduce(reduced)
    gathered = like(ranks * elements)
    dist.all_gather_into_tensor(gathered, own[:elements])
    scattered = like(elements)
    dist.reduce_scatter_tensor(scattered, own.clone())
    exchanged = like(ranks * elements)
    dist.all_to_all_single(exchanged, own.clone())
    broadcast = own.clone()
    dist.broadcast(broadcast, ranks - 1)
    received, before, behind = like(elements), (rank - 1) % ranks, (rank + 1) % ranks
    ring = [dist.P2POp(dist.isend, own[:elements].clone(), behind), dist.P2POp(dist.irecv, received, before)]
    for work in dist.batch_isend_irecv(ring):
        work.wait()
    part = slice(rank * elements, (rank + 1) * elements)
    expected = {
        "all-reduce": (reduced, total),
        "all-gather": (gathered, every[:, :elements].reshape(-1)),
        "reduce-scatter": (scattered, total[part]),
        "all-to-all": (exchanged, every[:, part].reshape(-1)),
        "broadcast": (broadcast, every[ranks - 1]),
        "message to the next rank": (received, every[before, :elements]),
    }
    for name, (found, right) in expected.items():
        if not torch.equal(found, right):
            wrong = (found != right).nonzero().reshape(-1)
            where = f"{len(wrong)} of {len(right)} elements, from {int(wrong[0])} on"
            raise ValueError(f"{name} of {elements * 4} bytes a rank: wrong contents on rank {rank}: {where}")


class Mpi:
    """Open MPI by its C interface; `mpirun` starts the ranks."""

    def __init__(self, spec: dict[str, Any]) -> None:
        import ctypes

        from openmrc.runs.compare.mpi_process import handle, library

        self.mpi = library()
        self.mpi.MPI_Init(None, None)
        self.world, self.float, self.sum = (
            handle(self.mpi, f"ompi_mpi_{name}") for name in ("comm_world", "float", "op_sum")
        )
        self.pointer = ctypes.c_void_p
        rank = ctypes.c_int()
        self.mpi.MPI_Comm_rank(self.world, ctypes.byref(rank))
        spec["rank"] = rank.value

    def once(self, work: dict[str, Any], parts: list[Any]) -> Once:
        if work["name"] == "barrier":
            return lambda: self.mpi.MPI_Barrier(self.world)
        in_place = self.pointer(1)
        calls = [(self.pointer(part.ctypes.data), part.size) for part in parts]
        reduce = self.mpi.MPI_Allreduce

        def several() -> None:
            for address, count in calls:
                reduce(in_place, address, count, self.float, self.sum, self.world)

        return several

    def meet(self) -> None:
        self.mpi.MPI_Barrier(self.world)

    def close(self) -> None:
        self.mpi.MPI_Finalize()


BACKENDS: dict[str, Callable[[dict[str, Any]], Any]] = {"mrc": Mrc, "gloo": Gloo, "mpi": Mpi, "nccl": Nccl}


def timed(once: Once) -> list[float | None]:
    """Begin and seconds of a round, and processor seconds of this process in it."""
    begun, spent_s = time.monotonic(), cpu_s()
    once()
    return [begun, time.monotonic() - begun, cpu_s() - spent_s]


def measure(backend: Any, work: dict[str, Any], number: int) -> list[list[float | None]]:
    """Results of `timed` for each round of a work."""
    in_flight = work.get("in_flight", 1)
    parts = [np.zeros(work["bytes"] // 4 // in_flight, dtype=np.float32) for _ in range(in_flight)]
    if "classes" in work:
        each = {name: backend.once(work, parts, name) for name in work["classes"]}
        rounds = [each[name] for name in work["classes"]]
    else:
        rounds = [backend.once(work, parts)] * work["rounds"]
    backend.meet()
    for _ in range(work["warm"]):
        rounds[0]()
    if "beside" in work:
        return beside(backend, rounds, work["beside"], number)
    backend.meet()
    with MachineTime() as machine:
        found = [timed(once) for once in rounds]
    # Of all rounds together: reading it in each would delay the other ranks.
    mean_s = None if machine.seconds is None else machine.seconds / len(found)
    return [[*one, mean_s] for one in found]


def beside(backend: Any, rounds: list[Once], total_bytes: int, seed: int) -> list[list[float | None]]:
    """As `measure`, during an all-gather, which then has to succeed."""
    bulk = backend.gather(total_bytes, seed)
    found = []
    for once in rounds:
        under_way = not bulk.done
        begun, seconds, spent_s = timed(once)
        found.append([begun, seconds if under_way else None, spent_s])
    bulk.wait(60)
    backend.check(seed)
    return found


def run(spec: dict[str, Any], pipe: Pipe) -> list[list[list[float | None]]]:
    """Results of `measure` for each work."""
    backend = BACKENDS[spec["backend"]](spec)
    gc.disable()
    results = []
    for number, work in enumerate(spec["works"], 1):
        if spec["rank"] == 0:
            pipe.send({"work": number})
        results.append(measure(backend, work, number))
    backend.close()
    return results


def main() -> None:
    spec = json.loads(sys.argv[1])
    if spec["backend"] != "mpi":
        adopt()  # mpirun has children of its own
    pipe = Pipe()
    try:
        results = run(spec, pipe)
    except Exception as error:
        pipe.send({"error": f"{type(error).__name__}: {error}"})  # stderr may end in what a library says at the end
        raise
    if spec["rank"] == 0:
        pipe.send({"measured": results})
    elif spec["backend"] != "mpi":
        pipe.send({"left": spec["rank"]})
    while pipe.receive() is not None:
        pass


if __name__ == "__main__":
    main()
