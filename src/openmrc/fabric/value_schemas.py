"""Notation of the values in a file, for the JSON schema of editors.

Parsing turns `100Gbit` into bits per second. A schema must describe the former, by the annotations of this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema

__all__ = [
    "BYTES",
    "FREQUENCY",
    "NUMBER",
    "ON_OFF",
    "PERCENT",
    "POWER",
    "QUANTITIES",
    "QUANTITY",
    "RATE",
    "TIME",
    "Written",
    "integer",
    "text",
]

Json = dict[str, Any]
QUANTITY = "quantity"  # key by which an annotation refers to one of these
_NUMBER = r"^\s*([0-9]+(_[0-9]+)*(\.[0-9]+)?|\.[0-9]+)\s*"

# Notation of values with units; annotations refer to them, and the schema contains each once.
QUANTITIES: dict[str, Json] = {
    "rate": {
        "description": "A rate with a unit: bit, kbit, Mbit, Gbit, Tbit, or k, M, G, T",
        "type": "string",
        "pattern": _NUMBER + r"([kKMGT]?(bit|bps|bit/s|b/s)|[kKMGT])$",
        "examples": ["250Mbit", "100Gbit", "400Gbit", "800Gbit"],
    },
    "time": {
        "description": "A time with a unit: ps, ns, us, ms, s, min, h; or 0",
        "anyOf": [
            {"type": "string", "pattern": _NUMBER + "(ps|ns|us|µs|μs|ms|s|sec|min|h)$", "examples": ["500ns", "200us"]},
            {"const": 0},
        ],
    },
    "size": {
        "description": "Bytes, or with a unit: kB, MB, GB, KiB, MiB, GiB",
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "pattern": _NUMBER + "(B|[kKMG]B|[KkMGT]iB?)?$", "examples": ["64KiB", "1MB"]},
        ],
    },
    "percentage": {
        "description": "A percentage, with or without %",
        "anyOf": [
            {"type": "number", "minimum": 0, "maximum": 100},
            {"type": "string", "pattern": _NUMBER + "%?$", "examples": ["20%"]},
        ],
    },
    "power": {
        "description": "Watts, or with a unit: W, kW",
        "anyOf": [
            {"type": "number", "minimum": 0},
            {"type": "string", "pattern": _NUMBER + "(W|kW)?$", "examples": ["500W", "1.2kW"]},
        ],
    },
    "frequency": {
        "description": "Times a year, or with a unit: /year, /month, /week, /day",
        "anyOf": [
            {"type": "number", "minimum": 0},
            {"type": "string", "pattern": _NUMBER + "(/(year|month|week|day))?$", "examples": ["0.02/year"]},
        ],
    },
}
RATE, TIME, BYTES, PERCENT, POWER, FREQUENCY = ({QUANTITY: name} for name in QUANTITIES)
NUMBER: Json = {"type": "number", "minimum": 0}
ON_OFF: Json = {"enum": ["on", "off", True, False]}


def integer(low: int, high: int) -> Json:
    """A whole number in bounds."""
    return {"type": "integer", "minimum": low, "maximum": high}


def text(*examples: str, pattern: str | None = None) -> Json:
    """Text, with examples for an editor."""
    return {"type": "string", "examples": list(examples)} | ({} if pattern is None else {"pattern": pattern})


@dataclass(frozen=True, eq=False)
class Written:
    """Annotation: the notation of a value is `schema`, or, with `beside`, either that or the annotated type's."""

    schema: Json
    beside: bool = False

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> Json:
        """Schema of the annotation, called by pydantic."""
        return {"anyOf": [self.schema, handler(core)]} if self.beside else dict(self.schema)
