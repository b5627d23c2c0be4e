"""One rank of an all-reduce in a loop with Gloo, as a process that its parent starts.

join       {"rank", "ranks", "store": HOST:PORT, "interfaces"}   -> {"joined": rank}
start      all-reduce after all-reduce until `stop`
stop                                                             -> {"result": samples and the first error}

A sample is taken when an all-reduce completes: the bytes that a rank of a ring has received until then. Gloo may wait
for ever for a peer; `stop` is answered all the same, and the process is then killed by its parent.
"""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from typing import Any

from openmrc.runs.processes.child import Pipe, serve

_JOIN_S = 30


class Rank:
    """The state behind the commands."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._samples: list[tuple[int, int]] = []
        self._error: str | None = None
        self._stop = threading.Event()
        self._ranks = 0

    def handle(self, message: dict[str, Any]) -> None:
        """Handles one message."""
        action = message.pop("do")
        getattr(self, f"do_{action}")(**message)

    def do_join(self, rank: int, ranks: int, store: str, interfaces: list[str]) -> None:
        """Joins the other ranks."""
        os.environ["GLOO_SOCKET_IFNAME"] = ",".join(interfaces)
        import torch.distributed as dist

        self._ranks = ranks
        dist.init_process_group(
            "gloo", init_method=f"tcp://{store}", rank=rank, world_size=ranks, timeout=timedelta(seconds=_JOIN_S)
        )
        dist.barrier()
        self._pipe.send({"joined": rank})

    def do_start(self, message_bytes: int) -> None:
        """Starts reducing."""
        threading.Thread(target=self._reduce, args=(message_bytes,), daemon=True).start()

    def _reduce(self, message_bytes: int) -> None:
        import torch
        import torch.distributed as dist

        data = torch.ones(message_bytes // 4, dtype=torch.float32)
        received = 0
        self._samples.append((time.monotonic_ns(), 0))
        try:
            while not self._stop.is_set():
                dist.all_reduce(data, op=dist.ReduceOp.MAX)
                received += 2 * (self._ranks - 1) * message_bytes // self._ranks
                self._samples.append((time.monotonic_ns(), received))
        except RuntimeError as error:
            if not self._stop.is_set():
                self._error = str(error).splitlines()[0]

    def do_stop(self) -> None:
        """Reports the samples, even while an all-reduce waits."""
        self._stop.set()
        self._pipe.send({"result": {"samples": list(self._samples), "error": self._error}})

    def close(self) -> None:
        """Does nothing: a waiting all-reduce cannot be ended, only its process."""


if __name__ == "__main__":
    serve(Rank)
