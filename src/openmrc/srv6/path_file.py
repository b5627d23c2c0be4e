"""Reading and writing a NIC's path file, JSON. Format: docs/reference/path-file.md."""

from __future__ import annotations

import json
from collections.abc import Callable
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path
from typing import Any, Literal, TypeVar

from openmrc.errors import ConfigError, did_you_mean
from openmrc.srv6.rules import (
    COPIES_MAX,
    RULES_MAX,
    SELECTOR_BITS,
    Copy,
    NicPaths,
    NicPort,
    PathRule,
    most_specific_first,
)
from openmrc.units import RATE_BPS_RANGE

__all__ = ["FORMAT", "VERSION", "parse_nic_paths", "read_nic_paths", "render_nic_paths", "write_nic_paths"]

FORMAT = "openmrc NIC paths"
VERSION = 1
_PORTS_MAX = 16
_PLANES_MAX = 16
_INTERFACE_CHARACTERS_MAX = 15
_BASE_RTT_US_MAX = 10_000_000
_T = TypeVar("_T")
_WIDTHS = {"selector": SELECTOR_BITS, "peer": 128}


def render_nic_paths(paths: NicPaths) -> str:
    """The text of a path file: one line for each port and each rule."""
    ports = [_port_values(port) for port in paths.ports]
    rules = [_rule_values(rule) for rule in most_specific_first(paths.rules)]
    lines = [f' "format": {json.dumps(FORMAT)}', f' "version": {VERSION}']
    if paths.base_rtt_us is not None:
        lines.append(f' "base_rtt_us": {paths.base_rtt_us}')
    for name, values in (("ports", ports), ("rules", rules)):
        lines.append(f' "{name}": [\n' + ",\n".join(f"  {json.dumps(value)}" for value in values) + "\n ]")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_nic_paths(paths: NicPaths, file: str | Path) -> None:
    """Writes a path file."""
    Path(file).write_text(render_nic_paths(paths), encoding="utf-8")


def read_nic_paths(file: str | Path) -> NicPaths:
    """The contents of a path file.

    Raises:
        ConfigError: it cannot be read, or has an invalid field; names the file and the field.
    """
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError("path file", str(file), "a file that can be read", hint=reason) from None
    return parse_nic_paths(text, file)


def parse_nic_paths(text: str, source: str | Path | None = None) -> NicPaths:
    """The contents of a path file's text.

    Args:
        text: JSON.
        source: File name for messages.

    Raises:
        ConfigError: it is not JSON, or a field is missing, unknown or invalid; names the field.
    """
    try:
        return _paths(_json(text))
    except ConfigError as error:
        if source is None:
            raise
        raise ConfigError(error.field, error.value, error.allowed, source=source, hint=error.hint) from None


def _port_values(port: NicPort) -> dict[str, Any]:
    values: dict[str, Any] = {
        "plane": port.plane,
        "address": str(port.address),
        "receive_address": str(port.receive),
        "selectors": list(port.selectors),
    }
    optional = {"interface": port.interface, "rate_bps": port.rate_bps}
    return values | {key: value for key, value in optional.items() if value is not None}


def _rule_values(rule: PathRule) -> dict[str, Any]:
    copies = [{"from": copy.source, "from_bit": copy.at, "bits": copy.bits, "to_bit": copy.to} for copy in rule.copies]
    return {"peers": str(rule.prefix), "base": str(rule.base), "copies": copies}


def _json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_each_key_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        if isinstance(error, ConfigError):
            raise
        why = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise ConfigError("path file", text[:20], "JSON", hint=why) from None


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ConfigError(key, value, "once in an object")
        values[key] = value
    return values


def _no_constant(name: str) -> Any:
    raise ConfigError("number", name, "a whole number")


class _Object:
    """The values of a JSON object, each taken once and checked; errors use the user's field names."""

    def __init__(self, value: Any, where: str) -> None:
        self._where = where
        if not isinstance(value, dict):
            raise ConfigError(where or "path file", _shown(value), "an object, {...}")
        self._values: dict[str, Any] = value
        self._known: list[str] = []

    def number(self, key: str, low: int, high: int) -> int:
        return _number(self._get(key), self.name(key), low, high)

    def optional_number(self, key: str, low: int, high: int) -> int | None:
        value = self._get_optional(key)
        return None if value is None else _number(value, self.name(key), low, high)

    def word(self, key: str, *allowed: str) -> str:
        value = self._get(key)
        if value not in allowed:
            raise ConfigError(self.name(key), _shown(value), " or ".join(f'"{word}"' for word in allowed))
        return str(value)

    def address(self, key: str) -> IPv6Address:
        value = self._get(key)
        try:
            if not isinstance(value, str) or "%" in value:
                raise ValueError
            return IPv6Address(value)
        except ValueError:
            raise ConfigError(self.name(key), _shown(value), "an IPv6 address, such as fd00:6d72::1") from None

    def network(self, key: str) -> IPv6Network:
        value = self._get(key)
        try:
            if not isinstance(value, str) or "%" in value:
                raise ValueError
            return IPv6Network(value)
        except ValueError:
            hint = "no bits may be set behind the prefix length"
            raise ConfigError(
                self.name(key), _shown(value), "an IPv6 prefix, such as fd00:6d72::/48", hint=hint
            ) from None

    def interface(self, key: str) -> str | None:
        value = self._get_optional(key)
        if value is None:
            return None
        fits = isinstance(value, str) and 1 <= len(value.encode("utf-8", "replace")) <= _INTERFACE_CHARACTERS_MAX
        if not fits or not value.isprintable() or any(sign in value for sign in " /:"):
            raise ConfigError(
                self.name(key), _shown(value), f"an interface's name, 1 to {_INTERFACE_CHARACTERS_MAX} characters"
            )
        return str(value)

    def rows(self, key: str, most: int, make: Callable[[Any, str], _T], *, least: int = 1) -> list[_T]:
        value = self._get(key)
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise ConfigError(self.name(key), _shown(value), f"a list of {least} to {most} entries")
        return [make(one, f"{self.name(key)}[{index}]") for index, one in enumerate(value)]

    def name(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key

    def end(self) -> None:
        """Raises for keys that were never read."""
        for key in self._values:
            if key not in self._known:
                hint = did_you_mean(key, self._known)
                raise ConfigError(self.name(key), _shown(self._values[key]), ", ".join(self._known), hint=hint)

    def _get(self, key: str) -> Any:
        self._known.append(key)
        if key not in self._values:
            raise ConfigError(self.name(key), None, "a value; the key is missing")
        return self._values[key]

    def _get_optional(self, key: str) -> Any:
        self._known.append(key)
        return self._values.get(key)


def _number(value: Any, name: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(name, _shown(value), f"a whole number from {low} to {high}")
    return value


def _shown(value: Any) -> Any:
    """Abbreviation of a value for messages, long enough to find it again."""
    text = json.dumps(value)
    return value if len(text) <= 80 else text[:77] + "..."


def _paths(value: Any) -> NicPaths:
    top = _Object(value, "")
    top.word("format", FORMAT)
    top.number("version", VERSION, VERSION)
    base_rtt_us = top.optional_number("base_rtt_us", 1, _BASE_RTT_US_MAX)
    ports = tuple(top.rows("ports", _PORTS_MAX, _port))
    rules = top.rows("rules", RULES_MAX, _rule)
    top.end()
    for index, port in enumerate(ports):
        if port.plane != index:
            raise ConfigError(f"ports[{index}].plane", port.plane, f"{index}: ports are in plane order, from plane 0")
        for name in ("address", "receive"):
            field = "receive_address" if name == "receive" else name
            if getattr(port, name) in [getattr(other, name) for other in ports[:index]]:
                raise ConfigError(
                    f"ports[{index}].{field}", str(getattr(port, name)), "a different address for each port"
                )
    known: set[IPv6Network] = set()
    for index, rule in enumerate(rules):
        if rule.prefix in known:
            raise ConfigError(f"rules[{index}].peers", str(rule.prefix), "a prefix that no other rule has")
        known.add(rule.prefix)
    return NicPaths(ports, most_specific_first(rules), base_rtt_us)


def _port(value: Any, where: str) -> NicPort:
    one = _Object(value, where)
    port = NicPort(
        plane=one.number("plane", 0, _PLANES_MAX - 1),
        address=one.address("address"),
        receive=one.address("receive_address"),
        selectors=tuple(one.rows("selectors", 1 << SELECTOR_BITS, _selector)),
        interface=one.interface("interface"),
        rate_bps=one.optional_number("rate_bps", *RATE_BPS_RANGE),
    )
    one.end()
    if len(set(port.selectors)) != len(port.selectors):
        raise ConfigError(one.name("selectors"), _shown(list(port.selectors)), "each selector once")
    return port


def _selector(value: Any, where: str) -> int:
    return _number(value, where, 0, (1 << SELECTOR_BITS) - 1)


def _rule(value: Any, where: str) -> PathRule:
    one = _Object(value, where)
    rule = PathRule(one.network("peers"), one.address("base"), tuple(one.rows("copies", COPIES_MAX, _copy, least=0)))
    one.end()
    taken = int(rule.base)
    for index, copy in enumerate(rule.copies):
        if taken & copy.mask:
            allowed = "bits of the address that are 0 in the base and that no other copy goes to"
            raise ConfigError(f"{where}.copies[{index}].to_bit", copy.to, allowed)
        taken |= copy.mask
    return rule


def _copy(value: Any, where: str) -> Copy:
    one = _Object(value, where)
    source: Literal["selector", "peer"] = "selector" if one.word("from", "selector", "peer") == "selector" else "peer"
    width = _WIDTHS[source]
    at = one.number("from_bit", 0, width - 1)
    bits = one.number("bits", 1, width - at)
    to = one.number("to_bit", 0, 128 - bits)
    one.end()
    return Copy(source, at, bits, to)
