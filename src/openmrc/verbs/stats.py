"""Snapshots that `statistics()` answers with: frozen, comparable, easily made JSON of (`dataclasses.asdict`).

Counters never go down and start at 0 when the object is made; times are nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = [
    "CcStatistics",
    "CompletionQueueStatistics",
    "DeviceStatistics",
    "DropStatistics",
    "EvSetStatistics",
    "MemoryRegionStatistics",
    "PlaneStatistics",
    "PortStatistics",
    "QueuePairStatistics",
    "QueuePairTotals",
    "SocketStatistics",
    "WaitStatistics",
]

PARSE_ERRORS = (
    "none",
    "too_short",
    "unknown_opcode",
    "bad_version",
    "bad_timestamp_format",
    "bad_sack_type",
    "bad_nack_type",
    "bad_nack_reason",
    "bad_cc_type",
    "bad_endpoint_op",
    "bad_syndrome",
    "bad_pad",
    "unexpected_payload",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CcStatistics:
    """Congestion control of one QP."""

    window_bytes: int
    max_window_bytes: int
    base_rtt_ns: int
    average_delay_ns: int
    proportional: int
    fair: int
    fast: int
    decreases: int
    quick_adapts: int
    trims: int
    losses: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EvSetStatistics:
    """How often EVs of one QP changed."""

    to_skip: int
    to_assumed_bad: int
    revived: int
    replaced: int
    floor_held: int
    probes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePairStatistics:
    """One QP; `cc` and `ev` are None where the transport has none."""

    sent_packets: int
    sent_bytes: int
    retransmitted_packets: int
    received_packets: int
    received_bytes: int
    duplicate_packets: int
    placed_bytes: int
    sacks_sent: int
    sacks_received: int
    nacks_sent: int
    nacks_received: int
    acks_sent: int
    acks_received: int
    probes_sent: int
    probes_received: int
    timeouts: int
    losses_inferred: int
    trimmed_packets: int
    trims_received: int
    ecn_marks_received: int
    out_of_window_packets: int
    stale_packets: int
    contradictory_port_status: int
    refused_packets: int
    completed_messages: int
    completed_bytes: int
    received_messages: int
    inflight_packets: int
    inflight_bytes: int
    lost_pending: int
    smoothed_rtt_ns: int
    last_rtt_ns: int
    sends_outstanding: int
    cc: CcStatistics | None
    ev: EvSetStatistics | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneStatistics:
    """One plane of a QP whose planes are controlled one by one."""

    window_bytes: int
    in_flight_bytes: int
    sent_packets: int
    sent_bytes: int
    lost_packets: int
    """Taken for lost; some of them may have been late."""
    acked_packets: int
    rate_bps: int
    """Delivered, over some ten milliseconds; 0: not known yet."""
    base_rtt_ns: int
    smoothed_rtt_ns: int
    queue_delay_ns: int
    """Beyond `base_rtt_ns`, the least of the latest round trips."""
    target_delay_ns: int
    """Queueing delay that is aimed at."""
    background_loss_ppm: int
    """Packets lost whatever the rate, of a million."""
    burst_bytes: int
    marking: bool
    """The plane marks congestion, so that the controller of the QP steers it."""
    silent: bool
    """Packets get no answer while other planes answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketStatistics:
    """What the kernel did for one port."""

    send_calls: int
    sent_datagrams: int
    sent_bytes: int
    segmented_sends: int
    receive_calls: int
    received_datagrams: int
    received_bytes: int
    coalesced_receives: int
    would_block: int
    send_errors: int
    dropped_datagrams: int
    too_long: int
    no_path: int
    receive_errors: int
    truncated: int
    kernel_drops: int
    endpoint_drops: int
    """Endpoint operations (EV probes, port status) beyond what a port reads of them."""
    receive_buffer_bytes: int
    send_buffer_bytes: int
    last_send_error: int
    refusal: int
    """errno, if the kernel has refused packets of this port and taken or given none since; else 0."""
    segmentation_offload: bool
    receive_offload: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PortStatistics:
    """One port: packets of the engine, and its sockets underneath."""

    sent_packets: int
    sent_bytes: int
    received_packets: int
    received_bytes: int
    up: bool
    socket: SocketStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitStatistics:
    """Waiting and waking: system calls of a device that its sockets do not make."""

    wait_calls: int
    """epoll_pwait2, epoll_wait, ppoll and poll, those that return at once included."""
    wakeups: int
    """Waits that had leave to sleep and ended before their time was over."""
    eventfd_writes: int
    """To wake the I/O thread, or threads that wait for completions or events."""
    eventfd_reads: int
    yields: int
    """sched_yield of the I/O thread while another thread wants the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePairTotals:
    """All QPs of a device together, closed ones included; each counter as in `QueuePairStatistics`."""

    sent_packets: int
    retransmitted_packets: int
    received_packets: int
    completed_bytes: int
    placed_bytes: int
    sacks_sent: int
    sacks_received: int
    nacks_sent: int
    nacks_received: int
    acks_sent: int
    acks_received: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DropStatistics:
    """Datagrams that never reached a QP, by reason."""

    parse_errors: dict[str, int]
    bad_icrc: int
    wrong_partition_key: int
    unknown_qp: int
    wrong_source: int
    qp_not_ready: int
    wrong_context: int
    unknown_peer: int
    wrong_transport: int
    events_dropped: int
    wrong_nonce: int
    contradictory_port_status: int
    unanswered_probes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceStatistics:
    """A whole device."""

    turns: int
    progress_calls: int
    pauses: int
    timer_runs: int
    events_dropped: int
    clock_rebases: int
    io_threads: int
    """I/O threads at work now."""
    io_threads_peak: int
    """The most that were at work at a time."""
    waits: WaitStatistics
    qps: QueuePairTotals
    drops: DropStatistics
    ports: tuple[PortStatistics, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionQueueStatistics:
    """A completion queue."""

    capacity: int
    polled: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRegionStatistics:
    """A memory region."""

    address: int
    length_bytes: int
    remote_write: bool
    registered: bool


def queue_pair_statistics(raw: dict[str, Any]) -> QueuePairStatistics:
    """From what the native side answers."""
    cc, ev = raw.pop("cc"), raw.pop("ev")
    return QueuePairStatistics(
        **raw, cc=None if cc is None else CcStatistics(**cc), ev=None if ev is None else EvSetStatistics(**ev)
    )


def device_statistics(raw: dict[str, Any]) -> DeviceStatistics:
    """From what the native side answers."""
    drops, waits, qps = (raw.pop(name) for name in ("drops", "waits", "qps"))
    counts = zip(PARSE_ERRORS, drops.pop("parse_errors"), strict=True)
    parse_errors = {name: count for name, count in counts if name != "none"}
    ports = [PortStatistics(**{**port, "socket": SocketStatistics(**port["socket"])}) for port in raw.pop("ports")]
    return DeviceStatistics(
        **raw,
        waits=WaitStatistics(**waits),
        qps=QueuePairTotals(**qps),
        drops=DropStatistics(parse_errors=parse_errors, **drops),
        ports=tuple(ports),
    )
