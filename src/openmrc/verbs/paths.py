"""Interface of the paths of a device in EV format SRV6: the path file of a NIC, which `openmrc.srv6` creates.

Protocols, because verbs do not depend on fabrics: `openmrc.srv6.rules.NicPaths` implements them, and so may others.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from typing import Protocol

from openmrc import _native
from openmrc.errors import ConfigError

__all__ = ["CheckedPaths", "PathCopy", "PathPort", "PathRule", "Paths", "checked_paths", "native_rules"]

SELECTOR_BITS = 16
_SELECTOR_MAX = (1 << SELECTOR_BITS) - 1
_ADDRESS_BITS = 128
_COPIES_MAX = 8
_RULES_MAX = 4096
_WIDTHS = {"selector": SELECTOR_BITS, "peer": _ADDRESS_BITS}


class PathCopy(Protocol):
    """`bits` bits, from bit `at` of the "selector" or the "peer" address, to bit `to` of the destination address."""

    @property
    def source(self) -> str: ...
    @property
    def at(self) -> int: ...
    @property
    def bits(self) -> int: ...
    @property
    def to(self) -> int: ...


class PathRule(Protocol):
    """Peers in `prefix` are reached by `base` with these bits copied into it; the most specific prefix wins."""

    @property
    def prefix(self) -> IPv6Network: ...
    @property
    def base(self) -> IPv6Address: ...
    @property
    def copies(self) -> Sequence[PathCopy]: ...


class PathPort(Protocol):
    """One port: its address for peers, the address on which its packets arrive, the selectors of its EVs, its speed."""

    @property
    def plane(self) -> int: ...
    @property
    def address(self) -> IPv6Address: ...
    @property
    def receive(self) -> IPv6Address: ...
    @property
    def selectors(self) -> Sequence[int]: ...
    @property
    def interface(self) -> str | None: ...
    @property
    def rate_bps(self) -> int | None: ...


class Paths(Protocol):
    """A NIC's ports in plane order, the rules of all of them, and the round trip of an idle path if known."""

    @property
    def ports(self) -> Sequence[PathPort]: ...
    @property
    def rules(self) -> Sequence[PathRule]: ...
    @property
    def base_rtt_us(self) -> int | None: ...

    def ways(self, addresses: Sequence[IPv6Address]) -> list[tuple[int, int]]:
        """(port, selector) of all EVs whose packets take the path of one of these addresses, each once, for generated
        profiles.

        Raises:
            ConfigError: an address that no rule produces.
        """


@dataclass(frozen=True, slots=True)
class CheckedPaths:
    """Validated paths for a device."""

    paths: Paths
    rules: _native.PathRules

    def evs_per_port(self, least: int) -> int:
        """EVs of a port, `least` or more, with the same number for each path.

        Several EVs per path if paths are few: a lost packet sets its EV aside until probes are answered, and random
        loss must not remove whole paths.
        """
        paths = max(len(port.selectors) for port in self.paths.ports)
        return -(-least // paths) * paths

    def selectors(self, evs_per_port: int, seed: int) -> list[list[int]]:
        """Selectors of each port, at most `evs_per_port`.

        If a port has fewer EVs than paths, the device draws among them: NICs that all used the first ones would leave
        the other uplinks idle.
        """
        drawn = random.Random(seed)
        ports = []
        for port in self.paths.ports:
            selectors = list(port.selectors)
            if len(selectors) > evs_per_port:
                selectors = sorted(drawn.sample(selectors, evs_per_port))
            ports.append(selectors)
        return ports


def checked_paths(paths: Paths, ports_max: int) -> CheckedPaths:
    """The paths, after validation.

    Raises:
        ConfigError: naming the field: no ports, no rules, an address that is not IPv6, a selector beyond 16 bits, ...
    """
    if not (hasattr(paths, "ports") and hasattr(paths, "rules")):
        raise ConfigError(
            "paths",
            paths,
            "a NIC's path file, read: an object with ports and rules",
            hint="openmrc.srv6.read_nic_paths(FILE) reads one",
        )
    if not 1 <= len(paths.ports) <= ports_max:
        raise ConfigError("paths.ports", f"{len(paths.ports)} ports", f"1 to {ports_max}, one per plane")
    for index, port in enumerate(paths.ports):
        _check_port(port, index)
    for name in ("address", "receive"):
        values = [str(getattr(port, name)) for port in paths.ports]
        if len(set(values)) < len(values):
            raise ConfigError(f"paths.ports.{name}", values, "a different one for each port")
    if not 1 <= len(paths.rules) <= _RULES_MAX:
        raise ConfigError("paths.rules", f"{len(paths.rules)} rules", f"1 to {_RULES_MAX} rules")
    for index, rule in enumerate(paths.rules):
        _check_rule(rule, f"paths.rules[{index}]")
    prefixes = Counter(rule.prefix for rule in paths.rules)
    twice, count = prefixes.most_common(1)[0]
    if count > 1:
        raise ConfigError("paths.rules", f"{count} rules for {twice}", "one rule for each prefix")
    return CheckedPaths(paths, native_rules(paths.rules))


def _check_port(port: PathPort, index: int) -> None:
    name = f"paths.ports[{index}]"
    if port.plane != index:
        raise ConfigError(f"{name}.plane", port.plane, f"{index}: ports are listed in plane order, from plane 0")
    for field, address in (("address", port.address), ("receive", port.receive)):
        if not isinstance(address, IPv6Address):
            raise ConfigError(f"{name}.{field}", str(address), "an IPv6 address: SRv6 is a routing header of IPv6")
    if not port.selectors:
        raise ConfigError(f"{name}.selectors", "none", "at least one selector, one per path")
    for selector in port.selectors:
        if type(selector) is not int or not 0 <= selector <= _SELECTOR_MAX:
            raise ConfigError(f"{name}.selectors", selector, f"0 to {_SELECTOR_MAX}: {SELECTOR_BITS} bits of the EV")
    if len(set(port.selectors)) < len(port.selectors):
        raise ConfigError(f"{name}.selectors", "one of them twice", "each once")


def _check_rule(rule: PathRule, name: str) -> None:
    if not isinstance(rule.prefix, IPv6Network):
        raise ConfigError(f"{name}.prefix", str(rule.prefix), "an IPv6 network")
    if not isinstance(rule.base, IPv6Address):
        raise ConfigError(f"{name}.base", str(rule.base), "an IPv6 address")
    if len(rule.copies) > _COPIES_MAX:
        raise ConfigError(f"{name}.copies", f"{len(rule.copies)} copies", f"at most {_COPIES_MAX}")
    for index, copy in enumerate(rule.copies):
        place = f"{name}.copies[{index}]"
        if copy.source not in _WIDTHS:
            raise ConfigError(f"{place}.source", copy.source, "selector or peer")
        if copy.bits < 1 or copy.at < 0 or copy.at + copy.bits > _WIDTHS[copy.source]:
            value = f"{copy.bits} bits from bit {copy.at} of the {copy.source}"
            raise ConfigError(place, value, f"bits 0 to {_WIDTHS[copy.source] - 1}")
        if copy.to < 0 or copy.to + copy.bits > _ADDRESS_BITS:
            raise ConfigError(
                place, f"{copy.bits} bits to bit {copy.to}", f"bits 0 to {_ADDRESS_BITS - 1} of an address"
            )


def native_rules(rules: Sequence[PathRule]) -> _native.PathRules:
    """Validated rules in the form that the NIC applies to every packet."""
    made = []
    for rule in rules:
        copies = [
            {"from_peer": copy.source == "peer", "at": copy.at, "bits": copy.bits, "to": copy.to}
            for copy in rule.copies
        ]
        network = {"prefix": str(rule.prefix.network_address), "prefix_bits": rule.prefix.prefixlen}
        made.append({**network, "base": str(rule.base), "copies": copies})
    return _native.PathRules(made)
