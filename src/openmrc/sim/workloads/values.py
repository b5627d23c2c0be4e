"""Sizes, times and shares in the user's notation, for the settings of workloads."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from openmrc.config.section import Section, count, quantity
from openmrc.errors import ConfigError
from openmrc.units import parse_bytes, parse_percent, parse_time

__all__ = [
    "COUNT_MAX",
    "Bytes",
    "Count",
    "Duration",
    "GroupSize",
    "Limit",
    "Load",
    "Pair",
    "Rank",
    "Settings",
    "Switch",
    "ranks_or_words",
]

BYTES_MAX = 2**44
TIME_PS_MAX = 3600 * 10**12
COUNT_MAX = 2**31 - 1
PAIR = 2


_bytes = quantity(parse_bytes, "size", 1, BYTES_MAX, "1 byte to 16TiB, such as 2MB or 64KiB")


_time = quantity(parse_time, "time", 0, TIME_PS_MAX, "0 to 1h, such as 10us")


def _load(value: Any) -> float:
    share = parse_percent(value)
    if share == 0:
        raise ConfigError("load", value, "a percentage above 0 and up to 100, such as 80%")
    return share


def _hosts(value: Any) -> tuple[int | str, ...]:
    items = value if isinstance(value, list | tuple) else str(value).split(",")
    if isinstance(value, bool) or not all(isinstance(item, int | str) for item in items) or not items:
        raise ConfigError("hosts", value, 'numbers and ranges, such as "0-63" or [0, 8, "16-31"]')
    return tuple(items)


def ranks_or_words(*words: str, low: int = 0) -> BeforeValidator:
    """Accepts one of the words, or a whole number from `low`."""

    def check(value: Any) -> Any:
        number = isinstance(value, int) and not isinstance(value, bool) and low <= value <= COUNT_MAX
        if value is not None and value not in words and not number:
            raise ConfigError("value", value, f"{', '.join(words)}, or a whole number from {low}")
        return value

    return BeforeValidator(check)


def _pair(value: Any) -> Any:
    if value in ("none", "auto"):
        return value
    good = isinstance(value, list | tuple) and len(value) == PAIR
    if not good or not all(isinstance(rank, int) and not isinstance(rank, bool) and rank >= 0 for rank in value):
        raise ConfigError("pair", value, "none, auto, or [source, destination]")
    return tuple(value)


Bytes = Annotated[int, BeforeValidator(_bytes)]
Duration = Annotated[int, BeforeValidator(_time)]
Load = Annotated[float, BeforeValidator(_load)]
Count = Annotated[int, count(1, COUNT_MAX)]
Rank = Annotated[int, count(0, COUNT_MAX)]
Limit = Annotated[int, count(0, COUNT_MAX)]  # 0: none
GroupSize = Annotated[int, count(2, COUNT_MAX)]
Switch = Annotated[bool, Field(strict=True)]
Pair = Annotated[Any, BeforeValidator(_pair)]


class Settings(Section):
    """Common settings of every workload.

    `name` selects the workload. `job` is its name in results (default: `name`). `hosts`: its hosts (NICs), as numbers
    and ranges `"0-63"` (default: all). `order`: the mapping of ranks to the hosts: `given` (as listed), `t0` (sorted,
    so that neighbours in rank share a T0), `random` (drawn from the seed). `start`: its start time.
    """

    name: str
    job: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    hosts: Annotated[tuple[int | str, ...], BeforeValidator(_hosts)] | None = None
    order: Literal["given", "t0", "random"] = "given"
    start: Duration = 0
