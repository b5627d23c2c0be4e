"""Exceptions that openmrc raises deliberately.

OpenmrcError
├── ConfigError            an invalid value from the user: field, value, allowed values, location      (also ValueError)
├── VerbsError             a verb refused a call; `.status` is the reason, `.errno` its C equivalent
│   ├── InvalidArgumentError                                                                        (also ValueError)
│   ├── InvalidStateError  the QP is not in a state that allows the call
│   │   └── ForkedError    the object belongs to the process that this one was forked from
│   ├── QueueFullError     more work requests than the queue holds: poll completions first
│   ├── LimitError         over a limit of the device
│   ├── BusyError          the object is still in use
│   └── NotFoundError                                                                              (also LookupError)
├── DeviceError            the operating system refused: address in use, no such interface, ...       (also OSError)
├── PeerError              the other end                                                   (also ConnectionError)
│   ├── PeerUnreachableError  no answer from that address in the time allowed
│   └── HandshakeError        an answer, but not from an openmrc peer, or no common settings
└── WorkError              a posted request completed without success; `.status` is the completion's

Input from a peer can only raise PeerError and WorkError.
"""

from __future__ import annotations

import errno as _errno
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

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
    """Base of all exceptions of openmrc. They can be pickled, so worker processes can hand them to their parent."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[OpenmrcError], args: tuple[Any, ...], state: dict[str, Any]) -> OpenmrcError:
    """A pickled error, without a call of its `__init__`, whose parameters are not `args`."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class ConfigError(OpenmrcError, ValueError):
    """A value from the user is invalid.

    The message reads `file:line: field: value: allowed (hint)`, as far as these are known.

    Args:
        field: Dotted name in the user's terms, for example `links.rate`.
        value: The user's value.
        allowed: The allowed values, in words: "a rate above 0, such as 10G".
        source: File that contains the value.
        line: Line in that file, from 1.
        hint: The probable intention of the user, in words.
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
    """The operating system refused an operation of the device; `errno` is the reason, as in any OSError."""


class PeerError(OpenmrcError, ConnectionError):
    """The other end is missing, or behaves unexpectedly."""


class PeerUnreachableError(PeerError):
    """No answer from an address in the time allowed.

    Args:
        address: Address and port as tried.
        waited_s: Duration of the wait.
        reason: Error of the operating system, if any.
    """

    def __init__(self, address: str, waited_s: float, reason: str = "no answer") -> None:
        self.address = address
        self.waited_s = waited_s
        self.reason = reason
        super().__init__(f"no openmrc peer at {address} after {waited_s:.1f} s: {reason}")


class HandshakeError(PeerError):
    """The peer answered, but is not an openmrc peer, or the two have no common settings."""


class WorkError(OpenmrcError):
    """A posted request completed without success.

    Args:
        status: Status of the completion, in the terms of verbs: `RETRY_EXC_ERR`.
        message: The failure, in words.
        errno: Error with which the operating system refused this side's packets on every port that has a carrier;
            None: it did not, or all ports are down.
    """

    def __init__(self, status: str, message: str, errno: int | None = None) -> None:
        self.status = status
        self.errno = errno
        super().__init__(f"{status}: {message}")


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Hint that names the closest known word, or None when nothing is close."""
    close = get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else None
