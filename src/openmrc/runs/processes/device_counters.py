"""Work of a device per megabyte of payload: system calls, wake-ups, datagrams, acknowledgements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Self

from openmrc import Device

__all__ = ["DeviceCounters", "counter_lines"]

_CALLS = {
    "send": "send_calls",
    "receive": "receive_calls",
    "wait": "wait_calls",
    "eventfd": "eventfd_calls",
    "timer": "timer_calls",
}


@dataclass(frozen=True, slots=True)
class DeviceCounters:
    """Counters of a device, all ports and QPs together. Names are those of `Device.statistics()`.

    Args:
        send_calls: sendmsg and sendmmsg.
        receive_calls: recvmsg and recvmmsg.
        wait_calls: epoll and ppoll, including those that return at once.
        wakeups: Waits that could sleep and ended before their timeout.
        eventfd_calls: Writes and reads of eventfds, by which threads wake each other.
        timer_calls: Of the timer by which an I/O thread takes over from threads that poll.
        sacks_sent: SACKs, of all QPs.
        sacks_received: The same.
        sent_datagrams: Datagrams, control packets and repeated packets included.
        received_datagrams: The same.
        sent_bytes: Their bytes from the UDP payload on.
        received_bytes: The same.
    """

    send_calls: int
    receive_calls: int
    wait_calls: int
    wakeups: int
    eventfd_calls: int
    timer_calls: int
    sacks_sent: int
    sacks_received: int
    sent_datagrams: int
    received_datagrams: int
    sent_bytes: int
    received_bytes: int

    @classmethod
    def of(cls, device: Device) -> Self:
        """The current counters."""
        found = device.statistics()
        sockets = [port.socket for port in found.ports]
        return cls(
            send_calls=sum(one.send_calls for one in sockets),
            receive_calls=sum(one.receive_calls for one in sockets),
            wait_calls=found.waits.wait_calls,
            wakeups=found.waits.wakeups,
            eventfd_calls=found.waits.eventfd_writes + found.waits.eventfd_reads,
            timer_calls=found.waits.timer_calls,
            sacks_sent=found.qps.sacks_sent,
            sacks_received=found.qps.sacks_received,
            sent_datagrams=sum(one.sent_datagrams for one in sockets),
            received_datagrams=sum(one.received_datagrams for one in sockets),
            sent_bytes=sum(one.sent_bytes for one in sockets),
            received_bytes=sum(one.received_bytes for one in sockets),
        )

    def since(self, earlier: Self) -> Self:
        """Difference to an earlier snapshot of the same device."""
        return type(self)(*(getattr(self, one.name) - getattr(earlier, one.name) for one in fields(self)))

    def per_mb(self, count_bytes: float) -> dict[str, float] | None:
        """Each counter per 1e6 of these bytes, its name with `_per_mb`; None without bytes."""
        if not count_bytes:
            return None
        return {f"{name}_per_mb": value / (count_bytes / 1e6) for name, value in asdict(self).items()}


def counter_lines(ends: Mapping[str, Mapping[str, float] | None]) -> list[tuple[str, str, str]]:
    """Lines for people from `DeviceCounters.per_mb` of each end: name, value, components."""
    known = {end: found for end, found in ends.items() if found is not None}
    lines = []
    for end, found in known.items():
        calls = {words: found[f"{name}_per_mb"] for words, name in _CALLS.items()}
        parts = ", ".join(f"{words} {count:.1f}" for words, count in calls.items())
        lines.append((f"calls per MB, {end}", f"{sum(calls.values()):.1f}", parts))
    if known:
        wakeups = ", ".join(f"{end} {found['wakeups_per_mb']:.1f}" for end, found in known.items())
        sacks = max(found[f"sacks_{way}_per_mb"] for found in known.values() for way in ("sent", "received"))
        lines.append(("SACKs per MB", f"{sacks:.1f}", f"wake-ups per MB: {wakeups}"))
    return lines
