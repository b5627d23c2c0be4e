"""Key-value stores through which ranks find each other, for the few lines that connecting needs.

Any object with `set(key, value)` and a blocking `get(key)` is suitable, such as torch's stores; this module has one
over TCP and one in a folder that all ranks share.
"""

from __future__ import annotations

import os
import socket
import socketserver
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol
from weakref import WeakSet

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from openmrc.config.host_port import host_port, split_host_port
from openmrc.config.json_lines import json_line, json_object
from openmrc.errors import ConfigError, DeviceError, PeerError, PeerUnreachableError
from openmrc.forks import keep_from_children

__all__ = ["FileStore", "Store", "TcpStore"]

_POLL_S = 0.01
_ANSWER_S = 5.0  # limit on the server's answer, beyond its own wait
_WAIT_S = 10.0  # the server's wait for a key before it answers that the key is missing
_FIRST_REQUEST_S = 10.0
KEY_CHARACTERS_MAX = 1024
VALUE_CHARACTERS_MAX = 1 << 17
KEYS_MAX = 1 << 17
HELD_CHARACTERS_MAX = 1 << 28
CLIENTS_MAX = 4096
_KEYS_ASKED_MAX = 1024
_FIRST_BYTES_MAX = 1 << 12
_LINE_BYTES_MAX = 1 << 20


class Store(Protocol):
    """Interface of a store, as needed for bootstrapping."""

    def set(self, key: str, value: str) -> Any:
        """Publishes the value."""

    def get(self, key: str) -> Any:
        """The value, as str or bytes, as soon as it has been set."""

    def check(self, keys: list[str]) -> bool:
        """True if all of them have been set; does not wait."""


class FileStore:
    """A store in a folder: on one machine, or on a shared file system. The folder must be new for each job.

    Args:
        folder: Created if missing.
        timeout_s: Limit of `get`.
    """

    def __init__(self, folder: str | Path, timeout_s: float = 60.0) -> None:
        self._folder = Path(folder)
        self._timeout_s = timeout_s
        self._folder.mkdir(parents=True, exist_ok=True)

    def set(self, key: str, value: str) -> None:
        """Writes a temporary file and renames it, so that readers never see half a value."""
        with tempfile.NamedTemporaryFile("w", dir=self._folder, delete=False, suffix=".part") as file:
            file.write(value)
        Path(file.name).rename(self._folder / _file_name(key))

    def get(self, key: str) -> str:
        """The value.

        Raises:
            TimeoutError: it was not set in time.
        """
        deadline = time.monotonic() + self._timeout_s
        path = self._folder / _file_name(key)
        while not path.exists():
            if time.monotonic() > deadline:
                msg = f"no rank set {key!r} within {self._timeout_s:g} s"
                raise TimeoutError(msg)
            time.sleep(_POLL_S)
        return path.read_text()

    def check(self, keys: list[str]) -> bool:
        """True if all of them have been set."""
        return all((self._folder / _file_name(key)).exists() for key in keys)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, where: tuple[str, int]) -> None:
        self.values: dict[str, str] = {}
        self.changed = threading.Condition()
        self._held = 0  # number of characters of keys and values
        self._clients = 0
        self.address_family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
        self._accepted: WeakSet[socket.socket] = WeakSet()
        super().__init__(where, _Requests)

    def get_request(self) -> tuple[socket.socket, Any]:
        accepted, source = super().get_request()
        self._accepted.add(accepted)
        return accepted, source

    def leave_to_parent(self) -> None:
        for one in (self.socket, *self._accepted):
            os.close(one.detach())  # files created from it do not keep it open

    def put(self, key: str, value: str) -> None:
        """Stores a value, within the limits of the store; called with `changed` held."""
        old = self.values.get(key)
        held = self._held + len(value) + (len(key) if old is None else -len(old))
        if held > HELD_CHARACTERS_MAX or (old is None and len(self.values) >= KEYS_MAX):
            msg = f"the store is full: at most {KEYS_MAX} keys and {HELD_CHARACTERS_MAX} characters"
            raise _RefusedError(msg)
        self._held = held
        self.values[key] = value
        self.changed.notify_all()

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002  # of socketserver
        """False closes the connection: there are too many clients."""
        with self.changed:
            if self._clients >= CLIENTS_MAX:
                return False
            self._clients += 1
            return True

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Counts the client until it is gone."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self.changed:
                self._clients -= 1

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client's end is no traceback on the server's terminal."""


class _Request(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


_Key = Annotated[str, Field(min_length=1, max_length=KEY_CHARACTERS_MAX)]


class _Set(_Request):
    do: Literal["set"]
    key: _Key
    value: Annotated[str, Field(max_length=VALUE_CHARACTERS_MAX)]


class _Keys(_Request):
    keys: Annotated[tuple[_Key, ...], Field(max_length=_KEYS_ASKED_MAX)]


class _Get(_Keys):
    do: Literal["get"]


class _Check(_Keys):
    do: Literal["check"]


class _Wait(_Keys):
    do: Literal["wait"]
    timeout_s: Annotated[float, Field(ge=0, le=_WAIT_S)]


_REQUEST: TypeAdapter[_Set | _Get | _Check | _Wait] = TypeAdapter(
    Annotated[_Set | _Get | _Check | _Wait, Field(discriminator="do")]
)


class _Requests(socketserver.StreamRequestHandler):
    """Requests of a client. A malformed request, or one over a limit, gets an error and ends the connection."""

    server: _Server
    timeout = _FIRST_REQUEST_S  # a silent client does not occupy a slot

    def handle(self) -> None:
        limit = _FIRST_BYTES_MAX
        try:
            while line := self.rfile.readline(limit):
                try:
                    answer = self._answer(line, limit)
                except _RefusedError as error:
                    self._send({"error": str(error)})
                    return
                self._send(answer)
                self.connection.settimeout(None)
                limit = _LINE_BYTES_MAX
        except OSError:
            return  # closed or silent

    def _send(self, answer: dict[str, Any]) -> None:
        self.wfile.write(json_line(answer))

    def _answer(self, line: bytes, limit: int) -> dict[str, Any]:
        if not line.endswith(b"\n"):
            msg = f"a request is one line of at most {limit} bytes"
            raise _RefusedError(msg)
        try:
            request = _REQUEST.validate_json(line, strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            msg = f"malformed request: {'.'.join(map(str, first['loc'])) or 'line'}: {first['msg']}"
            raise _RefusedError(msg) from None
        with self.server.changed:
            values = self.server.values
            if isinstance(request, _Set):
                self.server.put(request.key, request.value)
                return {}
            if isinstance(request, _Get):
                return {"values": [values.get(key) for key in request.keys]}

            def here() -> bool:
                return all(key in values for key in request.keys)

            if isinstance(request, _Wait):
                self.server.changed.wait_for(here, request.timeout_s)
            return {"here": here()}


class _RefusedError(Exception):
    """A refused request; the text is for the client."""


class TcpStore:
    """A store in the memory of one process, over TCP.

    Args:
        address: "HOST:PORT" of the serving process.
        serve: This is that process, by convention rank 0. Port 0 takes a free one, see `address`.
        timeout_s: Limit of the wait for the server, and of `get` for a value.

    Raises:
        ConfigError: the address is invalid.
        DeviceError: the address cannot be served, for example because another job serves there.
        PeerUnreachableError: no server answered in the time allowed.
    """

    def __init__(self, address: str, *, serve: bool = False, timeout_s: float = 60.0) -> None:
        host, port = split_host_port(address, allowed='"HOST:PORT", such as 192.0.2.1:29500')
        self._timeout_s = timeout_s
        self._server: _Server | None = None
        if serve:
            try:
                self._server = _Server((host, port))
            except OSError as error:
                hint = "does another job serve there? Port 0 takes a free one"
                raise DeviceError(error.errno, f"{address}: {error.strerror} ({hint})") from error
            port = int(self._server.server_address[1])
            serve_forever = partial(self._server.serve_forever, _POLL_S)
            threading.Thread(target=serve_forever, name="openmrc-store", daemon=True).start()
        self.address = host_port(host, port)
        self._socket = self._open(host, port)
        self._lines = self._socket.makefile("rb")
        self._lock = threading.Lock()
        keep_from_children(self)
        try:
            self._ask({"do": "check", "keys": []})  # the server disconnects silent clients
        except BaseException:
            self.close()
            raise

    def _leave_to_parent(self) -> None:
        self._lock = threading.Lock()
        self._lines.close()
        self._socket.close()
        if self._server is not None:
            self._server.leave_to_parent()
            self._server = None

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
        """Publishes the value before it returns.

        Raises:
            ConfigError: the key or the value is too long.
            PeerError: the server is gone, or full.
        """
        if not 1 <= len(key) <= KEY_CHARACTERS_MAX:
            raise ConfigError("key", f"{key[:40]}...", f"1 to {KEY_CHARACTERS_MAX} characters")
        if len(value) > VALUE_CHARACTERS_MAX:
            raise ConfigError("value", f"{value[:40]}...", f"at most {VALUE_CHARACTERS_MAX} characters")
        self._ask({"do": "set", "key": key, "value": value})

    def get(self, key: str) -> str:
        """The value.

        Raises:
            TimeoutError: it was not set in time.
            PeerError: the server is gone.
        """
        self.wait([key], timedelta(seconds=self._timeout_s))
        return self.multi_get([key])[0]

    def multi_get(self, keys: list[str]) -> list[str]:
        """The values of several keys, as soon as all have been set.

        Raises:
            TimeoutError: some have not been set in time.
            PeerError: the server is gone.
        """
        self.wait(keys, timedelta(seconds=self._timeout_s))
        return [value for part in _parts(keys) for value in self._ask({"do": "get", "keys": part})["values"]]

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Returns when all keys have been set.

        Args:
            keys: Any number.
            timeout: None: that of the store.

        Raises:
            TimeoutError: some have not been set in time.
            PeerError: the server is gone.
        """
        limit_s = self._timeout_s if timeout is None else timeout.total_seconds()
        deadline = time.monotonic() + limit_s
        for part in _parts(keys):
            while True:
                left_s = max(0.0, deadline - time.monotonic())
                if self._ask({"do": "wait", "keys": part, "timeout_s": min(left_s, _WAIT_S)})["here"]:
                    break
                if left_s == 0:
                    late = next((key for key in part if not self.check([key])), part[-1])
                    msg = f"no rank set {late!r} within {limit_s:g} s"
                    raise TimeoutError(msg)

    def check(self, keys: list[str]) -> bool:
        """True if all of them have been set.

        Raises:
            PeerError: the server is gone.
        """
        return all(self._ask({"do": "check", "keys": part})["here"] for part in _parts(keys))

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            with self._lock:
                self._socket.settimeout(request.get("timeout_s", 0) + _ANSWER_S)
                self._socket.sendall(json_line(request))
                line = self._lines.readline()
        except OSError as error:
            msg = f"the connection to the store at {self.address} is lost: {error.strerror or error}"
            raise PeerError(msg) from error
        if not line:
            msg = f"the connection to the store at {self.address} is lost: it closed the connection"
            raise PeerError(msg)
        answer = json_object(line)
        if answer is None:
            answer = {"error": "it is not an openmrc store"}
        if "error" in answer:
            msg = f"the store at {self.address} refused: {answer['error']}"
            raise PeerError(msg)
        return answer

    def close(self) -> None:
        """Closes the connection, and the server if it runs in this process."""
        self._lines.close()
        self._socket.close()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def _file_name(key: str) -> str:
    return "".join(one if one.isalnum() or one in "-_" else f"%{ord(one):x}" for one in key)


def _parts(keys: list[str]) -> Iterator[list[str]]:
    """Keys in groups of the size that a request may have."""
    for first in range(0, len(keys), _KEYS_ASKED_MAX):
        yield keys[first : first + _KEYS_ASKED_MAX]
