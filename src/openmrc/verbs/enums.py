"""Every number that crosses the native boundary, by name.

The values are the engine's (`native/engine/types.hpp`, `events.hpp`) and, where verbs have one, libibverbs'.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import NoReturn

from openmrc import errors
from openmrc.verbs.ev_format import EvFormatMode

__all__ = [
    "Access",
    "EvCause",
    "EvFormatMode",
    "EvState",
    "EventType",
    "PathSignal",
    "QpErrorCause",
    "QpState",
    "Transport",
    "WcOpcode",
    "WcStatus",
    "WrOpcode",
]


class Access(IntFlag):
    """What may be done with a memory region."""

    LOCAL_READ = 0
    """Send from it: always allowed, to QPs of its protection domain."""
    REMOTE_WRITE = 1
    """A peer may write into it through a QP of its protection domain, with the rkey."""


class Transport(IntEnum):
    """What a QP speaks: MRC, or the RoCEv2 RC fallback (one path, go-back-N)."""

    MRC = 0
    RC = 1


class QpState(IntEnum):
    RST = 0
    INIT = 1
    RTR = 2
    RTS = 3
    ERR = 4


class QpErrorCause(IntEnum):
    """Why a QP went to ERR."""

    NONE = 0
    RETRY_EXCEEDED = 1
    LOCAL_PROTECTION = 2
    REMOTE_ACCESS = 3
    REMOTE_OPERATIONAL = 4
    REMOTE_INVALID = 5
    ACCESS_VIOLATION = 6
    NO_RECEIVE_POSTED = 7
    WIMM_LIMIT = 8
    UNEXPECTED_EVENT = 9
    PROTOCOL = 10
    CQ_OVERRUN = 11
    FLUSHED = 12


class WrOpcode(IntEnum):
    WRITE = 0
    WRITE_IMM = 1


class WcOpcode(IntEnum):
    WRITE = 0
    RECV_WRITE_IMM = 1


class WcStatus(IntEnum):
    """Status of a completion; numbers of `ibv_wc_status`."""

    SUCCESS = 0
    LOC_PROT_ERR = 4
    WR_FLUSH_ERR = 5
    REM_INV_REQ_ERR = 9
    REM_ACCESS_ERR = 10
    REM_OP_ERR = 11
    RETRY_EXC_ERR = 12


class EvState(IntEnum):
    """State of an EV; the controller's numbers where it has one (protocol F.2)."""

    GOOD = 1
    ASSUMED_BAD = 2
    SKIP = 3
    DENIED = 4


class EvCause(IntEnum):
    """Why an EV changed its state."""

    NONE = 0
    ECN = 1
    TRIMMED = 2
    ALWAYS_SKIP = 3
    LOSS = 4
    TIMEOUT = 5
    PROBE = 6
    CURSOR = 7
    LAPSED = 8
    CONTROLLER = 9


class PathSignal(IntEnum):
    """How a QP sees congestion on its planes."""

    MARKS = 0
    """ECN marks and trimming: one controller for the QP, as MRC is published."""
    DELAY = 1
    """Queueing delay and losses, plane by plane."""
    DISCOVER = 2
    """By delay, until a plane is seen to mark."""


class EventType(IntEnum):
    """Kinds of events in a device's stream."""

    QP_STATE = 0
    EV_STATE = 1
    EV_REPLACED = 2
    PORT_STATE = 3
    RETRY_TIMEOUT = 4
    CQ_OVERRUN = 5
    PORT_REFUSED = 6
    PLANE_STATE = 7


_STATUS_ERRORS: dict[int, type[errors.VerbsError]] = {
    1: errors.InvalidArgumentError,
    2: errors.InvalidStateError,
    3: errors.QueueFullError,
    4: errors.LimitError,
    5: errors.BusyError,
    6: errors.NotFoundError,
}


def _raise_status(status: int, what: str) -> NoReturn:
    raise _STATUS_ERRORS[status](what)


def check(status: int, what: str) -> None:
    """Raises the typed error of a native status other than 0; `what` says which call and why it may be refused."""
    if status:
        _raise_status(status, what)
