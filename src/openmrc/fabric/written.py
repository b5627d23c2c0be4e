"""How people write the values of a file, for the JSON schema that editors read.

Parsing turns `100Gbit` into bits per second. A schema must describe the former: annotations made of these do.
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
QUANTITY = "quantity"  # key by which an annotation names one of these
_NUMBER = r"^\s*([0-9]+(_[0-9]+)*(\.[0-9]+)?|\.[0-9]+)\s*"

# What values with units look like; annotations name them, and the schema holds each once.
QUANTITIES: dict[str, Json] = {
    "rate": {
        "description": "With a unit: bit, kbit, Mbit, Gbit, Tbit, or k, M, G, T",
        "type": "string",
        "pattern": _NUMBER + r"([kKMGT]?(bit|bps|bit/s|b/s)|[kKMGT])$",
        "examples": ["250Mbit", "100Gbit", "400Gbit", "800Gbit"],
    },
    "time": {
        "description": "With a unit: ps, ns, us, ms, s, min, h; or 0",
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
        "description": "Of 100, with % or without",
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
    """Text, with examples that an editor may offer."""
    return {"type": "string", "examples": list(examples)} | ({} if pattern is None else {"pattern": pattern})


@dataclass(frozen=True, eq=False)
class Written:
    """Annotation: a value is written as `schema` says, or, with `beside`, as that or as what it annotates."""

    schema: Json
    beside: bool = False

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> Json:
        """What pydantic asks of an annotation."""
        return {"anyOf": [self.schema, handler(core)]} if self.beside else dict(self.schema)
