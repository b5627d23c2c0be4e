"""Port names of a system: a pattern that contains the port's number, which counts from 0."""

from __future__ import annotations

import re

from openmrc.errors import ConfigError

__all__ = ["PortNames"]

_FIELD = re.compile(r"\{(\d+)(?:([*/%])([1-9]\d*))?\}")
_ALLOWED = (
    "letters, digits and `/ . : _ -` around {1}, {0*8}, {1/8} or {1%8}: first number, then step, division or rest"
)


class PortNames:
    """Names of ports from a pattern.

    `{1}` is the port's number counted from 1, `{0*8}` counts 0, 8, 16, `{1/8}` is 1 for the first eight ports, and
    `{1%8}` counts 1 to 8 repeatedly: `Ethernet{1/8}/{1%8}` are eight ports of each cage.

    Raises:
        ConfigError: a pattern without the port's number, or a malformed one.
    """

    def __init__(self, pattern: str, field: str = "port names") -> None:
        self.pattern, self.field = pattern, field
        rest = _FIELD.sub("", pattern)
        if rest == pattern or not re.fullmatch(r"[A-Za-z0-9/.:_-]*", rest):
            raise ConfigError(field, pattern, _ALLOWED, hint="for example swp{1} or Ethernet{1/8}/{1%8}")

    def first(self, count: int, longest: int | None = None) -> list[str]:
        """Names of the ports 0 to `count` - 1.

        Raises:
            ConfigError: two ports have one name, or a name is over `longest` characters.
        """
        names = [self._of(port) for port in range(count)]
        if len(set(names)) < count:
            hint = "put a step or a rest into the pattern, as in Ethernet{1/8}/{1%8}"
            raise ConfigError(self.field, self.pattern, f"a pattern with different names for {count} ports", hint=hint)
        for name in names:
            if longest and len(name) > longest:
                hint = "a shorter word before the number"
                raise ConfigError(self.field, name, f"an interface name of at most {longest} characters", hint=hint)
        return names

    def _of(self, port: int) -> str:
        return _FIELD.sub(lambda match: str(_number(match, port)), self.pattern)


def _number(match: re.Match[str], port: int) -> int:
    first, sign, by = match.groups()
    step = int(by or 1)
    return int(first) + (port // step if sign == "/" else port % step if sign == "%" else port * step)
