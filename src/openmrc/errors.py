"""Everything openmrc raises on purpose.

OpenmrcError
├── ConfigError            a value somebody wrote: which field, what it says, what is allowed, where   (also ValueError)
├── VerbsError             a verb refused a call; `.status` names why, `.errno` is the C one
│   ├── InvalidArgumentError                                                                        (also ValueError)
│   ├── InvalidStateError  the QP is not in a state that allows the call
│   │   └── ForkedError    the object belongs to the process that this one was forked from
│   ├── QueueFullError     more work requests than the queue holds: poll completions first
│   ├── LimitError         over a limit of the device
│   ├── BusyError          something still uses the object
│   └── NotFoundError                                                                              (also LookupError)
├── DeviceError            the operating system refused: address in use, no such interface, ...       (also OSError)
├── PeerError              the other end                                                   (also ConnectionError)
│   ├── PeerUnreachableError  nobody answered at that address in the time allowed
│   └── HandshakeError        it answered, but not as an openmrc peer, or the two cannot agree
└── WorkError              a posted request completed without success; `.status` is the completion's

What a peer sends can never raise anything but PeerError and WorkError.
"""

from __future__ import annotations

import errno as _errno
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

__all__ = [
    "BusyError",
    "ConfigError",
    "DeviceError",
    "ForkedError",
    "HandshakeError",
    "InvalidArgumentError",
    "InvalidStateError",
    "LimitError",
    "NotFoundError",
    "OpenmrcError",
    "PeerError",
    "PeerUnreachableError",
    "QueueFullError",
    "VerbsError",
    "WorkError",
    "did_you_mean",
]


class OpenmrcError(Exception):
    """Base of everything openmrc raises on purpose."""


class ConfigError(OpenmrcError, ValueError):
    """A value that somebody wrote is wrong.

    The message reads `file:line: field: value: allowed (hint)`, as far as these are known.

    Args:
        field: Dotted name as the user wrote it, for example `links.rate`.
        value: What the user wrote.
        allowed: What is allowed, in words: "a rate above 0, such as 10G".
        source: File the value comes from.
        line: Line in that file, from 1.
        hint: What the user probably wants, in words.
    """

    def __init__(
        self,
        field: str,
        value: object,
        allowed: str,
        *,
        source: str | Path | None = None,
        line: int | None = None,
        hint: str | None = None,
    ) -> None:
        self.field = field
        self.value = value
        self.allowed = allowed
        self.source = source
        self.line = line
        self.hint = hint
        where = "" if source is None else f"{source}: " if line is None else f"{source}:{line}: "
        tail = "" if hint is None else f" (hint: {hint})"
        super().__init__(f"{where}{field} is {value!r}; allowed: {allowed}{tail}")


class VerbsError(OpenmrcError):
    """A verb refused a call; nothing changed."""

    status = "failed"
    errno = _errno.EIO


class InvalidArgumentError(VerbsError, ValueError):
    status = "invalid_argument"
    errno = _errno.EINVAL


class InvalidStateError(VerbsError):
    status = "invalid_state"
    errno = _errno.EINVAL


class ForkedError(InvalidStateError):
    """The object belongs to the process that this one was forked from; open a `Device` in this process."""

    status = "forked"


class QueueFullError(VerbsError):
    status = "queue_full"
    errno = _errno.ENOMEM


class LimitError(VerbsError):
    status = "limit"
    errno = _errno.E2BIG


class BusyError(VerbsError):
    status = "busy"
    errno = _errno.EBUSY


class NotFoundError(VerbsError, LookupError):
    status = "not_found"
    errno = _errno.ENOENT


class DeviceError(OpenmrcError, OSError):
    """The operating system refused something the device needs; `errno` says what, as in any OSError."""


class PeerError(OpenmrcError, ConnectionError):
    """The other end is not there, or not what was expected."""


class PeerUnreachableError(PeerError):
    """Nobody answered at an address in the time allowed.

    Args:
        address: Address and port as tried.
        waited_s: How long was waited.
        reason: What the operating system said, if it said anything.
    """

    def __init__(self, address: str, waited_s: float, reason: str = "no answer") -> None:
        self.address = address
        self.waited_s = waited_s
        self.reason = reason
        super().__init__(f"no openmrc peer at {address} after {waited_s:.1f} s: {reason}")


class HandshakeError(PeerError):
    """The peer answered, but not as an openmrc peer, or the two cannot agree on how to talk."""


class WorkError(OpenmrcError):
    """A posted request completed without success.

    Args:
        status: Status of the completion, by the name verbs give it: `RETRY_EXC_ERR`.
        message: What happened, in words.
        errno: With which the operating system refused this side's packets on every port that has a carrier; None: it
            did not, or all ports are down.
    """

    def __init__(self, status: str, message: str, errno: int | None = None) -> None:
        self.status = status
        self.errno = errno
        super().__init__(f"{status}: {message}")


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Hint that names the closest known word, or None when nothing is close."""
    close = get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else None
