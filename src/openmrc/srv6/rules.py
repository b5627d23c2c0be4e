"""How a NIC makes the destination address of a packet from the peer's address and the EV: the NIC's path file.

A rule says: for peers in `prefix`, start from `base` and copy bits, from the selector (the high half of the EV) or from
the peer's own address, to places in the address. The most specific rule wins. Bits count from the left, the top bit of
an address is 0 and that of the 16-bit selector is 0; so the rules of a NIC do not grow with the fabric.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network
from typing import Literal

__all__ = ["Copy", "NicPaths", "NicPort", "PathRule"]

SELECTOR_BITS = 16


@dataclass(frozen=True, slots=True)
class Copy:
    """`bits` bits, from bit `at` of the selector or of the peer's address, to bit `to` of the destination address."""

    source: Literal["selector", "peer"]
    at: int
    bits: int
    to: int


@dataclass(frozen=True, slots=True)
class PathRule:
    """What peers in `prefix` are reached by."""

    prefix: IPv6Network
    base: IPv6Address
    copies: tuple[Copy, ...] = ()

    def destination(self, peer: IPv6Address, selector: int) -> IPv6Address:
        """The address to send to."""
        value = int(self.base)
        for copy in self.copies:
            whole, width = (selector, SELECTOR_BITS) if copy.source == "selector" else (int(peer), 128)
            bits = whole >> (width - copy.at - copy.bits) & ((1 << copy.bits) - 1)
            value |= bits << (128 - copy.to - copy.bits)
        return IPv6Address(value)


@dataclass(frozen=True, slots=True)
class NicPort:
    """One port of a NIC: what peers know it by, where its packets arrive, and the selectors of its EVs."""

    plane: int
    address: IPv6Address
    receive: IPv6Address
    selectors: tuple[int, ...]
    interface: str | None = None


@dataclass(frozen=True, slots=True)
class NicPaths:
    """A NIC's path file: its ports in plane order, and the rules of all of them."""

    ports: tuple[NicPort, ...]
    rules: tuple[PathRule, ...]

    def destination(self, peer: IPv6Address, selector: int) -> IPv6Address | None:
        """The address to send to; None: no rule knows the peer."""
        fitting = [rule for rule in self.rules if peer in rule.prefix]
        if not fitting:
            return None
        return max(fitting, key=lambda rule: rule.prefix.prefixlen).destination(peer, selector)
