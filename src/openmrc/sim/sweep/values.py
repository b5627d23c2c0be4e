"""The values of one sweep parameter: a list, an arithmetic range, or a logarithmic one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from openmrc.errors import ConfigError, did_you_mean

__all__ = ["VALUES_MAX", "expand_values"]

VALUES_MAX = 100_000
_NUMBER = re.compile(r"\s*(-?(?:\d+(?:\.\d+)?|\.\d+))\s*([a-zA-Zµμ/%]*)\s*\Z")
_WORDS = "a list, {from, to, step}, or {log: {from, to, points}} or {log: {from, to, factor}}"


def expand_values(values: Any, field: str) -> list[Any]:
    """The values of a sweep parameter, in order, each once.

    Numbers of a range may carry a unit, the same in all of them: `{from: 10us, to: 50us, step: 10us}`. Ends are
    included. Between whole numbers without a unit, logarithmic values are rounded to whole numbers.

    Args:
        values: A list, or a mapping as in the message of the error.
        field: Name of the parameter in errors.

    Raises:
        ConfigError: naming the field, its value and what is allowed.
    """
    if isinstance(values, Mapping):
        expanded = _log(values["log"], f"{field}.log") if set(values) == {"log"} else _steps(values, field)
    elif isinstance(values, Sequence) and not isinstance(values, str):
        expanded = list(values)
    else:
        raise ConfigError(field, values, _WORDS, hint=f"a single value is written [{values}]")
    distinct = [value for index, value in enumerate(expanded) if value not in expanded[:index]]
    if not distinct:
        raise ConfigError(field, values, "at least one value")
    return distinct


def _steps(words: Mapping[str, Any], field: str) -> list[Any]:
    (first, last, step), unit = _numbers(words, ("from", "to", "step"), field)
    if step == 0 or (last - first) / step < 0:
        raise ConfigError(f"{field}.step", words["step"], "a step that leads from `from` to `to`")
    count = int((last - first) / step) + 1
    _check_count(count, words, field)
    return [_written(first + index * step, unit) for index in range(count)]


def _log(words: Any, field: str) -> list[Any]:
    if not isinstance(words, Mapping):
        raise ConfigError(field, words, "{from, to, points} or {from, to, factor}")
    if "factor" in words:
        (first, last, factor), unit = _numbers(words, ("from", "to", "factor"), field, plain=("factor",))
        if factor <= 1 or not 0 < first <= last:
            raise ConfigError(field, dict(words), "0 < from <= to, and a factor above 1")
        count = 0
        while first * factor**count <= last:
            count += 1
            _check_count(count, words, field)
        exact = [first * factor**index for index in range(count)]
    else:
        (first, last, points), unit = _numbers(words, ("from", "to", "points"), field, plain=("points",))
        if points != int(points) or points < 2 or not (first > 0 and last > 0):
            raise ConfigError(field, dict(words), "from and to above 0, and at least 2 points")
        _check_count(int(points), words, field)
        ratio = (last / first) ** (1 / (points - 1))
        exact = [first, *(first * ratio**index for index in range(1, int(points) - 1)), last]
    if not unit and first == int(first) and last == int(last):
        exact = [Decimal(round(value)) for value in exact]
    return [_written(value, unit) for value in exact]


def _check_count(count: int, words: Mapping[str, Any], field: str) -> None:
    if count > VALUES_MAX:
        raise ConfigError(field, dict(words), f"at most {VALUES_MAX:,} values")


def _numbers(
    words: Mapping[str, Any], names: tuple[str, ...], field: str, plain: tuple[str, ...] = ()
) -> tuple[list[Decimal], str]:
    """The numbers of a range and their common unit; those in `plain` have none."""
    for name in words:
        if name not in names:
            raise ConfigError(field, name, _WORDS, hint=did_you_mean(str(name), names))
    numbers: list[Decimal] = []
    units: dict[str, str] = {}
    for name in names:
        if name not in words:
            raise ConfigError(f"{field}.{name}", None, "a number; the range needs it")
        number, unit = _split(words[name], f"{field}.{name}")
        if name in plain and unit:
            raise ConfigError(f"{field}.{name}", words[name], "a number without a unit")
        if name not in plain:
            units[name] = unit
        numbers.append(number)
    if len(set(units.values())) > 1:
        raise ConfigError(field, dict(words), "numbers with the same unit", hint="write 1000us with 10us, not 1ms")
    return numbers, next(iter(units.values()))


def _split(value: Any, field: str) -> tuple[Decimal, str]:
    match = None if isinstance(value, bool) else _NUMBER.match(_plain_text(value))
    if match is None:
        raise ConfigError(field, value, "a number, with or without a unit")
    return Decimal(match[1]), match[2]


def _plain_text(value: Any) -> str:
    """A float without an exponent, in the form that Decimal parses back exactly."""
    if isinstance(value, float):
        try:
            return f"{Decimal(repr(value)):f}"
        except InvalidOperation:
            return repr(value)
    return str(value)


def _written(value: Decimal, unit: str) -> Any:
    """The value in the file's notation: 3, 0.25, "10us"."""
    if unit:
        text = f"{value:f}"
        return (text.rstrip("0").rstrip(".") if "." in text else text) + unit
    return int(value) if value == int(value) else float(value)
