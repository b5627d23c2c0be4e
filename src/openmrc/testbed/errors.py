"""What a test bed raises on purpose."""

from __future__ import annotations

from openmrc.errors import OpenmrcError

__all__ = ["TestBedError"]


class TestBedError(OpenmrcError):
    """The system refused something, or a test bed is not in the state that was expected.

    The text is a sentence that says what was tried, what the system answered, and what helps.
    """

    __test__ = False  # pytest shall not take it for a class of tests

    def __init__(self, what: str, hint: str | None = None) -> None:
        super().__init__(what if hint is None else f"{what} (hint: {hint})")
