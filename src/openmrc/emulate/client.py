"""Client of the control channel."""

from __future__ import annotations

import time
from collections import deque
from types import TracebackType
from typing import Any, Self

from openmrc.config.json_lines import LineBuffer, LongLineError, json_line, json_object
from openmrc.emulate.control import connect_control
from openmrc.errors import ConfigError, PeerError, PeerUnreachableError

__all__ = ["ControlClient"]

_LINE_BYTES_MAX = 64 << 20  # statistics of a large fabric are megabytes


class ControlClient:
    """A connection to the control channel of a running fabric. Not thread safe: create one per thread.

    Args:
        address: As returned by `EmulatedFabric.control_address` or printed by `openmrc emulate`.
        timeout_s: Limit for the connection and for each answer.

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
        self._lines = LineBuffer(_LINE_BYTES_MAX)
        self._events: deque[dict[str, Any]] = deque()

    def close(self) -> None:
        """Closes the connection. Idempotent."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def fileno(self) -> int:
        """For select and event loops: readable if an event may be available."""
        return self._socket.fileno()

    def describe(self) -> dict[str, Any]:
        """Size of the fabric, its rate and base round trip, and `ports[host][plane]` in the text form of NIC ports."""
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
        """Requests events from the fabric, for `next_event`. With `host`, only that host's carriers."""
        self._request("subscribe", host=host)

    def next_event(self, timeout_s: float | None = None) -> dict[str, Any] | None:
        """The next event; None after the timeout. Without a timeout there is no limit.

        Raises:
            PeerError: the fabric has stopped.
        """
        if self._events:
            return self._events.popleft()
        return self._read_line(timeout_s)

    def _request(self, name: str, **values: Any) -> dict[str, Any]:
        line = json_line({"do": name} | values)
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
        while (line := self._whole_line()) is None:
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
            self._lines.add(chunk)
        if (message := json_object(line)) is None:
            raise PeerError(f"{self.address} is not a fabric: it sent {line[:40]!r}")
        return message

    def _whole_line(self) -> bytes | None:
        try:
            return self._lines.line()
        except LongLineError:
            words = f"it sent a line of more than {_LINE_BYTES_MAX} bytes"
            raise PeerError(f"{self.address} is not a fabric: {words}") from None


class _RefusedError(ConfigError):
    """A refusal with the fabric's text, unchanged."""

    def __init__(self, words: str) -> None:
        super().__init__("request", None, words)
        self.args = (words,)
