"""One end of TCP or MPTCP streams, as a process started by its parent, which counts arrivals every 10 ms.

listen     one address per stream                   -> {"listening": ports}, later {"accepted": streams}
connect    [from, to, port] per stream              -> {"connected": streams}
start      send until `stop`, or count until then
stop                                                -> {"result": samples and the first error}
"""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

from openmrc.runs.processes.child import Pipe, serve

_CHUNK = 1 << 18
_SAMPLE_S = 0.01
_CONNECT_S = 10.0
_PROTOCOLS = {"tcp": socket.IPPROTO_TCP, "mptcp": 262}  # IPPROTO_MPTCP has a name since Python 3.12


class Streams:
    """The state behind the commands."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._servers: list[socket.socket] = []
        self._streams: list[socket.socket] = []
        self._received: list[int] = []
        self._samples: list[tuple[int, int]] = []
        self._error: str | None = None
        self._stop = threading.Event()

    def handle(self, message: dict[str, Any]) -> None:
        """Handles one message."""
        action = message.pop("do")
        getattr(self, f"do_{action}")(**message)

    def do_listen(self, addresses: list[str], protocol: str) -> None:
        """Waits for one stream at each address."""
        for address in addresses:
            server = socket.socket(_family(address), socket.SOCK_STREAM, _PROTOCOLS[protocol])
            server.bind(("::" if protocol == "mptcp" else address, 0))  # subflows arrive at other addresses
            server.listen(1)
            server.settimeout(_CONNECT_S)
            self._servers.append(server)
        self._pipe.send({"listening": [server.getsockname()[1] for server in self._servers]})
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        try:
            for server in self._servers:
                self._streams.append(server.accept()[0])
        except OSError as error:
            self._pipe.send({"error": f"no client connected: {error}"})
            return
        self._received = [0] * len(self._streams)
        self._pipe.send({"accepted": len(self._streams)})

    def do_connect(self, targets: list[tuple[str, str, int]], protocol: str) -> None:
        """Connects the streams."""
        for source, destination, port in targets:
            stream = socket.socket(_family(destination), socket.SOCK_STREAM, _PROTOCOLS[protocol])
            self._streams.append(stream)
            stream.settimeout(_CONNECT_S)
            stream.bind((source, 0))
            stream.connect((destination, port))
            stream.settimeout(None)
        self._pipe.send({"connected": len(self._streams)})

    def do_start(self) -> None:
        """Starts: listeners count, connectors send."""
        work = self._receive if self._servers else self._send
        for number, stream in enumerate(self._streams):
            stream.settimeout(None)
            threading.Thread(target=self._guarded, args=(work, number, stream), daemon=True).start()
        if self._servers:
            threading.Thread(target=self._sample, daemon=True).start()

    def _guarded(self, work: Any, number: int, stream: socket.socket) -> None:
        try:
            work(number, stream)
        except OSError as error:
            if not self._stop.is_set() and self._error is None:
                self._error = error.strerror or str(error)

    def _receive(self, number: int, stream: socket.socket) -> None:
        buffer = bytearray(_CHUNK)
        while count := stream.recv_into(buffer):
            self._received[number] += count

    def _send(self, _number: int, stream: socket.socket) -> None:
        data = memoryview(bytearray(_CHUNK))
        while not self._stop.is_set():
            stream.sendall(data)

    def _sample(self) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(due - time.monotonic(), 0.0)):
            self._samples.append((time.monotonic_ns(), sum(self._received)))
            due += _SAMPLE_S

    def do_stop(self) -> None:
        """Stops and returns the samples."""
        self._stop.set()
        self._pipe.send({"result": {"samples": self._samples, "error": self._error}})

    def close(self) -> None:
        """Closes the sockets."""
        for one in (*self._streams, *self._servers):
            one.close()


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


if __name__ == "__main__":
    serve(Streams)
