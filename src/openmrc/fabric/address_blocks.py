"""The address blocks of a fabric.

A NIC port's own address contains its location: plane, T0 and down port of that T0, 16 bits each:
`HOSTS:plane:t0:port::1`.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network

__all__ = ["BLOCK_BITS", "FIELD_BITS", "AddressBlocks"]

BLOCK_BITS = 32
FIELD_BITS = 16
_USID_BLOCK = IPv6Network("fcbb:bb00::/32")
_HOST_BLOCK = IPv6Network("fd00:6d72::/32")


@dataclass(frozen=True, slots=True)
class AddressBlocks:
    """The two /32 of a fabric's addresses, which do not overlap.

    `usid` is the locator block of the uSIDs (F3216), `hosts` that of the NIC ports' own addresses.
    """

    usid: IPv6Network = _USID_BLOCK
    hosts: IPv6Network = _HOST_BLOCK

    def plane_prefix(self, plane: int) -> IPv6Network:
        """The /48 of all NIC ports of a plane: `HOSTS:plane::/48`."""
        field = plane << 128 - BLOCK_BITS - FIELD_BITS
        return IPv6Network((int(self.hosts.network_address) | field, BLOCK_BITS + FIELD_BITS))

    def t0_prefix(self, plane: int, t0: int) -> IPv6Network:
        """The /64 of all NIC ports behind one T0: `HOSTS:plane:t0::/64`."""
        field = t0 << 128 - BLOCK_BITS - 2 * FIELD_BITS
        return IPv6Network((int(self.plane_prefix(plane).network_address) | field, BLOCK_BITS + 2 * FIELD_BITS))

    def port(self, plane: int, t0: int, down: int) -> IPv6Address:
        """The address of the NIC port behind a T0's down port, as used by peers."""
        field = down << 128 - BLOCK_BITS - 3 * FIELD_BITS
        return IPv6Address(int(self.t0_prefix(plane, t0).network_address) | field | 1)
