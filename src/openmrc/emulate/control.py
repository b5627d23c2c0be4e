"""The control channel: JSON lines over TCP on loopback or a Unix socket.

A request is `{"do": ..., "id": anything}`; the answer repeats `id` and has `"ok": true` with results, or `"ok": false`
with `"error"` in words. Requests: `describe`, `inject` (`"fault": text`), `statistics`, `subscribe` (optional `"host":
h`: only that host's carrier events). After `subscribe`, events come as lines of their own, first the carriers that are
down already.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmrc.config.host_port import own_host_port, split_host_port
from openmrc.config.json_lines import json_line, json_object
from openmrc.errors import ConfigError, DeviceError, OpenmrcError, did_you_mean

if TYPE_CHECKING:
    from openmrc.emulate.fabric import EmulatedFabric, Event

__all__ = ["ControlServer", "connect_control", "listen_address"]

LINE_BYTES_MAX = 65536
CLIENTS_MAX = 256
_SEND_TIMEOUT_S = 5.0
_ALLOWED = "127.0.0.1:PORT or unix:PATH"


def listen_address(text: str) -> tuple[socket.AddressFamily, Any]:
    """Family and address of `127.0.0.1:PORT`, `[::1]:PORT` or `unix:PATH`.

    Raises:
        ConfigError: it is none of these, or not on loopback: access to the channel allows breaking the fabric.
    """
    if text.startswith("unix:") and len(text) > len("unix:"):
        return socket.AF_UNIX, text.removeprefix("unix:")
    host, port = split_host_port(text, "control", _ALLOWED)
    try:
        address = ip_address(host)
    except ValueError:
        raise ConfigError("control", text, _ALLOWED) from None
    if not address.is_loopback:
        raise ConfigError("control", text, _ALLOWED)
    return (socket.AF_INET if address.version == 4 else socket.AF_INET6), (host, port)


def connect_control(text: str, timeout_s: float) -> socket.socket:
    """A connection to a control channel.

    Raises:
        ConfigError: the address is malformed.
        OSError: no fabric listens there.
    """
    family, address = listen_address(text)
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


class ControlServer:
    """Serves the control channel of one fabric, a thread per client."""

    def __init__(self, fabric: EmulatedFabric, where: str) -> None:
        self._fabric = fabric
        family, address = listen_address(where)
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            if family != socket.AF_UNIX:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(address)
        except OSError as error:
            self._socket.close()
            raise DeviceError(error.errno, f"cannot listen for control at {where}: {error.strerror}") from None
        self._path = Path(address) if family == socket.AF_UNIX else None
        if self._path:
            self._path.chmod(0o600)
        self._lock = threading.Lock()
        self._clients: set[_Client] = set()
        self._stopping = False
        self._thread = threading.Thread(target=self._accept, name="openmrc-fabric-control", daemon=True)

    @property
    def address(self) -> str:
        """Address for clients."""
        if self._path:
            return f"unix:{self._path}"
        return own_host_port(self._socket)

    def start(self) -> None:
        """Accepts clients."""
        self._socket.listen()
        self._thread.start()

    def stop(self) -> None:
        """Closes the connections of all clients."""
        with self._lock:
            self._stopping = True
            clients = list(self._clients)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for client in clients:
            client.close()
        if self._thread.is_alive():
            self._thread.join()
        for client in clients:
            client.join()
        if self._path:
            self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with self._lock:
                if self._stopping:
                    connection.close()
                    return
                if len(self._clients) >= CLIENTS_MAX:
                    connection.close()
                    continue
                client = _Client(self._fabric, connection, self._forget)
                self._clients.add(client)
            client.start()

    def _forget(self, client: _Client) -> None:
        with self._lock:
            self._clients.discard(client)


class _Client:
    def __init__(self, fabric: EmulatedFabric, connection: socket.socket, forget: Callable[[_Client], None]) -> None:
        self._fabric = fabric
        self._connection = connection
        self._forget = forget
        self._send_lock = threading.Lock()
        self._end_subscription: Callable[[], None] | None = None
        self._thread = threading.Thread(target=self._serve, name="openmrc-fabric-client", daemon=True)
        # A client that does not read its events is disconnected, so that it does not delay the others.
        seconds = int(_SEND_TIMEOUT_S).to_bytes(8, "little") + bytes(8)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, seconds)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        if self._thread is not threading.current_thread():
            self._thread.join()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        with self._connection, self._connection.makefile("rb") as lines:
            try:
                while line := lines.readline(LINE_BYTES_MAX):
                    self._send(self._answer(line))
            except OSError:
                pass  # it hung up
            finally:
                if self._end_subscription:
                    self._end_subscription()
                self._forget(self)

    def _send(self, message: dict[str, Any]) -> None:
        with self._send_lock:
            self._connection.sendall(json_line(message))

    def _answer(self, line: bytes) -> dict[str, Any]:
        request = json_object(line)
        if request is None:
            return {"ok": False, "error": f"a request is one JSON object on a line of at most {LINE_BYTES_MAX} bytes"}
        identity = {"id": request["id"]} if "id" in request else {}
        try:
            return identity | {"ok": True} | self._do(request)
        except OpenmrcError as error:
            return identity | {"ok": False, "error": str(error)}

    def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        actions = {
            "describe": self._describe,
            "inject": self._inject,
            "statistics": self._statistics,
            "subscribe": self._subscribe,
        }
        name = request.get("do")
        action = actions.get(name) if isinstance(name, str) else None
        if action is None:
            raise ConfigError("do", name, ", ".join(actions), hint=did_you_mean(str(name), actions))
        return action(request)

    def _describe(self, _: dict[str, Any]) -> dict[str, Any]:
        fabric = self._fabric.fabric
        return {
            "name": fabric.name,
            "planes": fabric.planes,
            "hosts": fabric.hosts,
            "t0s": fabric.t0s,
            "t1s": fabric.t1s,
            "rate_bps": fabric.rate_bps,
            "base_rtt_ns": fabric.base_rtt_ps // 1000,
            "trim": fabric.trims,
            "plane_rates_bps": [plane.rates.nic for plane in fabric.each_plane],
            "udp_port": fabric.udp_port,
            "ports": [[str(port) for port in self._fabric.ports(host)] for host in range(fabric.hosts)],
        }

    def _inject(self, request: dict[str, Any]) -> dict[str, Any]:
        text = request.get("fault")
        if not isinstance(text, str):
            raise ConfigError("fault", text, "a line such as 'plane 2 blackhole for 3s'")
        return {"result": self._fabric.inject(text)}

    def _statistics(self, _: dict[str, Any]) -> dict[str, Any]:
        return {"statistics": self._fabric.statistics().as_dict()}

    def _subscribe(self, request: dict[str, Any]) -> dict[str, Any]:
        only = request.get("host")
        fabric = self._fabric.fabric
        if only is not None and (type(only) is not int or not 0 <= only < fabric.hosts):
            raise ConfigError("host", only, f"0 to {fabric.hosts - 1}")
        if self._end_subscription:
            self._end_subscription()

        def listen(event: Event) -> None:
            if event["event"] == "carrier" and only not in (None, event["host"]):
                return
            try:
                self._send(event)
            except OSError:
                self.close()

        self._end_subscription = self._fabric.subscribe(listen)
        for host, planes in enumerate(self._fabric.carriers()):
            for plane, up in enumerate(planes):
                if not up:
                    listen({"event": "carrier", "host": host, "port": plane, "up": False, "time_ns": None})
        return {}
