"""Rates, times and sizes in human notation, to and from integers.

Decimal prefixes count by 1,000 (`250Mbit`, `10G`, `4kB`), binary ones by 1,024 (`64KiB`). Arithmetic is exact: `0.1us`
is exactly 100,000 ps.
"""

from __future__ import annotations

import re
from fractions import Fraction

from openmrc.errors import ConfigError, did_you_mean

__all__ = [
    "RATE_BPS_RANGE",
    "format_bytes",
    "format_rate",
    "format_time",
    "parse_bytes",
    "parse_percent",
    "parse_rate",
    "parse_time",
    "parse_time_ns",
]

RATE_BPS_RANGE = (1_000, 100_000_000_000_000)
"""Least and greatest speed of a port or a connection, in b/s."""

_NUMBER = re.compile(r"\s*(\d+(?:_\d+)*(?:\.\d+)?|\.\d+)\s*([a-zA-Zµμ/%]*)\s*\Z")

_RATE_BPS = {
    **dict.fromkeys(("bit", "bps", "bit/s", "b/s"), 1),
    **{p + unit: s for p, s in (("k", 10**3), ("K", 10**3)) for unit in ("", "bit", "bps", "bit/s", "b/s")},
    **{
        p + unit: s
        for p, s in (("M", 10**6), ("G", 10**9), ("T", 10**12))
        for unit in ("", "bit", "bps", "bit/s", "b/s")
    },
}
_TIME_PS = {
    "ps": 1,
    "ns": 10**3,
    "us": 10**6,
    "µs": 10**6,
    "μs": 10**6,
    "ms": 10**9,
    "s": 10**12,
    "sec": 10**12,
    "min": 60 * 10**12,
    "h": 3600 * 10**12,
}
_BYTES = {
    "": 1,
    "B": 1,
    **{p + unit: s for p, s in (("k", 10**3), ("K", 10**3), ("M", 10**6), ("G", 10**9)) for unit in ("B",)},
    **{
        p + unit: s
        for p, s in (("K", 2**10), ("k", 2**10), ("M", 2**20), ("G", 2**30), ("T", 2**40))
        for unit in ("i", "iB")
    },
}

_RATE_WORDS = "a rate such as 250Mbit, 10G or 0 (units: bit, kbit, Mbit, Gbit, Tbit, or k, M, G, T)"
_TIME_WORDS = "a time such as 3s, 50ms or 100us (units: ps, ns, us, ms, s, min, h)"
_BYTES_WORDS = "a size such as 4096, 64KiB or 1MB (units: B, kB, MB, GB, KiB, MiB, GiB, TiB)"


def _parse(text: str | float, field: str, table: dict[str, int], words: str, *, bare: bool) -> int:
    if isinstance(text, bool):
        raise ConfigError(field, text, words)
    match = _NUMBER.match(str(text))
    if match is None:
        raise ConfigError(field, text, words)
    number, unit = Fraction(match[1].replace("_", "")), match[2]
    if unit == "" and number != 0 and not bare:
        raise ConfigError(field, text, words, hint="a unit is missing")
    if unit not in table and not (unit == "" and number == 0):
        raise ConfigError(field, text, words, hint=did_you_mean(unit, table))
    value = number * table.get(unit, 1)
    if value.denominator != 1:
        raise ConfigError(field, text, f"{words}; a whole number of the smallest unit")
    return int(value)


def parse_rate(text: str | float, field: str = "rate") -> int:
    """Bits per second of `250Mbit`, `10G`, `1.5Gbps`; 0 needs no unit.

    Raises:
        ConfigError: naming `field` and what is allowed.
    """
    return _parse(text, field, _RATE_BPS, _RATE_WORDS, bare=False)


def parse_time(text: str | float, field: str = "time") -> int:
    """Picoseconds of `3s`, `50ms`, `100us`; 0 needs no unit.

    Raises:
        ConfigError: naming `field` and what is allowed.
    """
    return _parse(text, field, _TIME_PS, _TIME_WORDS, bare=False)


def parse_time_ns(text: str | float, field: str = "time") -> int:
    """Nanoseconds of a time; `500ps` is refused, as it is not a whole number of them.

    Raises:
        ConfigError: naming `field` and what is allowed.
    """
    value_ps = parse_time(text, field)
    if value_ps % 1000:
        raise ConfigError(field, text, "a whole number of nanoseconds")
    return value_ps // 1000


def parse_bytes(text: str | float, field: str = "size") -> int:
    """Bytes of `4096`, `64KiB`, `1MB`.

    Raises:
        ConfigError: naming `field` and what is allowed.
    """
    return _parse(text, field, _BYTES, _BYTES_WORDS, bare=True)


def parse_percent(text: str | float, field: str = "percentage") -> float:
    """Fraction 0..1 of `1%`, `0.5 %` or `1` (a bare number is a percentage too).

    Raises:
        ConfigError: outside 0..100.
    """
    match = None if isinstance(text, bool) else _NUMBER.match(str(text))
    if match is None or match[2] not in ("", "%") or not 0 <= float(match[1].replace("_", "")) <= 100:
        raise ConfigError(field, text, "a percentage from 0 to 100, such as 1% or 0.5")
    return float(match[1].replace("_", "")) / 100


def _format(value: float, steps: tuple[tuple[int, str], ...]) -> str:
    size, unit = next(((size, unit) for size, unit in steps if abs(value) >= size), steps[-1])
    scaled = value / size
    digits = f"{scaled:.3f}".rstrip("0").rstrip(".") if abs(scaled) < 1000 else f"{scaled:,.0f}"
    return f"{digits} {unit}"


def format_rate(rate_bps: float) -> str:
    """`1.5 Gb/s` of a rate in bits per second, three decimals at most."""
    return _format(rate_bps, ((10**12, "Tb/s"), (10**9, "Gb/s"), (10**6, "Mb/s"), (10**3, "kb/s"), (1, "b/s")))


def format_time(time_ps: float) -> str:
    """`50 ms` of a time in picoseconds, three decimals at most."""
    return _format(time_ps, ((10**12, "s"), (10**9, "ms"), (10**6, "us"), (10**3, "ns"), (1, "ps")))


def format_bytes(size_bytes: float) -> str:
    """`64 KiB` of a size in bytes, three decimals at most."""
    return _format(size_bytes, ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B")))
