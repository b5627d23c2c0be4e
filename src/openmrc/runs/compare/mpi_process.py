"""One rank of an all-reduce in a loop with Open MPI, started by `mpirun` with MESSAGE_BYTES; rank 0 reports to the
parent.

Rank 0 sends {"ready": true} once all ranks are connected, then {"sample": [ns, bytes]} after each all-reduce: the bytes
that a rank of a ring has received until then. It continues until it is killed. Uses libmpi by ctypes: the C interface
of Open MPI, whose handles are addresses of exported objects.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from openmrc.errors import OpenmrcError
from openmrc.runs.processes.child import Pipe

__all__ = ["handle", "library"]

_LIBRARY = "libmpi.so.40"


def library() -> ctypes.CDLL:
    """The library beside `mpirun`, or the system's.

    Raises:
        OpenmrcError: there is none, or it cannot be loaded.
    """
    launcher = shutil.which("mpirun")
    beside = Path(launcher).resolve().parents[1] / "lib" / _LIBRARY if launcher else Path()
    name = str(beside) if beside.is_file() else ctypes.util.find_library("mpi") or _LIBRARY
    try:
        return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise OpenmrcError(f"Open MPI's library cannot be loaded: {error}") from None


def handle(mpi: ctypes.CDLL, name: str) -> Any:
    """Handle of an exported object with this name, such as "op_sum", for a call."""
    return ctypes.byref(ctypes.c_char.in_dll(mpi, name))


def main() -> None:
    """Reduces until killed."""
    message_bytes = int(sys.argv[1])
    mpi = library()
    mpi.MPI_Init(None, None)
    world, number, largest = (handle(mpi, f"ompi_mpi_{name}") for name in ("comm_world", "float", "op_max"))
    rank, ranks = ctypes.c_int(), ctypes.c_int()
    mpi.MPI_Comm_rank(world, ctypes.byref(rank))
    mpi.MPI_Comm_size(world, ctypes.byref(ranks))
    mpi.MPI_Barrier(world)
    pipe = Pipe() if rank.value == 0 else None
    if pipe is not None:
        pipe.send({"ready": True})
    count = message_bytes // 4
    source, result = (ctypes.c_float * count)(), (ctypes.c_float * count)()
    received = 0
    while True:
        mpi.MPI_Allreduce(source, result, count, number, largest, world)
        received += 2 * (ranks.value - 1) * message_bytes // ranks.value
        if pipe is not None:
            pipe.send({"sample": [time.monotonic_ns(), received]})


if __name__ == "__main__":
    main()
