"""Statistics of the software NIC: sockets, waits, the device.

Written by tools/spec.py from spec/nic-statistics.toml: edit that, then `make spec`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openmrc.verbs.engine_statistics import DropStatistics, PortStatistics, QueuePairTotals

__all__ = [
    "DeviceStatistics",
    "SocketStatistics",
    "WaitStatistics",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketStatistics:
    """Sockets of one port."""

    send_calls: int
    """sendto, sendmsg and sendmmsg."""
    sent_datagrams: int
    """Datagrams sent."""
    sent_bytes: int
    """Bytes of these from the UDP payload on."""
    segmented_sends: int
    """Sends that the kernel cut into datagrams."""
    receive_calls: int
    """recvmmsg and recvmsg, those that found nothing included."""
    received_datagrams: int
    """Datagrams received."""
    received_bytes: int
    """Bytes of these from the UDP payload on."""
    coalesced_receives: int
    """Receives of several datagrams at once."""
    would_block: int
    """Sends that the kernel did not take yet (EAGAIN, ENOBUFS): the burst is kept and the port rests."""
    send_errors: int
    """Any other refusal: the datagrams are dropped, as a broken link would."""
    dropped_datagrams: int
    """Not sent because of `send_errors`, a deregistered region, or no path."""
    too_long: int
    """Of these: larger than the path MTU."""
    no_path: int
    """Of these: EV format SRV6, to a peer that no path rule knows."""
    receive_errors: int
    """Pending ICMP errors and the like."""
    truncated: int
    """Longer than any packet of this protocol."""
    kernel_drops: int
    """Dropped because the receive buffer was full."""
    endpoint_drops: int
    """Endpoint operations (EV probes, port status) beyond the share that a port reads."""
    receive_buffer_bytes: int
    """Receive buffers that the kernel granted."""
    send_buffer_bytes: int
    """Send buffers that the kernel granted."""
    last_send_error: int
    """Latest error of a send."""
    refusal: int
    """errno, if the kernel has refused packets of this port and taken or given none since; else 0."""
    segmentation_offload: bool
    """UDP_SEGMENT is in use."""
    receive_offload: bool
    """UDP_GRO is in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStatistics:
    """Waiting and waking: system calls of a device that its sockets do not make."""

    wait_calls: int
    """epoll_pwait2, epoll_wait, ppoll and poll, those that return at once included."""
    wakeups: int
    """Waits that had leave to sleep and ended before their time was over."""
    eventfd_writes: int
    """To wake I/O threads, or threads that wait for completions or events."""
    eventfd_reads: int
    """Of the same."""
    timer_calls: int
    """timerfd_settime and reads, for the timer by which an I/O thread takes over from threads that poll."""
    yields: int
    """sched_yield of an I/O thread while another thread wants the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceStatistics:
    """A whole device."""

    turns: int
    """Turns of the I/O threads."""
    progress_calls: int
    """Turns by polling threads."""
    pauses: int
    """[Pauses](../decisions/0069-interrupt-moderation.md) of the I/O threads between looks at their sockets."""
    timer_runs: int
    """Expired timers."""
    events_dropped: int
    """Events that the application did not fetch in time."""
    clock_rebases: int
    """Times that the engine's clock was [set back](../decisions/0055-clock-of-a-device.md)."""
    io_threads: int
    """I/O threads at work now."""
    io_threads_peak: int
    """The most that were at work at a time."""
    waits: WaitStatistics
    """Waits and wake-ups."""
    qps: QueuePairTotals
    """All QPs together."""
    drops: DropStatistics
    """Datagrams that never reached a QP."""
    ports: tuple[PortStatistics, ...]
    """In port order."""
