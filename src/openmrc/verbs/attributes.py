"""Attributes of a queue pair, by the step that takes them.

Written by tools/spec.py from spec/qp.toml: edit that, then `make spec`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from openmrc.record import Family, Record
from openmrc.verbs.enums import PathSignal, Transport

if TYPE_CHECKING:
    from openmrc.verbs.device import Peer, QpHint
    from openmrc.verbs.profiles import CcProfile, EvProfile

__all__ = [
    "QpHintAttributes",
    "QpHintOptions",
    "QpInitAttributes",
    "ToInit",
    "ToRtr",
    "ToRts",
]

_family = Family(
    verbs=True,
    refused={
        "port_num": "nothing: a QP uses all ports",
        "timeout": "timeout_exponent",
        "retry_cnt": "linear_retries and exponential_retries",
        "rnr_retry": "rc_rnr_retries for RC; nothing for MRC, which has no receiver-not-ready retry",
        "min_rnr_timer": "rc_rnr_timer for RC; nothing for MRC, which has no receiver-not-ready retry",
        "max_rd_atomic": "rc_reads_max for RC; nothing for MRC, which has no reads and atomics",
        "max_dest_rd_atomic": "rc_reads_max_dest for RC; nothing for MRC, which has no reads and atomics",
        "alt_ah_attr": "nothing: the EV set replaces alternate paths",
        "alt_port_num": "nothing: the EV set replaces alternate paths",
        "alt_timeout": "nothing: the EV set replaces alternate paths",
        "path_mig_state": "nothing: the EV set replaces path migration",
    },
    renamed={
        "max_send_wr": "send_wr_max",
        "max_recv_wr": "recv_wr_max",
        "no_trim_nack": "trim_nack",
        "no_svc_time": "service_time",
        "dest_qp_num": "destination_qp",
        "path_mtu": "payload_mtu",
        "mpr": "mpr_units",
        "max_wimm_dest": "wimm_max_dest",
        "max_wimm": "wimm_max",
        "mrc_timeout": "timeout_exponent",
        "linear_retry_count": "linear_retries",
        "exponential_retry_count": "exponential_retries",
    },
)


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class QpInitAttributes(Record):
    """Attributes of a queue pair for its whole life."""

    transport: Transport = Transport.MRC
    """MRC, or RC for peers without MRC."""
    send_wr_max: int = 128
    """Sends posted and not completed. 1 to 65,535. `max_send_wr` in the MRC API."""
    recv_wr_max: int = 128
    """Receives posted and not consumed. 0 to 65,535. `max_recv_wr` in the MRC API."""
    urgent: bool = False
    """Data of the device's ordinary QPs waits while this one sends or receives data, for four fifths of the time at
    most.
    """


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class QpHintAttributes(Record):
    """Expected use of an application's QPs, to size resources: `context.create_qp_hint(...)`."""

    qps_per_peer: int = 1
    """QPs to the same peer. 1 to 4,294,967,295."""
    send_peers: int = 1
    """Peers this side sends to. 1 to 4,294,967,295."""
    incast_degree: int = 1
    """Peers that send to the same receiver. 1 to 4,294,967,295."""
    vendor_data: bytes = b""
    """Up to 128 bytes that openmrc carries and ignores."""


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class ToInit(Record):
    """RST to INIT: paths and congestion control."""

    hint: QpHint | None = None
    """Expected use; must outlive the QP."""
    ev_profile: EvProfile | None = None
    """Paths, ONLINE; none: all of the device."""
    cc_profile: CcProfile | None = None
    """Congestion control, ONLINE; none: NSCC with its defaults."""
    ev_selector: str = "mrc"
    """Policy that chooses the EV of each burst: one of the engine's, or one registered with `openmrc.policies`."""
    probe_successes: int = 3
    """Answered probes in a row that revive an EV. 1 to 255."""
    probe_interval_us: int = 10_000
    """Between two probes of an EV that is ASSUMED_BAD, at least. 100 to 60,000,000."""
    skip_lapse_us: int = 0
    """An EV in SKIP becomes GOOD after so long out of use at the latest; 0: when its turn comes. 0 to 60,000,000."""
    signal: PathSignal = PathSignal.MARKS
    """Signal of congestion on the planes. With DELAY and DISCOVER timestamps count 1 us, whatever
    `timestamp_resolution_ns` is, and a selector that keeps to one path (`single`) leaves the QP at MARKS.
    """
    plane_buffer_bytes: int = 0
    """Bytes in flight on one plane at most, unless the path itself holds more; below the receive buffer of the peer's
    port. 0: no limit. 0 to 1,099,511,627,776.
    """
    rc_plane_move: bool = False
    """RC: moves to another plane when its own is dead; for a peer that has the attribute, too. Otherwise an RC QP keeps
    to one path.
    """


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class ToRtr(Record):
    """INIT to RTR: settings for receiving."""

    peer: Peer
    """Ports of the peer."""
    destination_qp: int
    """Number of the peer's QP. 0 to 16,777,215. `dest_qp_num` in the MRC API."""
    rq_psn: int
    """PSN of the first packet that the peer sends. 0 to 16,777,215."""
    payload_mtu: int = 4096
    """Payload of a full packet. Above 4,096, and between the powers of two, the peer has to be openmrc, too. 256 to
    8,192, a multiple of 4. `path_mtu` in the MRC API.
    """
    payload_mtu_max: int = 0
    """MRC: largest payload of WRITEs posted after padded probes of that size were answered over every plane, and at
    least payload_mtu. Packets of the peer may then have any payload from payload_mtu to 8,192. 0: payload_mtu at both
    ends. 0 to 8,192, a multiple of 4.
    """
    mpr_units: int = 32
    """Receive window in units of 128 packets: limit of the peer's packets in flight. 1 to 255. `mpr` in the MRC API."""
    wimm_max_dest: int = 32
    """WRITE_IMM messages that the peer may have in flight. 1 to 65,535. `max_wimm_dest` in the MRC API."""
    rc_rnr_timer: int = 12
    """RC: code of the time after which the peer repeats a message that found no receive; 12 is 0.64 ms. 0 to 31.
    `min_rnr_timer` in the MRC API.
    """
    rc_reads_max_dest: int = 16
    """RC: READs and atomics that the peer may have in flight. 1 to 128. `max_dest_rd_atomic` in the MRC API."""
    trim_nack: bool = True
    """Trimmed packets are answered with a NACK. The opposite of `no_trim_nack` in the MRC API."""
    dynamic_mpr: bool = False
    """The receive window may change while the QP lives (`set_receive_window`)."""
    service_time: bool = True
    """SACKs carry the receiver's service time. The opposite of `no_svc_time` in the MRC API."""
    plane_sacks: bool = False
    """SACKs are counted and merged plane by plane, and sent after 1 ms at the latest; for a peer whose own `signal` is
    not MARKS.
    """
    sack_transit: bool = False
    """Such SACKs carry the transit time of a packet in place of the out-of-order count, in both directions; for a peer
    that has the attribute, too.
    """
    sack_sharers: bool = False
    """Such SACKs carry the number of QPs that receive over the plane in place of the penalty, in both directions; for a
    peer that has the attribute, too.
    """
    no_icrc: bool = False
    """Packets have zeros in place of the ICRC, in both directions. Only where both ends have the attribute and their
    own kernel carries all packets between them, so that only memory and UDP's checksum could change one.
    """
    kernel_check: bool = False
    """The QP asks the peer's whether both run on one kernel, and answers the same question; packets then have zeros in
    place of the ICRC. Off on devices with a path file or another advertised address, which something else than the
    kernel may lie behind. For ends without a handshake that could agree on `no_icrc`.
    """
    sack_bytes: int = 4096
    """A SACK is sent after this many bytes at the latest; every packet counts as at least 1,024. 1 to 1,048,576."""
    nack_out_of_window: bool = True
    """A PSN above the window is answered with a NACK; otherwise it is dropped silently."""


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class ToRts(Record):
    """RTR to RTS: settings for sending."""

    sq_psn: int
    """PSN of the first packet sent. 0 to 16,777,215."""
    mpr_units: int = 32
    """The peer's receive window, in units of 128 packets. 1 to 255. `mpr` in the MRC API."""
    wimm_max: int = 32
    """WRITE_IMM messages in flight: the peer's `wimm_max_dest`. 1 to 65,535. `max_wimm` in the MRC API."""
    timeout_exponent: int = 8
    """Base of the retransmission timer, 1.024 us x 2^n. 0 to 24. `mrc_timeout` in the MRC API."""
    linear_retries: int = 7
    """Timeouts at the same interval. 0 to 7. `linear_retry_count` in the MRC API."""
    exponential_retries: int = 25
    """Timeouts at doubling intervals of 17 s at most, after the linear ones; then the QP fails. 25: for ever. 0 to 25.
    `exponential_retry_count` in the MRC API.
    """
    timestamp_resolution_ns: int = 128
    """Unit of the timestamps in packets. 128 or 1000."""
    trimmable: bool = True
    """Switches may trim data packets."""
    rc_window_packets: int = 64
    """RC: packets in flight. 1 to 32,768."""
    rc_reads_max: int = 16
    """RC: READs and atomics in flight: the peer's `rc_reads_max_dest`. A long READ is several requests. 1 to 128.
    `max_rd_atomic` in the MRC API.
    """
    rc_rnr_retries: int = 7
    """RC: repetitions of a message that found no receive, without progress; then the QP fails. 7: for ever. 0 to 7.
    `rnr_retry` in the MRC API.
    """


class QpHintOptions(TypedDict, total=False):
    """Keyword arguments with the fields of `QpHintAttributes`."""

    qps_per_peer: int
    send_peers: int
    incast_degree: int
    vendor_data: bytes
