"""Exceptions of a test bed."""

from __future__ import annotations

from openmrc.errors import OpenmrcError

__all__ = ["TestBedError"]


class TestBedError(OpenmrcError):
    """The system refused an operation, or a test bed is in an unexpected state.

    The text is a sentence with the attempted operation, the system's answer, and a remedy.
    """

    __test__ = False  # not a class of tests for pytest

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what if hint is None else f"{what} (hint: {hint})")
