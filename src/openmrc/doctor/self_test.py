"""WRITEs between two devices of this process, over loopback: an exercise of the whole stack, and its cost."""

from __future__ import annotations

import contextlib
import socket
import statistics
import threading
import time
from dataclasses import dataclass

from openmrc.connection import Connection, Listener, connect, listen
from openmrc.doctor.finding import Finding, Verdict
from openmrc.errors import OpenmrcError
from openmrc.units import format_bytes
from openmrc.verbs import Device

__all__ = ["SelfTest", "check_self_test", "run_self_test"]

_GROUP = "self-test"
_NAME = "WRITE"
_ADDRESS = "127.0.0.1"
_SMALL_BYTES = 8
_LARGE_BYTES = 4 << 20
_LARGE_MAX = 8
_BUDGET_S = 2.0
_SHARE_OF_SMALL = 0.25
_SHARE_OF_LARGE = 0.25
_SMALL_MAX = 1000


@dataclass(frozen=True, slots=True)
class SelfTest:
    """Measurements; `error` is the reason for an early end, with the measurements until then."""

    content_ok: bool = False
    small_write_us: float | None = None
    goodput_gbps: float | None = None
    error: str = ""


def run_self_test(budget_s: float = _BUDGET_S) -> SelfTest:
    """Runs WRITEs of 8 bytes and of 4 MiB from one device to another; ends within about the budget in any case."""
    deadline = time.monotonic() + budget_s
    target = bytearray(_LARGE_BYTES)
    try:
        with (
            Device([_ADDRESS], udp_port=_free_udp_port(), evs_per_port=8) as near,
            Device([_ADDRESS], udp_port=_free_udp_port(), evs_per_port=8) as far,
            listen(far, f"{_ADDRESS}:0", region=target) as listener,
        ):
            accepted: list[Connection] = []
            server = threading.Thread(target=_accept, args=(listener, accepted, budget_s), daemon=True)
            server.start()
            try:
                with connect(near, f"{_ADDRESS}:{listener.port}", timeout_s=budget_s) as connection:
                    return _measured(connection, target, deadline, budget_s)
            finally:
                server.join(budget_s)
                for connection in accepted:
                    connection.close()
    except (OpenmrcError, OSError) as error:
        return SelfTest(error=str(error))


def check_self_test(result: SelfTest) -> Finding:
    """Checks that WRITEs arrived complete."""
    numbers = {
        "content_ok": result.content_ok,
        "small_write_us": None if result.small_write_us is None else round(result.small_write_us, 1),
        "goodput_gbps": None if result.goodput_gbps is None else round(result.goodput_gbps, 2),
    }
    if result.error:
        return Finding(_GROUP, _NAME, Verdict.BROKEN, f"Over loopback it failed: {result.error}.", numbers=numbers)
    if not result.content_ok:
        sentence = "Data received over loopback differs from the data written."
        return Finding(_GROUP, _NAME, Verdict.BROKEN, sentence, numbers=numbers)
    sentence = (
        f"Over loopback, both ends in this process: 8 bytes in {result.small_write_us:.0f} us, "
        f"{format_bytes(_LARGE_BYTES)} at {result.goodput_gbps:.1f} Gb/s, content right."
    )
    return Finding(_GROUP, _NAME, Verdict.OK, sentence, numbers=numbers)


def _measured(connection: Connection, target: bytearray, deadline: float, budget_s: float) -> SelfTest:
    small = bytearray(b"\xa5" * _SMALL_BYTES)
    times: list[float] = []
    end = time.monotonic() + _SHARE_OF_SMALL * budget_s
    while not times or (time.monotonic() < min(end, deadline) and len(times) < _SMALL_MAX):
        begun = time.perf_counter()
        connection.write(small).wait(timeout_s=max(deadline - time.monotonic(), 0))
        times.append(time.perf_counter() - begun)
    small_us = statistics.median(times) * 1e6
    large = bytearray(range(256)) * (_LARGE_BYTES // 256)
    sent, begun = 0, time.perf_counter()
    while not sent or (time.monotonic() < end + _SHARE_OF_LARGE * budget_s and sent < _LARGE_MAX):
        connection.write(large).wait(timeout_s=max(deadline - time.monotonic(), 0))
        sent += 1
    seconds = time.perf_counter() - begun
    return SelfTest(target == large, small_us, sent * _LARGE_BYTES * 8 / seconds / 1e9)


def _accept(listener: Listener, accepted: list[Connection], budget_s: float) -> None:
    """A failed handshake is reported by the connecting end."""
    with contextlib.suppress(OpenmrcError, OSError):
        accepted.append(listener.accept(timeout_s=budget_s))


def _free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((_ADDRESS, 0))
        return int(sock.getsockname()[1])
