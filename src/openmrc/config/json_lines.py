"""JSON lines: one JSON object on each line, as bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

__all__ = ["LineBuffer", "LongLineError", "json_line", "json_object"]

_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


class LongLineError(ValueError):
    """A line is longer than its reader allows."""


class LineBuffer:
    """Received bytes, taken out by the line.

    Args:
        bytes_max: Largest length of a line that is not complete yet; None: any.
    """

    def __init__(self, bytes_max: int | None = None) -> None:
        self._bytes_max = bytes_max
        self._pending = bytearray()

    def add(self, data: bytes) -> None:
        """Appends received bytes."""
        self._pending += data

    def line(self) -> bytes | None:
        """The next line without its newline; None: it has not arrived in full.

        Raises:
            LongLineError: the incomplete line is longer than `bytes_max`.
        """
        end = self._pending.find(b"\n")
        if end < 0:
            if self._bytes_max is not None and len(self._pending) > self._bytes_max:
                raise LongLineError
            return None
        line = bytes(self._pending[:end])
        del self._pending[: end + 1]
        return line


def json_line(message: Mapping[str, Any]) -> bytes:
    """The message as a line."""
    return json.dumps(message).encode() + b"\n"


def json_object(line: bytes) -> dict[str, Any] | None:
    """The object on a line; None: the line is no JSON, or no object."""
    try:
        return _OBJECT.validate_json(line)
    except ValidationError:
        return None
