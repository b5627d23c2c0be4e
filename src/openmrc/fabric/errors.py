"""Errors of fabric files and faults, with all problems at once."""

from __future__ import annotations

from openmrc.config.file_problems import FileProblemsError
from openmrc.errors import ConfigError

__all__ = ["FabricFileError", "FaultError"]


class FabricFileError(FileProblemsError):
    """Problems of a fabric file, or of settings of a fabric."""


class FaultError(ConfigError):
    """A malformed fault, or one at a place that the fabric does not have.

    Args:
        text: The fault as written.
        word: The wrong word, or the empty string if something is missing at the end.
        allowed: Words allowed there.
        hint: The probable intention of the user.
    """

    def __init__(self, text: str, word: str, allowed: str, hint: str | None = None) -> None:
        self.word = word
        words = text.split()
        where = f"at {word!r}: " if word else f"after {words[-1]!r}: " if words else ""
        super().__init__("fault", text, f"{where}{allowed}", hint=hint)
