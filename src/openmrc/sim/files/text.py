"""Text files of lines and words, and errors about one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path

from openmrc.errors import ConfigError

__all__ = ["Line", "read_lines", "whole_number"]

NUMBER_MAX = 2**62


def whole_number(word: str) -> int | None:
    """The exact number of a word (`12`, `1e6`, `3.0`), from 0 to 2^62; None for everything else."""
    if not re.fullmatch(r"[0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE]\+?[0-9]{1,2})?", word):
        return None
    try:
        value = Decimal(word)
    except InvalidOperation:
        return None
    return int(value) if value == value.to_integral_value() and value <= NUMBER_MAX else None


class Line:
    """A line of a file: its number and its text."""

    def __init__(self, source: str | Path, number: int, text: str) -> None:
        self.source = source
        self.number = number
        self.text = text
        self.words = text.split()

    def error(self, field: str, value: object, allowed: str, hint: str | None = None) -> ConfigError:
        """An error about a word of this line."""
        return ConfigError(field, value, allowed, source=self.source, line=self.number, hint=hint)

    def number_of(self, field: str, word: str, low: int = 0, high: int = NUMBER_MAX) -> int:
        """The whole number of a word of this line.

        Raises:
            ConfigError: if it is not one, or outside `low` to `high`.
        """
        value = whole_number(word)
        if value is None or not low <= value <= high:
            bound = f"from {low} to {high}" if high < NUMBER_MAX else f"from {low}"
            raise self.error(field, word, f"a whole number {bound}")
        return value


def read_lines(path: str | Path, field: str, comment: str = "#") -> Iterator[Line]:
    """The lines of a file that contain more than a comment.

    Raises:
        ConfigError: naming `field`, if the file cannot be read.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(field, str(path), f"a readable file: {reason}") from None
    for number, content in enumerate(text.splitlines(), 1):
        line = Line(path, number, content.split(comment, 1)[0])
        if line.words:
            yield line
