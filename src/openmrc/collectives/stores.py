"""Where ranks find each other: a key-value store that all can reach, for the few lines that connecting needs.

Anything with `set(key, value)` and a blocking `get(key)` will do, torch's stores among them; here are one over TCP and
one in a folder that all ranks share.
"""

from __future__ import annotations

import json
import socket
import socketserver
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Protocol

from openmrc.errors import ConfigError, PeerUnreachableError

__all__ = ["FileStore", "Store", "TcpStore"]

_POLL_S = 0.01


class Store(Protocol):
    """What bootstrapping asks of a store."""

    def set(self, key: str, value: str) -> Any:
        """Makes the value known to all."""

    def get(self, key: str) -> Any:
        """The value, as str or bytes, as soon as somebody has set it."""


class FileStore:
    """A store in a folder: on one machine, or on a file system that all share. The folder must be new for each job.

    Args:
        folder: Made if it is not there.
        timeout_s: How long `get` waits.
    """

    def __init__(self, folder: str | Path, timeout_s: float = 60.0) -> None:
        self._folder = Path(folder)
        self._timeout_s = timeout_s
        self._folder.mkdir(parents=True, exist_ok=True)

    def set(self, key: str, value: str) -> None:
        """Writes aside and renames, so that nobody reads half a value."""
        with tempfile.NamedTemporaryFile("w", dir=self._folder, delete=False, suffix=".part") as file:
            file.write(value)
        Path(file.name).rename(self._folder / _file_name(key))

    def get(self, key: str) -> str:
        """The value.

        Raises:
            TimeoutError: nobody has set it in time.
        """
        deadline = time.monotonic() + self._timeout_s
        path = self._folder / _file_name(key)
        while not path.exists():
            if time.monotonic() > deadline:
                msg = f"nobody set {key!r} within {self._timeout_s:g} s"
                raise TimeoutError(msg)
            time.sleep(_POLL_S)
        return path.read_text()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, where: tuple[str, int]) -> None:
        self.values: dict[str, str] = {}
        self.changed = threading.Condition()
        super().__init__(where, _Requests)


class _Requests(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        for line in self.rfile:
            request = json.loads(line)
            with self.server.changed:
                if "value" in request:
                    self.server.values[request["key"]] = request["value"]
                    self.server.changed.notify_all()
                else:
                    found = self.server.changed.wait_for(
                        lambda key=request["key"]: key in self.server.values, request["timeout_s"]
                    )
                    value = self.server.values[request["key"]] if found else None
                    self.wfile.write(json.dumps({"value": value}).encode() + b"\n")


class TcpStore:
    """A store in the memory of one process, over TCP.

    Args:
        address: "HOST:PORT" of the process that serves.
        serve: This is that process, by convention rank 0. Port 0 takes a free one, see `address`.
        timeout_s: How long to wait for the server, and `get` for a value.

    Raises:
        ConfigError: the address is not one.
        PeerUnreachableError: nobody serves there in the time allowed.
    """

    def __init__(self, address: str, *, serve: bool = False, timeout_s: float = 60.0) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ConfigError("address", address, '"HOST:PORT", such as 192.0.2.1:29500')
        self._timeout_s = timeout_s
        self._server: _Server | None = None
        if serve:
            self._server = _Server((host.strip("[]"), int(port)))
            port = str(self._server.server_address[1])
            threading.Thread(target=self._server.serve_forever, name="openmrc-store", daemon=True).start()
        self.address = f"{host}:{port}"
        self._socket = self._open(host.strip("[]"), int(port))
        self._lines = self._socket.makefile("rb")
        self._lock = threading.Lock()

    def _open(self, host: str, port: int) -> socket.socket:
        start = time.monotonic()
        while True:
            try:
                return socket.create_connection((host, port), timeout=5)
            except OSError as error:
                spent = time.monotonic() - start
                if spent > self._timeout_s:
                    raise PeerUnreachableError(f"{host}:{port}", spent, error.strerror or str(error)) from error
                time.sleep(0.05)

    def set(self, key: str, value: str) -> None:
        """Makes the value known to all."""
        self._send({"key": key, "value": value})

    def get(self, key: str) -> str:
        """The value.

        Raises:
            TimeoutError: nobody has set it in time.
        """
        with self._lock:
            self._socket.settimeout(self._timeout_s + 5)
            self._send({"key": key, "timeout_s": self._timeout_s})
            line = self._lines.readline()
        value = json.loads(line)["value"] if line else None
        if value is None:
            msg = f"nobody set {key!r} within {self._timeout_s:g} s"
            raise TimeoutError(msg)
        return str(value)

    def _send(self, request: dict[str, Any]) -> None:
        self._socket.sendall(json.dumps(request).encode() + b"\n")

    def close(self) -> None:
        """Closes the connection, and the server if this process has it."""
        self._lines.close()
        self._socket.close()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def _file_name(key: str) -> str:
    return "".join(one if one.isalnum() or one in "-_" else f"%{ord(one):x}" for one in key)
