"""Settings of a scenario with ranges and defaults of the native record that they end up in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from pydantic import BeforeValidator, Field

from openmrc import _native
from openmrc.config.section import count, quantity
from openmrc.record import Record
from openmrc.units import format_bytes, format_rate, format_time, parse_bytes, parse_rate, parse_time, parse_time_ns

__all__ = ["NativeRecord"]


def _time_ns(value: Any) -> int:
    return parse_time_ns(f"{parse_time(value)}ps")


# By the unit that ends a native name: word for the value, its reader in the file's notation, its writer.
_UNITS: dict[str, tuple[str, Callable[[Any], int], Callable[[int], str]]] = {
    "ps": ("time", parse_time, format_time),
    "ns": ("time", _time_ns, lambda time_ns: format_time(1000 * time_ns)),
    "bps": ("rate", parse_rate, format_rate),
    "bytes": ("size", parse_bytes, format_bytes),
}


class NativeRecord:
    """Fields of a native record, as `spec/` describes them, for sections of a file."""

    def __init__(self, record: type[Record]) -> None:
        self._record = record.__name__
        self._defaults = {one.name: one.default for one in fields(record)}  # type: ignore[arg-type]  # a dataclass

    def range(self, field: str) -> Any:
        """Range of a whole number."""
        return count(*_native.record_range(self._record, field))

    def quantity(self, field: str) -> BeforeValidator:
        """Reader of a number with a unit, which checks the range; the native name ends in the unit of the result."""
        what, parse, show = _UNITS[field.rpartition("_")[2]]
        low, high = _native.record_range(self._record, field)
        return BeforeValidator(quantity(parse, what, low, high, f"{show(low) if low else 0} to {show(high)}"))

    def value(self, field: str) -> Any:
        """Default of a setting and its native name; of a number without unit and of a flag the allowed values, too."""
        default = self._defaults[field]
        if isinstance(default, bool):
            return Field(default=default, serialization_alias=field, strict=True)
        if field.rpartition("_")[2] in _UNITS:
            return Field(default=default, serialization_alias=field)
        low, high = _native.record_range(self._record, field)
        return Field(default=default, serialization_alias=field, strict=True, ge=low, le=high)
