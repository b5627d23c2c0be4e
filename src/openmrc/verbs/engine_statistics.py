"""Statistics of the engine: QPs, planes, ports, drops.

Written by tools/spec.py from spec/statistics.toml: edit that, then `make spec`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openmrc.verbs.nic_statistics import SocketStatistics

__all__ = [
    "CcStatistics",
    "DropStatistics",
    "EvSetStatistics",
    "PlaneStatistics",
    "PortStatistics",
    "QueuePairStatistics",
    "QueuePairTotals",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePairStatistics:
    """One QP."""

    sent_packets: int
    """Data packets and probes sent."""
    sent_bytes: int
    """Payload of these."""
    retransmitted_packets: int
    """Sent again."""
    received_packets: int
    """Data packets and probes received."""
    received_bytes: int
    """Payload of these."""
    duplicate_packets: int
    """Received again."""
    placed_bytes: int
    """Payload written into registered memory."""
    sacks_sent: int
    """Selective acknowledgements sent."""
    sacks_received: int
    """Selective acknowledgements received."""
    nacks_sent: int
    """Negative acknowledgements sent."""
    nacks_received: int
    """Negative acknowledgements received."""
    acks_sent: int
    """Transport acknowledgements sent."""
    acks_received: int
    """Transport acknowledgements received."""
    rnr_naks_sent: int
    """RC: reports that no receive was posted, sent."""
    rnr_naks_received: int
    """RC: the same, received."""
    plane_moves: int
    """RC: changes of the plane."""
    probes_sent: int
    """Probes sent."""
    probes_received: int
    """Probes received."""
    timeouts: int
    """Expiries of the retransmission timer."""
    losses_inferred: int
    """Taken for lost because later ones arrived."""
    trimmed_packets: int
    """Arrived cut by a switch."""
    trims_received: int
    """Packets of this QP that a NACK reports as trimmed."""
    ecn_marks_received: int
    """SACKs that report a mark."""
    out_of_window_packets: int
    """Received above the window."""
    stale_packets: int
    """Packets about nothing that is in flight: late, repeated, or about what was never sent."""
    refused_packets: int
    """Requests that this side refused."""
    contradictory_port_status: int
    """SACKs that report the port that carried them as down."""
    completed_messages: int
    """Sends completed."""
    completed_bytes: int
    """Payload of these."""
    received_messages: int
    """Messages received to the end."""
    in_flight_packets: int
    """In flight now."""
    in_flight_bytes: int
    """In flight now, headers included."""
    lost_pending: int
    """Lost and not sent again yet."""
    smoothed_rtt_ns: int
    """Smoothed round trip."""
    last_rtt_ns: int
    """Latest round trip."""
    sends_outstanding: int
    """Sends posted and not completed."""
    cc: CcStatistics | None
    """Congestion control; none where the transport has none."""
    ev: EvSetStatistics | None
    """EV set; none where the transport has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneStatistics:
    """One plane of a QP whose planes are controlled one by one."""

    window_bytes: int
    """Limit of the bytes in flight. A plane that marks is limited by the controller instead, and this window does not
    change.
    """
    in_flight_bytes: int
    """In flight now."""
    sent_packets: int
    """Packets sent."""
    sent_bytes: int
    """Bytes of these with headers, those of IP as 40."""
    lost_packets: int
    """Taken for lost; some of them may have been late."""
    acked_packets: int
    """Packets acknowledged."""
    rate_bps: int
    """Delivered, smoothed over some ten milliseconds; 0: not known yet. Not measured while the plane marks."""
    base_rtt_ns: int
    """Idle round trip, the least of the latest ones."""
    smoothed_rtt_ns: int
    """Smoothed round trip."""
    queue_delay_ns: int
    """Least queueing delay of the latest eight samples, beyond `base_rtt_ns`."""
    target_delay_ns: int
    """Queueing delay that is aimed at."""
    background_loss_ppm: int
    """Packets lost whatever the rate."""
    burst_bytes: int
    """Sent at once at most."""
    marking: bool
    """The plane marks, and the controller of the QP controls it."""
    silent: bool
    """Packets get no answer while other planes answer."""
    competing: bool
    """Others keep the buffer of the plane full, as TCP does, and the window grows until packets are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CcStatistics:
    """Congestion control of one QP."""

    window_bytes: int
    """Window."""
    max_window_bytes: int
    """Largest window."""
    base_rtt_ns: int
    """Idle round trip: the smallest sample."""
    average_delay_ns: int
    """Average queueing delay."""
    proportional: int
    """Proportional increases."""
    fair: int
    """Fair increases."""
    fast: int
    """Fast increases."""
    decreases: int
    """Multiplicative decreases."""
    quick_adapts: int
    """Quick adaptations."""
    trims: int
    """Trimmed packets reported to it."""
    losses: int
    """Lost packets reported to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvSetStatistics:
    """Changes of the EVs of one QP."""

    to_skip: int
    """Changes to SKIP."""
    to_assumed_bad: int
    """Changes to ASSUMED_BAD."""
    revived: int
    """EVs that probes revived."""
    replaced: int
    """EVs that left the active set for another one."""
    floor_held: int
    """Changes to ASSUMED_BAD that `min_active` forbade."""
    probes: int
    """Probes of EVs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePairTotals:
    """All QPs of a device together, those that were closed or reset included."""

    sent_packets: int
    """Data packets and probes sent."""
    retransmitted_packets: int
    """Sent again."""
    received_packets: int
    """Data packets and probes received."""
    completed_bytes: int
    """Payload of these."""
    placed_bytes: int
    """Payload written into registered memory."""
    sacks_sent: int
    """Selective acknowledgements sent."""
    sacks_received: int
    """Selective acknowledgements received."""
    nacks_sent: int
    """Negative acknowledgements sent."""
    nacks_received: int
    """Negative acknowledgements received."""
    acks_sent: int
    """Transport acknowledgements sent."""
    acks_received: int
    """Transport acknowledgements received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortStatistics:
    """Packets of one port, as the engine counts them."""

    sent_packets: int
    """Packets sent."""
    sent_bytes: int
    """Bytes of these."""
    received_packets: int
    """Packets received."""
    received_bytes: int
    """Bytes of these."""
    up: bool
    """The port has a carrier, as the device believes."""
    socket: SocketStatistics
    """Sockets of the port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropStatistics:
    """Datagrams that never reached a QP, by reason."""

    parse_errors: dict[str, int]
    """Malformed, by `ParseError`."""
    bad_icrc: int
    """Wrong checksum."""
    missing_icrc: int
    """Without an ICRC, to a QP that requires one."""
    wrong_partition_key: int
    """Another partition key."""
    unknown_qp: int
    """To a QP that does not exist."""
    wrong_source: int
    """Not from an address of the QP's peer."""
    qp_not_ready: int
    """To a QP that is not in RTR or RTS."""
    unknown_peer: int
    """Endpoint operations of senders that are no peer."""
    wrong_transport: int
    """MRC to an RC QP, or the reverse."""
    events_dropped: int
    """Events that did not fit the engine's queue."""
    wrong_nonce: int
    """Endpoint operations without proof of their origin."""
    contradictory_port_status: int
    """Port status that reports the port that carried it as down."""
    unanswered_probes: int
    """EV probes beyond the rate that is answered."""
