"""One rank of the collectives benchmark, with the backend that its argument names: openmrc, Gloo or Open MPI.

    python benchmarks/_collective_rank.py JSON

The argument has "backend", "rank", "ranks", "store" (a folder, for rendezvous), "works", and what the backend needs.
A work is {"name", "bytes", "in_flight", "warm", "rounds"}: `rounds` times, after `warm` that do not count, `in_flight`
operations that together have `bytes`. Rank 0 prints one JSON line: for each work [begin, seconds] of each round. It
makes the file "begun" in the store's folder before the last work.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import gc
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Once = Callable[[], None]
STORE_PORT = 29401


class Mrc:
    """Ours, over the ports or the paths given."""

    def __init__(self, spec: dict[str, Any]) -> None:
        from openmrc import Device
        from openmrc.collectives import FileStore, World
        from openmrc.connection import QpSettings
        from openmrc.srv6.path_file import parse_nic_paths

        paths = parse_nic_paths(spec["paths"]) if spec.get("paths") else None
        self.device = Device(spec.get("ports", ()), paths=paths, **spec.get("device", {}))
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

    def once(self, work: dict[str, Any], parts: list[Any]) -> Once:
        group = self.world.group
        if work["name"] == "barrier":
            return lambda: group.barrier().wait(60)
        if "traffic_class" in work:
            return lambda: group.all_reduce(parts[0], traffic_class=work["traffic_class"]).wait(60)
        if len(parts) == 1:
            return lambda: group.all_reduce(parts[0]).wait(60)

        def several() -> None:
            for work in [group.all_reduce(part) for part in parts]:
                work.wait(60)

        return several

    def meet(self) -> None:
        self.world.group.barrier().wait(60)

    def bulk(self, total_bytes: int) -> Once:
        """Starts an all-gather that together has so many bytes; the answer waits for it."""
        group = self.world.group
        gathered, own = np.zeros(total_bytes, np.uint8), np.zeros(total_bytes // group.size, np.uint8)
        return group.all_gather(gathered, own).wait

    def close(self) -> None:
        self.world.close()
        self.device.close()


class Gloo:
    """PyTorch's default for CPU tensors."""

    def __init__(self, spec: dict[str, Any]) -> None:
        os.environ["GLOO_SOCKET_IFNAME"] = ",".join(spec["interfaces"])
        from datetime import timedelta

        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        self.torch, self.dist = torch, dist
        dist.init_process_group(
            "gloo",
            init_method=f"tcp://{spec['root']}:{STORE_PORT}",
            rank=spec["rank"],
            world_size=spec["ranks"],
            timeout=timedelta(seconds=60),
        )

    def once(self, work: dict[str, Any], parts: list[Any]) -> Once:
        dist = self.dist
        if work["name"] == "barrier":
            return dist.barrier
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


class Mpi:
    """Open MPI by its C interface, whose handles are addresses of exported objects; `mpirun` starts the ranks."""

    def __init__(self, spec: dict[str, Any]) -> None:
        launcher = shutil.which("mpirun")
        beside = Path(launcher).resolve().parents[1] / "lib" / "libmpi.so.40" if launcher else Path()
        name = str(beside) if beside.is_file() else ctypes.util.find_library("mpi") or "libmpi.so.40"
        self.library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        self.library.MPI_Init(None, None)
        names = "comm_world", "float", "op_sum"
        self.world, self.float, self.sum = (
            ctypes.byref(ctypes.c_char.in_dll(self.library, f"ompi_mpi_{name}")) for name in names
        )
        rank = ctypes.c_int()
        self.library.MPI_Comm_rank(self.world, ctypes.byref(rank))
        spec["rank"] = rank.value

    def once(self, work: dict[str, Any], parts: list[Any]) -> Once:
        if work["name"] == "barrier":
            return lambda: self.library.MPI_Barrier(self.world)
        in_place = ctypes.c_void_p(1)
        calls = [(ctypes.c_void_p(part.ctypes.data), part.size) for part in parts]
        reduce = self.library.MPI_Allreduce

        def several() -> None:
            for address, count in calls:
                reduce(in_place, address, count, self.float, self.sum, self.world)

        return several

    def meet(self) -> None:
        self.library.MPI_Barrier(self.world)

    def close(self) -> None:
        self.library.MPI_Finalize()


BACKENDS: dict[str, Callable[[dict[str, Any]], Any]] = {"mrc": Mrc, "gloo": Gloo, "mpi": Mpi}


def measure(backend: Any, work: dict[str, Any]) -> list[list[float]]:
    """Begin and seconds of each round."""
    in_flight = work.get("in_flight", 1)
    parts = [np.zeros(work["bytes"] // 4 // in_flight, dtype=np.float32) for _ in range(in_flight)]
    once = backend.once(work, parts)
    backend.meet()
    for _ in range(work["warm"]):
        once()
    backend.meet()
    finish = backend.bulk(work["beside"]) if "beside" in work else None
    rounds = []
    for _ in range(work["rounds"]):
        begun = time.monotonic()
        once()
        rounds.append([begun, time.monotonic() - begun])
    if finish is not None:
        finish()
    return rounds


def main() -> None:
    spec = json.loads(sys.argv[1])
    backend = BACKENDS[spec["backend"]](spec)
    gc.disable()
    results = []
    for number, work in enumerate(spec["works"], 1):
        if number == len(spec["works"]) and spec["rank"] == 0:
            Path(spec["store"], "begun").touch()
        results.append(measure(backend, work))
    backend.close()
    if spec["rank"] == 0:
        print(json.dumps(results), flush=True)


if __name__ == "__main__":
    main()
