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
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from openmrc.errors import ConfigError, DeviceError, PeerError, PeerUnreachableError

__all__ = ["FileStore", "Store", "TcpStore"]

_POLL_S = 0.01
_ANSWER_S = 5.0  # beyond what it may wait itself, the server answers within


class Store(Protocol):
    """What bootstrapping asks of a store."""

    def set(self, key: str, value: str) -> Any:
        """Makes the value known to all."""

    def get(self, key: str) -> Any:
        """The value, as str or bytes, as soon as somebody has set it."""

    def check(self, keys: list[str]) -> bool:
        """Whether all of them have been set; does not wait."""


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

    def check(self, keys: list[str]) -> bool:
        """Whether all of them have been set."""
        return all((self._folder / _file_name(key)).exists() for key in keys)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, where: tuple[str, int]) -> None:
        self.values: dict[str, str] = {}
        self.changed = threading.Condition()
        self.address_family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
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
                    value: str | None = ""
                else:
                    key = str(request["key"])
                    self.server.changed.wait_for(partial(self.server.values.__contains__, key), request["timeout_s"])
                    value = self.server.values.get(key)
            self.wfile.write(json.dumps({"value": value}).encode() + b"\n")


class TcpStore:
    """A store in the memory of one process, over TCP.

    Args:
        address: "HOST:PORT" of the process that serves.
        serve: This is that process, by convention rank 0. Port 0 takes a free one, see `address`.
        timeout_s: How long to wait for the server, and `get` for a value.

    Raises:
        ConfigError: the address is not one.
        DeviceError: the address cannot be served, for example because another job serves there.
        PeerUnreachableError: nobody serves there in the time allowed.
    """

    def __init__(self, address: str, *, serve: bool = False, timeout_s: float = 60.0) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ConfigError("address", address, '"HOST:PORT", such as 192.0.2.1:29500')
        self._timeout_s = timeout_s
        self._server: _Server | None = None
        if serve:
            try:
                self._server = _Server((host.strip("[]"), int(port)))
            except OSError as error:
                hint = "does another job serve there? Port 0 takes a free one"
                raise DeviceError(error.errno, f"{address}: {error.strerror} ({hint})") from error
            port = str(self._server.server_address[1])
            serve_forever = partial(self._server.serve_forever, _POLL_S)
            threading.Thread(target=serve_forever, name="openmrc-store", daemon=True).start()
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
        """Makes the value known to all; on return it is.

        Raises:
            PeerError: the server is gone.
        """
        self._ask({"key": key, "value": value}, 0)

    def get(self, key: str) -> str:
        """The value.

        Raises:
            TimeoutError: nobody has set it in time.
            PeerError: the server is gone.
        """
        value = self._ask({"key": key}, self._timeout_s)
        if value is None:
            msg = f"nobody set {key!r} within {self._timeout_s:g} s"
            raise TimeoutError(msg)
        return value

    def check(self, keys: list[str]) -> bool:
        """Whether all of them have been set.

        Raises:
            PeerError: the server is gone.
        """
        return all(self._ask({"key": key}, 0) is not None for key in keys)

    def _ask(self, request: dict[str, Any], timeout_s: float) -> str | None:
        try:
            with self._lock:
                self._socket.settimeout(timeout_s + _ANSWER_S)
                self._socket.sendall(json.dumps(request | {"timeout_s": timeout_s}).encode() + b"\n")
                line = self._lines.readline()
        except OSError as error:
            msg = f"the store at {self.address} is gone: {error.strerror or error}"
            raise PeerError(msg) from error
        if not line:
            msg = f"the store at {self.address} is gone: it closed the connection"
            raise PeerError(msg)
        value: str | None = json.loads(line)["value"]
        return value

    def close(self) -> None:
        """Closes the connection, and the server if this process has it."""
        self._lines.close()
        self._socket.close()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def _file_name(key: str) -> str:
    return "".join(one if one.isalnum() or one in "-_" else f"%{ord(one):x}" for one in key)
