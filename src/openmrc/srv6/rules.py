"""Rules of a NIC's path file: the destination address of a packet from the peer's address and the EV. (protocol C.2.1,
C.2.2)

A rule reads: for peers in `prefix`, start from `base` and copy bits, from the selector (the high half of the EV) or
from the peer's own address, into the address. The most specific rule applies. Bits count from the left: the top bit of
an address is 0, and so is that of the 16-bit selector. The number of a NIC's rules does not grow with the fabric.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from typing import Literal

from openmrc.errors import ConfigError

__all__ = ["COPIES_MAX", "RULES_MAX", "SELECTOR_BITS", "Copy", "NicPaths", "NicPort", "PathRule", "most_specific_first"]

SELECTOR_BITS = 16
ADDRESS_BITS = 128
COPIES_MAX = 8
"""Limit on the copies of a rule."""
RULES_MAX = 4096
"""Limit on the rules of a path file."""


@dataclass(frozen=True, slots=True)
class Copy:
    """`bits` bits, from bit `at` of the selector or of the peer's address, to bit `to` of the destination address."""

    source: Literal["selector", "peer"]
    at: int
    bits: int
    to: int

    @property
    def mask(self) -> int:
        """Ones at the bits of the copy in the destination address."""
        return (1 << self.bits) - 1 << (ADDRESS_BITS - self.to - self.bits)


@dataclass(frozen=True, slots=True)
class PathRule:
    """Path rule for peers in `prefix`."""

    prefix: IPv6Network
    base: IPv6Address
    copies: tuple[Copy, ...] = ()

    def destination(self, peer: IPv6Address, selector: int) -> IPv6Address:
        """Destination address for a peer and a selector."""
        value = int(self.base)
        for copy in self.copies:
            whole, width = (selector, SELECTOR_BITS) if copy.source == "selector" else (int(peer), ADDRESS_BITS)
            bits = whole >> (width - copy.at - copy.bits) & ((1 << copy.bits) - 1)
            value |= bits << (ADDRESS_BITS - copy.to - copy.bits)
        return IPv6Address(value)

    @property
    def peer_mask(self) -> int:
        """Ones at the bits of the destination address that come from the peer's address."""
        return sum(copy.mask for copy in self.copies if copy.source == "peer")


def most_specific_first(rules: Iterable[PathRule]) -> tuple[PathRule, ...]:
    """The rules in the order of a path file, in which the first match for a peer applies."""
    return tuple(sorted(rules, key=lambda rule: (-rule.prefix.prefixlen, int(rule.prefix.network_address))))


@dataclass(frozen=True, slots=True)
class NicPort:
    """One port of a NIC: its address for peers, the address on which its packets arrive, its EVs' selectors, and its
    speed.
    """

    plane: int
    address: IPv6Address
    receive: IPv6Address
    selectors: tuple[int, ...]
    interface: str | None = None
    rate_bps: int | None = None


@dataclass(frozen=True, slots=True)
class NicPaths:
    """A NIC's path file: its ports in plane order, the rules of all of them, and the fabric's idle round trip."""

    ports: tuple[NicPort, ...]
    rules: tuple[PathRule, ...]
    base_rtt_us: int | None = None

    def destination(self, peer: IPv6Address, selector: int) -> IPv6Address | None:
        """Destination address of a packet; None: no rule covers the peer."""
        fitting = [rule for rule in self.rules if peer in rule.prefix]
        if not fitting:
            return None
        return max(fitting, key=lambda rule: rule.prefix.prefixlen).destination(peer, selector)

    def ways(self, addresses: Sequence[IPv6Address]) -> list[tuple[int, int]]:
        """(port, selector) of all EVs whose packets take the path of one of these addresses, for any peer.

        Bits that a rule copies from the peer's address are not compared. A rule belongs to the port whose own address
        has the longest common prefix with the rule's.

        Args:
            addresses: Destination addresses, such as the expanded EVs of a generated EV profile.

        Returns:
            In the order of the addresses, each pair once. Ports count from 0.

        Raises:
            ConfigError: an address that no rule produces from any of the port's selectors.
        """
        made: list[tuple[int, dict[int, list[tuple[int, int]]]]] = []
        for rule in self.rules:
            port, open_bits = self._port_of(rule), rule.peer_mask
            by_address: dict[int, list[tuple[int, int]]] = {}
            for selector in self.ports[port].selectors:
                value = int(rule.destination(IPv6Address(0), selector)) & ~open_bits
                by_address.setdefault(value, []).append((port, selector))
            made.append((open_bits, by_address))
        found: dict[tuple[int, int], None] = {}
        for address in addresses:
            pairs = [pair for open_bits, by_address in made for pair in by_address.get(int(address) & ~open_bits, ())]
            if not pairs:
                raise ConfigError("path address", str(address), "one that the rules of the path file make")
            found.update(dict.fromkeys(pairs))
        return list(found)

    def _port_of(self, rule: PathRule) -> int:
        prefix = int(rule.prefix.network_address)
        return min(range(len(self.ports)), key=lambda port: (int(self.ports[port].address) ^ prefix).bit_length())
