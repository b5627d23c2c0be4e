"""Typed errors for the statuses of native calls."""

from __future__ import annotations

from typing import NoReturn

from openmrc import errors
from openmrc.verbs.enums import Status

__all__ = ["check"]

_ERRORS: dict[Status, type[errors.VerbsError]] = {
    Status.INVALID_ARGUMENT: errors.InvalidArgumentError,
    Status.INVALID_STATE: errors.InvalidStateError,
    Status.QUEUE_FULL: errors.QueueFullError,
    Status.LIMIT: errors.LimitError,
    Status.BUSY: errors.BusyError,
    Status.NOT_FOUND: errors.NotFoundError,
}


def _raise_status(status: int, what: str) -> NoReturn:
    raise _ERRORS[Status(status)](what)


def check(status: int, what: str) -> None:
    """Raises the typed error of a native status other than OK; `what` describes the call and possible reasons of a
    refusal.
    """
    if status:
        _raise_status(status, what)
