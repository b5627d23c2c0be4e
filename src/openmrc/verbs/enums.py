"""Enumerations.

Written by tools/spec.py from spec/enums.toml: edit that, then `make spec`.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag

__all__ = [
    "Access",
    "EvCause",
    "EvFeedback",
    "EvFormatMode",
    "EvState",
    "EventType",
    "ParseError",
    "PathSignal",
    "QpErrorCause",
    "QpState",
    "Status",
    "Transport",
    "WcOpcode",
    "WcStatus",
    "WrOpcode",
]


class Transport(IntEnum):
    """Protocol of a QP."""

    MRC = 0
    """Multipath, as this repository describes it."""
    RC = 1
    """RoCEv2 RC: one path, go-back-N; for SEND, and for peers without MRC."""


class QpState(IntEnum):
    """State of a QP."""

    RST = 0
    """Created, or reset."""
    INIT = 1
    """Has paths and congestion control."""
    RTR = 2
    """Ready to receive."""
    RTS = 3
    """Ready to send."""
    ERR = 4
    """Failed: everything posted is flushed."""


class QpErrorCause(IntEnum):
    """Reason why a QP went to ERR."""

    NONE = 0
    """It did not."""
    RETRY_EXCEEDED = 1
    """No path answered until the retries ran out."""
    LOCAL_PROTECTION = 2
    """A registered buffer of a posted request is gone."""
    REMOTE_ACCESS = 3
    """The peer refused: key, bounds or permission."""
    REMOTE_OPERATIONAL = 4
    """The peer failed on its side: no receive posted, completion queue overrun."""
    REMOTE_INVALID = 5
    """The peer refused the request."""
    ACCESS_VIOLATION = 6
    """This side refused the peer's WRITE, READ or atomic."""
    NO_RECEIVE_POSTED = 7
    """MRC: a WRITE_IMM found no receive."""
    WIMM_LIMIT = 8
    """The peer exceeded `wimm_max_dest`."""
    UNEXPECTED_EVENT = 9
    """The peer sent a NACK for an unexpected event."""
    PROTOCOL = 10
    """The peer broke the structure of a message."""
    CQ_OVERRUN = 11
    """A completion found its queue full."""
    FLUSHED = 12
    """Moved to ERR by command."""
    RNR_RETRY_EXCEEDED = 13
    """RC: the peer had no receive posted until the retries ran out."""
    RECEIVE_TOO_SMALL = 14
    """RC: a SEND of the peer was longer than its receive."""
    BAD_RESPONSE = 15
    """RC: the answer to a READ had the wrong size."""


class WrOpcode(IntEnum):
    """Kind of a work request."""

    WRITE = 0
    """Write into the peer's memory."""
    WRITE_IMM = 1
    """The same, and consume a receive of the peer's, with 32 bits of immediate data."""
    SEND = 2
    """RC: write into the memory of a receive of the peer's."""
    SEND_IMM = 3
    """RC: the same, with 32 bits of immediate data."""
    READ = 4
    """RC: read from the peer's memory."""
    COMPARE_SWAP = 5
    """RC: replace eight bytes of the peer's memory if they have a certain value; answers the former value."""
    FETCH_ADD = 6
    """RC: add to eight bytes of the peer's memory; answers the former value."""


class WcOpcode(IntEnum):
    """Kind of a completion."""

    WRITE = 0
    """Of a WRITE or WRITE_IMM."""
    RECV_WRITE_IMM = 1
    """Of a receive, by a WRITE_IMM of the peer."""
    SEND = 2
    """Of a SEND or SEND_IMM."""
    RECV = 3
    """Of a receive, by a SEND of the peer."""
    RECV_IMM = 4
    """Of a receive, by a SEND_IMM of the peer."""
    READ = 5
    """Of a READ."""
    COMPARE_SWAP = 6
    """Of a COMPARE_SWAP."""
    FETCH_ADD = 7
    """Of a FETCH_ADD."""


class WcStatus(IntEnum):
    """Status of a completion; numbers of `ibv_wc_status`."""

    SUCCESS = 0
    """The peer has the data."""
    LOC_LEN_ERR = 1
    """The SEND of the peer was longer than this receive."""
    LOC_PROT_ERR = 4
    """The local region is gone."""
    WR_FLUSH_ERR = 5
    """The QP failed, or was moved to ERR, before this one was done."""
    BAD_RESP_ERR = 7
    """The peer's answer had the wrong size."""
    REM_INV_REQ_ERR = 9
    """The peer refused the request."""
    REM_ACCESS_ERR = 10
    """Wrong key, key of another protection domain, outside the region, or a right that the region lacks."""
    REM_OP_ERR = 11
    """No receive posted at the peer, or its CQ overran."""
    RETRY_EXC_ERR = 12
    """No path answered until the retries ran out."""
    RNR_RETRY_EXC_ERR = 13
    """The peer had no receive posted until the retries ran out."""


class EvState(IntEnum):
    """State of an EV; numbers of the controller API where it has one (protocol F.2)."""

    GOOD = 1
    """Carries data."""
    ASSUMED_BAD = 2
    """Out of use after a loss or timeout, and probed."""
    SKIP = 3
    """Out of use for one round after a mark."""
    DENIED = 4
    """Out of use by order of the controller."""


class EvCause(IntEnum):
    """Reason why an EV changed its state."""

    NONE = 0
    """None."""
    ECN = 1
    """A SACK reports a mark (SKIP_ONCE)."""
    TRIMMED = 2
    """A switch trimmed a packet."""
    ALWAYS_SKIP = 3
    """The peer asks to leave the path (ALWAYS_SKIP)."""
    LOSS = 4
    """A packet counts as lost."""
    TIMEOUT = 5
    """The retransmission timer fired."""
    PROBE = 6
    """Probes were answered."""
    CURSOR = 7
    """Its turn came again."""
    LAPSED = 8
    """`skip_lapse_us` passed."""
    CONTROLLER = 9
    """`deny_ev` or `enable_ev`."""


class PathSignal(IntEnum):
    """Signal of congestion on the planes of a QP."""

    MARKS = 0
    """ECN marks and trimming: one controller for the QP, as MRC is published."""
    DELAY = 1
    """Queueing delay and losses, plane by plane (extension)."""
    DISCOVER = 2
    """By delay, until a plane is seen to mark (extension)."""


class EvFormatMode(IntEnum):
    """Place of the EV in a datagram."""

    UDP = 0
    """UDP source port: 16 bits."""
    STEV = 1
    """Low 16 bits of the IPv6 flow label, and the UDP source port: 32 bits."""
    SRV6 = 2
    """As STEV for the echo; the destination address is the path."""


class EvFeedback(IntEnum):
    """Feedback about an EV, as an EV set and a selector take it."""

    DELIVERED = 0
    """Acknowledged without a mark."""
    SKIP_ONCE = 1
    """Acknowledged, marked by ECN."""
    ALWAYS_SKIP = 2
    """Acknowledged, and the peer asks to leave the path."""
    TRIMMED = 3
    """Trimmed by a switch before the last hop."""
    LOST = 4
    """Lost without being trimmed."""
    TIMEOUT = 5
    """The retransmission timer fired."""


class EventType(IntEnum):
    """Kind of an event in a device's stream."""

    QP_STATE = 0
    """A QP entered a state."""
    EV_STATE = 1
    """An EV of a QP entered a state."""
    EV_REPLACED = 2
    """An EV left the active set for another one."""
    PORT_STATE = 3
    """A port went down or up, here or at a peer."""
    RETRY_TIMEOUT = 4
    """The retransmission timer of a QP fired."""
    CQ_OVERRUN = 5
    """A completion found its queue full."""
    PORT_REFUSED = 6
    """The operating system refused to send or receive on a port."""
    PLANE_STATE = 7
    """A plane stopped answering, or answers again, while others do."""
    SRQ_LIMIT = 8
    """A shared receive queue fell below its limit."""
    PEER_ACTIVE = 9
    """The peer's first packet reached a QP in RTR."""


class ParseError(IntEnum):
    """Mistake in a datagram. Each value is a counter of its own in the engine's statistics."""

    NONE = 0
    """None."""
    TOO_SHORT = 1
    """The headers that the opcode calls for do not fit."""
    UNKNOWN_OPCODE = 2
    """No opcode of MRC or RC."""
    BAD_VERSION = 3
    """The BTH transport version is not 0."""
    BAD_TIMESTAMP_FORMAT = 4
    """Timestamp of an unknown format."""
    BAD_SACK_TYPE = 5
    """SACK of an unknown type."""
    BAD_NACK_TYPE = 6
    """NACK of an unknown type."""
    BAD_NACK_REASON = 7
    """NACK with an unknown reason."""
    BAD_CC_TYPE = 8
    """Congestion control state of an unknown type."""
    BAD_ENDPOINT_OP = 9
    """Unknown endpoint operation."""
    BAD_SYNDROME = 10
    """Unknown AETH syndrome."""
    BAD_PAD = 11
    """Pad count larger than the bytes behind the headers."""
    UNEXPECTED_PAYLOAD = 12
    """Bytes behind the headers of a packet that has no payload."""
    BAD_JOIN = 13
    """Packet behind another one in its datagram that is no ACK."""


class Access(IntFlag):
    """Rights on a memory region."""

    LOCAL_READ = 0
    """Send from it: always allowed, to QPs of its protection domain."""
    REMOTE_WRITE = 1
    """A peer may write into it through a QP of its protection domain, with the rkey."""
    LOCAL_WRITE = 2
    """Receives may place data in it, and results of READs and atomics."""
    REMOTE_READ = 4
    """A peer may read from it, as with REMOTE_WRITE."""
    REMOTE_ATOMIC = 8
    """A peer may execute atomics in it, as with REMOTE_WRITE."""


class Status(IntEnum):
    """Outcome of a command. Peers never cause one: their actions are reported by counters, events and completions."""

    OK = 0
    """Done."""
    INVALID_ARGUMENT = 1
    """EINVAL."""
    INVALID_STATE = 2
    """EINVAL: not in this QP state."""
    QUEUE_FULL = 3
    """ENOMEM: more work requests than the queue holds."""
    LIMIT = 4
    """E2BIG: over a limit of the device."""
    BUSY = 5
    """EBUSY: still referenced."""
    NOT_FOUND = 6
    """ENOENT."""
