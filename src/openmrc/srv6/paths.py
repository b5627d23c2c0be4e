"""A path as a destination address: the uSIDs of the switches on the way, then that of the NIC port.

Two tiers: T0, T1, T0, NIC. Three tiers: T0, T1, T2, T1, T0, NIC, and inside a pod as with two. Behind one T0: T0, NIC.
The selector, up to 16 bits of an EV, says which uplinks: that of the T0 first, then that of the T1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address

from openmrc.errors import ConfigError
from openmrc.fabric.blocks import BLOCK_BITS, AddressBlocks
from openmrc.fabric.cabling import Node, NodeKind
from openmrc.fabric.model import Shape
from openmrc.srv6.usid import USID_BITS, UsidPlan

__all__ = ["Path", "PathPlan", "pack", "unpack"]

_USIDS_MAX = 6
_LIST_BITS = _USIDS_MAX * USID_BITS


def pack(blocks: AddressBlocks, usids: list[int]) -> IPv6Address:
    """The address that holds these uSIDs behind the block.

    Raises:
        ConfigError: more than six.
    """
    if len(usids) > _USIDS_MAX:
        raise ConfigError("uSIDs", len(usids), f"at most {_USIDS_MAX} in an address")
    value = 0
    for usid in usids:
        value = value << USID_BITS | usid
    value <<= USID_BITS * (_USIDS_MAX - len(usids))
    return IPv6Address(int(blocks.usid.network_address) | value)


def unpack(address: IPv6Address) -> list[int]:
    """The uSIDs of an address, up to the first 0."""
    value = int(address) & ((1 << _LIST_BITS) - 1)
    usids = [value >> USID_BITS * (_USIDS_MAX - 1 - place) & 0xFFFF for place in range(_USIDS_MAX)]
    return usids[: usids.index(0)] if 0 in usids else usids


@dataclass(frozen=True, slots=True)
class Path:
    """A way through one plane: the switches in order, and the destination address that makes packets take it."""

    plane: int
    selector: int
    switches: tuple[Node, ...]
    address: IPv6Address


@dataclass(frozen=True)
class PathPlan:
    """All paths of a fabric, by arithmetic."""

    shape: Shape
    blocks: AddressBlocks
    usids: UsidPlan

    @classmethod
    def of(cls, shape: Shape, blocks: AddressBlocks) -> PathPlan:
        """The plan of a fabric.

        Raises:
            ConfigError: more switches than uSIDs.
        """
        return cls(shape, blocks, UsidPlan(shape))

    def selectors(self) -> Iterator[int]:
        """Every selector that names uplinks which exist; as many as there are longest paths in a plane."""
        for uplink in range(self.shape.t1s):
            for second in range(self.shape.t1_uplinks or 1):
                yield uplink << self.usids.second_uplink_bits | second

    def path(self, source: int, destination: int, plane: int, selector: int) -> Path:
        """The path between two NICs with this selector.

        Raises:
            ConfigError: a selector that names no uplink, or NICs that the fabric does not have.
        """
        for name, nic in (("source", source), ("destination", destination)):
            if not 0 <= nic < self.shape.hosts:
                raise ConfigError(name, nic, f"0 to {self.shape.hosts - 1}")
        nodes = self._switches(source // self.shape.hosts_per_t0, destination // self.shape.hosts_per_t0, selector)
        switches = tuple(Node(kind, index, plane) for kind, index in nodes)
        usids = [self.usids.of(node) for node in switches]
        usids.append(self.usids.nic(plane, destination % self.shape.hosts_per_t0))
        return Path(plane, selector, switches, pack(self.blocks, usids))

    def address(self, nic: int, plane: int) -> IPv6Address:
        """The NIC port's own address, which peers know it by."""
        return self.blocks.port(plane, *divmod(nic, self.shape.hosts_per_t0))

    def receive_address(self, nic: int, plane: int) -> IPv6Address:
        """The address that is left when a packet reaches the NIC: the block and the NIC port's uSID."""
        return pack(self.blocks, [self.usids.nic(plane, nic % self.shape.hosts_per_t0)])

    def _switches(self, t0: int, far: int, selector: int) -> list[tuple[NodeKind, int]]:
        uplink, second = (
            selector >> self.usids.second_uplink_bits,
            selector & ((1 << self.usids.second_uplink_bits) - 1),
        )
        if not (0 <= uplink < self.shape.t1s and second < (self.shape.t1_uplinks or 1)):
            raise ConfigError("selector", selector, f"one of {', '.join(map(str, list(self.selectors())[:16]))}, ...")
        if t0 == far:
            return [("t0", t0)]
        pod, far_pod = (switch // self.shape.t0s_per_pod if self.shape.t0s_per_pod else 0 for switch in (t0, far))
        t1, far_t1 = pod * self.shape.t1s + uplink, far_pod * self.shape.t1s + uplink
        if pod == far_pod:
            return [("t0", t0), ("t1", t1), ("t0", far)]
        t2 = uplink * self.shape.t1_uplinks + second
        return [("t0", t0), ("t1", t1), ("t2", t2), ("t1", far_t1), ("t0", far)]


assert BLOCK_BITS + _LIST_BITS == 128
