"""Time that `init_process_group` takes beside Gloo, and what connections take at each rank.

    python benchmarks/startup.py [--repeats 5] [--only CASE ...] [--json FILE]

All ranks are processes of this machine, forked from one that has imported everything. Gloo and mrc take turns. The time
is that from the first rank's call to the last rank's return; the store is there before.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import queue
import socket
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from _cases import Repeat, run_cases

from openmrc.errors import OpenmrcError
from openmrc.runs.bench.rows import Row, row

SIZES = (4, 8, 16)
BACKENDS = ("gloo", "mrc")
ALLOWED_S = 0.2  # beyond twice Gloo's
LIMIT_S = 60.0
CONTEXT = multiprocessing.get_context("forkserver")
PRELOAD = ["torch.distributed", "openmrc.torch", "openmrc.torch.create", "openmrc.torch.delegate"]


@dataclass(frozen=True)
class Started:
    """One start of a job.

    Args:
        seconds: From the first call to the last return.
        descriptors: Maximum of additional open descriptors at a rank since before the call.
        resident_kib: Maximum of additional memory of a rank since before the call.
    """

    seconds: float
    descriptors: int
    resident_kib: int


class RankFailedError(OpenmrcError):
    """A rank did not begin."""


def usage() -> tuple[int, int]:
    """Open descriptors and resident KiB of this process."""
    status = Path("/proc/self/status").read_text()
    resident = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
    return len(list(Path("/proc/self/fd").iterdir())), int(resident)


def begin(order: dict[str, Any], together: Any, answers: Any) -> None:
    """One rank."""
    import time

    import torch.distributed as dist

    os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    rank, size = order["rank"], order["size"]
    timeout = timedelta(seconds=LIMIT_S)
    store = dist.TCPStore("127.0.0.1", order["port"], size, is_master=rank == 0, timeout=timeout)
    together.wait()
    descriptors, resident = usage()
    started = time.monotonic()
    try:
        dist.init_process_group(order["backend"], store=store, rank=rank, world_size=size, timeout=timeout)
    except (RuntimeError, OSError) as error:
        answers.put(str(error))
        return
    ended = time.monotonic()
    taken = usage()
    together.wait()
    answers.put((started, ended, taken[0] - descriptors, taken[1] - resident))
    together.wait()
    dist.destroy_process_group()


def start(backend: str, size: int) -> Started:
    """Starts a job once.

    Raises:
        RankFailedError: a rank failed or did not answer.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    together, answers = CONTEXT.Barrier(size), CONTEXT.Queue()
    orders = [{"rank": rank, "size": size, "port": port, "backend": backend} for rank in range(size)]
    ranks = [CONTEXT.Process(target=begin, args=(order, together, answers)) for order in orders]
    for one in ranks:
        one.start()
    try:
        found = [answers.get(timeout=LIMIT_S) for _ in ranks]
        words = next((one for one in found if isinstance(one, str)), None)
        if words is not None:
            raise RankFailedError(f"{backend}, {size} ranks: {words}")
        for one in ranks:
            one.join(LIMIT_S)
    except queue.Empty:
        raise RankFailedError(f"{backend}, {size} ranks: not all answered within {LIMIT_S:g} s") from None
    finally:
        for one in ranks:
            one.kill()
            one.join()
    seconds = max(one[1] for one in found) - min(one[0] for one in found)
    return Started(seconds, max(one[2] for one in found), max(one[3] for one in found))


def ranks(size: int, repeat: Repeat) -> Iterator[Row]:
    """Both backends by turns."""
    case = f"{size} ranks"
    runs = repeat(lambda _seed: {backend: start(backend, size) for backend in BACKENDS})
    gloo, mrc = ([one[backend] for one in runs] for backend in BACKENDS)
    limit_s = 2 * statistics.median(one.seconds for one in gloo) + ALLOWED_S
    yield row(case, "Gloo, init_process_group", [one.seconds * 1e3 for one in gloo], "ms")
    yield row(case, "mrc, init_process_group", [one.seconds * 1e3 for one in mrc], "ms", f"<= {limit_s * 1e3:.0f}")
    yield row(case, "Gloo, descriptors of a rank", [float(one.descriptors) for one in gloo], "")
    yield row(case, "mrc, descriptors of a rank", [float(one.descriptors) for one in mrc], "")
    yield row(case, "mrc, memory of a rank", [one.resident_kib / 1024 for one in mrc], "MiB")


CASES: dict[str, Callable[[Repeat], Iterator[Row]]] = {
    f"ranks_{size}": functools.partial(ranks, size) for size in SIZES
}


if __name__ == "__main__":
    CONTEXT.set_forkserver_preload(PRELOAD)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder
        sys.exit(run_cases("startup", __doc__.partition("\n")[0], CASES, repeats=5))
