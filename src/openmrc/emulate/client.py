"""The other end of the control channel."""

from __future__ import annotations

import json
import time
from collections import deque
from types import TracebackType
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from openmrc.emulate.control import connect_control
from openmrc.errors import ConfigError, PeerError, PeerUnreachableError

__all__ = ["ControlClient"]

_LINE_BYTES_MAX = 64 << 20  # statistics of a large fabric are megabytes
_MESSAGE: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


class ControlClient:
    """A connection to the control channel of a running fabric. Not for several threads at once; make one for each.

    Args:
        address: What `EmulatedFabric.control_address` or `openmrc emulate` says.
        timeout_s: How long to wait for the connection and for each answer.

    Raises:
        ConfigError: the address is malformed.
        PeerUnreachableError: no fabric listens there.
    """

    def __init__(self, address: str, timeout_s: float = 5.0) -> None:
        self.address = address
        self._timeout_s = timeout_s
        started = time.monotonic()
        try:
            self._socket = connect_control(address, timeout_s)
        except OSError as error:
            waited_s = time.monotonic() - started
            raise PeerUnreachableError(address, waited_s, error.strerror or str(error)) from None
        self._buffer = bytearray()
        self._events: deque[dict[str, Any]] = deque()

    def close(self) -> None:
        """Hang up; calling it again does nothing."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def fileno(self) -> int:
        """For select and event loops: readable when an event may have come."""
        return self._socket.fileno()

    def describe(self) -> dict[str, Any]:
        """Size of the fabric, its rate and base round trip, and `ports[host][plane]` in the text form NICs take."""
        return self._request("describe")

    def inject(self, fault: str) -> int:
        """As `EmulatedFabric.inject`.

        Raises:
            ConfigError: the fabric refused the command; the message is the fabric's.
        """
        return int(self._request("inject", fault=fault)["result"])

    def statistics(self) -> dict[str, Any]:
        """As `EmulatedFabric.statistics().as_dict()`."""
        return dict(self._request("statistics")["statistics"])

    def subscribe(self, host: int | None = None) -> None:
        """From now on the fabric sends events; `next_event` gives them. With `host`, only that host's carriers."""
        self._request("subscribe", host=host)

    def next_event(self, timeout_s: float | None = None) -> dict[str, Any] | None:
        """The next event; None when none came in time. Without a timeout it waits for ever.

        Raises:
            PeerError: the fabric has stopped.
        """
        if self._events:
            return self._events.popleft()
        return self._read_line(timeout_s)

    def _request(self, name: str, **values: Any) -> dict[str, Any]:
        line = json.dumps({"do": name} | values).encode() + b"\n"
        try:
            self._socket.settimeout(self._timeout_s)
            self._socket.sendall(line)
        except OSError as error:
            raise PeerError(f"the fabric at {self.address} hung up: {error}") from None
        deadline = time.monotonic() + self._timeout_s
        while (message := self._read_line(max(deadline - time.monotonic(), 0))) is not None:
            if "event" in message:
                self._events.append(message)
            elif message.get("ok") is True:
                return message
            else:
                raise _RefusedError(str(message.get("error", "the fabric refused without a reason")))
        raise PeerUnreachableError(self.address, self._timeout_s)

    def _read_line(self, timeout_s: float | None) -> dict[str, Any] | None:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while b"\n" not in self._buffer:
            if len(self._buffer) > _LINE_BYTES_MAX:
                raise PeerError(f"{self.address} is not a fabric: it sent a line of more than {_LINE_BYTES_MAX} bytes")
            left_s = None if deadline is None else max(deadline - time.monotonic(), 1e-3)
            try:
                self._socket.settimeout(left_s)
                chunk = self._socket.recv(65536)
            except TimeoutError:
                return None
            except OSError as error:
                raise PeerError(f"the fabric at {self.address} hung up: {error}") from None
            if not chunk:
                raise PeerError(f"the fabric at {self.address} has stopped")
            self._buffer += chunk
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        try:
            return _MESSAGE.validate_json(line)
        except ValidationError:
            raise PeerError(f"{self.address} is not a fabric: it sent {line[:40]!r}") from None


class _RefusedError(ConfigError):
    """The fabric's own words, unchanged."""

    def __init__(self, words: str) -> None:
        super().__init__("request", None, words)
        self.args = (words,)
