"""Base of all events."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, ClassVar

__all__ = ["Event"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A change at `time_ns` of the device's monotonic clock (`time.monotonic_ns`)."""

    name: ClassVar[str] = "event"
    time_ns: int

    def to_dict(self) -> dict[str, Any]:
        """`event` and the fields, enums by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        named = {key: value.name if isinstance(value, IntEnum) else value for key, value in values.items()}
        return {"event": self.name, **named}

    def to_json(self) -> str:
        """One line of JSON, without the line end."""
        return json.dumps(self.to_dict())
