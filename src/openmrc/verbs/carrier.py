"""Carrier of a device's ports: monitors that detect unplugged cables and inform the device.

Two monitors with one interface: `LinkCarrier` follows the kernel (interfaces with a cable), `FabricCarrier` an emulated
fabric's feed. Both start when created and end with `close`.
"""

from __future__ import annotations

import os
import socket
import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Self

from openmrc.config.host_port import split_host_port
from openmrc.config.json_lines import LineBuffer, LongLineError, json_object
from openmrc.errors import DeviceError
from openmrc.forks import keep_from_children
from openmrc.linux.links import link_changes_in, links_request

if TYPE_CHECKING:
    from openmrc.verbs.device import Device

__all__ = ["CarrierMonitor", "FabricCarrier", "LinkCarrier"]

_RTMGRP_LINK = 1
_LINE_BYTES_MAX = 1 << 16


class CarrierMonitor(ABC):
    """Watches carriers on a thread of its own and calls `Device.set_port_state` when one changes."""

    _socket: socket.socket

    def __init__(self, device: Device, name: str) -> None:
        self._device = device
        self._stop_read, self._stop_write = socket.socketpair()
        self._up = dict(enumerate(device.ports_up()))
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        keep_from_children(self)

    def _leave_to_parent(self) -> None:
        for one in (self._stop_read, self._stop_write, getattr(self, "_socket", None)):
            if one is not None:
                one.close()

    @abstractmethod
    def _run(self) -> None: ...

    def _report(self, port: int, up: bool) -> None:
        if self._up.get(port) != up and not self._device.closed:
            self._up[port] = up
            self._device.set_port_state(port, up)

    def _readable(self, source: socket.socket) -> bool:
        """Waits for `source`; False: the monitor has to end."""
        import select

        ready, _, _ = select.select([source, self._stop_read], [], [])
        return self._stop_read not in ready

    def close(self) -> None:
        """Stops watching. Idempotent."""
        if self._thread.is_alive():
            self._stop_write.send(b"x")
            self._thread.join()
        self._stop_read.close()
        self._stop_write.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


class LinkCarrier(CarrierMonitor):
    """Follows the kernel's link state of the interfaces to which the device's ports are bound; other ports are left
    alone.

    Raises:
        DeviceError: the kernel refuses the netlink socket, or an interface does not exist.
    """

    def __init__(self, device: Device) -> None:
        super().__init__(device, "openmrc-carrier")
        # By name: an interface that is removed and created again has another index.
        self._ports: dict[str, list[int]] = {}
        self._names: dict[int, str] = {}
        for number, port in enumerate(device.ports):
            if port.interface is None:
                continue
            try:
                self._names[socket.if_nametoindex(port.interface)] = port.interface
            except OSError as error:
                raise DeviceError(error.errno, f"no interface {port.interface}") from error
            self._ports.setdefault(port.interface, []).append(number)
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        try:
            self._socket.bind((0, _RTMGRP_LINK))
            self._ask()
        except OSError as error:
            self._socket.close()
            raise DeviceError(error.errno, "cannot watch links") from error
        self._thread.start()

    def _ask(self) -> None:
        """Requests the state of all links: at the start, and after the kernel had to drop messages."""
        self._socket.send(links_request())

    def _run(self) -> None:
        while self._readable(self._socket):
            try:
                self._handle(self._socket.recv(1 << 16))
            except OSError:  # ENOBUFS: messages were lost
                self._ask()

    def _handle(self, data: bytes) -> None:
        for gone, link in link_changes_in(data):
            if gone:
                name = self._names.pop(link.index, None)
            elif link.name in self._ports:
                name = self._names[link.index] = link.name
            else:  # renamed: the sockets stay bound to the interface
                name = self._names.get(link.index)
            for port in self._ports.get(name, []) if name else []:
                self._report(port, not gone and link.passes_frames)

    def close(self) -> None:
        """Stops watching. Idempotent."""
        super().close()
        self._socket.close()


class FabricCarrier(CarrierMonitor):
    """Follows an emulated fabric's feed of JSON lines: {"event": "carrier", "host": h, "port": p, "up": bool}.

    Args:
        device: Receives the state of its ports.
        address: "HOST:PORT" of the feed, or the path of a unix socket.
        host: Number of the device's host in the fabric, as in the feed.
        timeout_s: To connect.

    Raises:
        ConfigError: the address is neither.
        DeviceError: no fabric listens there.
    """

    def __init__(self, device: Device, address: str, host: int | str, *, timeout_s: float = 5.0) -> None:
        super().__init__(device, "openmrc-fabric-carrier")
        self._host = host
        is_path = os.sep in address
        where = ("", 0) if is_path else split_host_port(address, allowed="HOST:PORT or the path of a unix socket")
        try:
            if is_path:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self._socket.settimeout(timeout_s)
                self._socket.connect(address)
            else:
                self._socket = socket.create_connection(where, timeout_s)
        except OSError as error:
            raise DeviceError(error.errno or 0, f"no carrier feed at {address}: {error}") from error
        self._socket.setblocking(False)
        self._thread.start()

    def _run(self) -> None:
        pending = LineBuffer(_LINE_BYTES_MAX)
        while self._readable(self._socket):
            try:
                data = self._socket.recv(1 << 16)
            except BlockingIOError:
                continue
            except OSError:
                return
            if not data:
                return
            pending.add(data)
            try:
                while (line := pending.line()) is not None:
                    self._handle(line)
            except LongLineError:
                return  # no fabric sends such a line

    def _handle(self, line: bytes) -> None:
        record = json_object(line)
        if record is None or record.get("event") != "carrier":
            return
        port, up = record.get("port"), record.get("up")
        if str(record.get("host")) == str(self._host) and isinstance(port, int) and 0 <= port < len(self._device.ports):
            self._report(port, bool(up))

    def close(self) -> None:
        """Stops following. Idempotent."""
        super().close()
        self._socket.close()
