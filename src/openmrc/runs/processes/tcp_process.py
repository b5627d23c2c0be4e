"""One TCP stream between two processes: the conventional alternative, measured in the same way in the same run.

Runs as a child: its stdin selects the role, sink or source. Large sends and receives into one buffer, so that Python's
cost is negligible beside the kernel's copy.
"""

from __future__ import annotations

import socket
import time
from typing import Any

from openmrc.runs.processes.child import Pipe, adopt

_CHUNK = 1 << 20


def _sink(pipe: Pipe, address: str) -> None:
    with socket.create_server((address, 0)) as server:
        pipe.send({"listening": server.getsockname()[1]})
        connection, _ = server.accept()
    buffer, total, first, last = bytearray(_CHUNK), 0, 0.0, 0.0
    with connection:
        while count := connection.recv_into(buffer):
            last = time.monotonic()
            first = first or last
            total += count
    pipe.send({"result": {"bytes": total, "seconds": last - first, "cpu_s": time.process_time()}})


def _source(pipe: Pipe, address: str, port: int, seconds: float) -> None:
    data = memoryview(bytearray(_CHUNK))
    with socket.create_connection((address, port), timeout=10) as connection:
        connection.settimeout(None)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            connection.sendall(data)
    pipe.send({"result": {"cpu_s": time.process_time()}})


def main() -> None:
    """Plays the role requested by the parent, once."""
    adopt()
    pipe = Pipe()
    pipe.send({"ready": True})
    message: dict[str, Any] | None = pipe.receive()
    if message is None:
        return
    if message["role"] == "sink":
        _sink(pipe, message["address"])
    else:
        _source(pipe, message["address"], message["port"], message["seconds"])
    pipe.receive()


if __name__ == "__main__":
    main()
