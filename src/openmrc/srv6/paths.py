"""A path as a destination address (protocol C.1.1): the uSIDs of its switches in order, then that of the NIC port.

Two tiers: T0, T1, T0, NIC. Three tiers: T0, T1, T2, T1, T0, NIC, and inside a pod as with two. Behind one T0: T0, NIC.
The selector, up to 16 bits of an EV, contains the uplinks: that of the T0 first, then that of the T1.

Every address can be decoded into its switches in order, with a check that cables join them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv6Address
from itertools import pairwise

from openmrc.errors import ConfigError
from openmrc.fabric.address_blocks import BLOCK_BITS, AddressBlocks
from openmrc.fabric.cabling import Node, NodeKind, up_t1s, up_t2s
from openmrc.fabric.model import Shape
from openmrc.srv6.usid import USID_BITS, UsidPlan

__all__ = ["Path", "PathPlan", "ReadPath", "pack", "shifted", "unpack"]

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


def shifted(address: IPv6Address) -> list[IPv6Address]:
    """The address after each switch of the path, in order: its own uSID is removed, the rest moved up.

    The last one is the address of arrival, the block and the NIC port's uSID. (protocol C.1.2, C.3.1)
    """
    block, value = int(address) >> _LIST_BITS << _LIST_BITS, int(address) & ((1 << _LIST_BITS) - 1)
    left = []
    for _ in unpack(address)[1:]:
        value = value << USID_BITS & ((1 << _LIST_BITS) - 1)
        left.append(IPv6Address(block | value))
    return left


@dataclass(frozen=True, slots=True)
class Path:
    """A path through one plane: the switches in order, and the destination address that steers packets along it."""

    plane: int
    selector: int
    switches: tuple[Node, ...]
    address: IPv6Address


@dataclass(frozen=True, slots=True)
class ReadPath:
    """A decoded address: the switches that a packet to it still has to pass, and the NIC port behind the last one.

    Attributes:
        plane: The plane of all of them.
        switches: In order; none in the address that a NIC receives on.
        down: The T0's port to which the NIC is attached.
        nic: The NIC's number in the fabric; None if no switch is left to determine it.
        selector: Argument with which `PathPlan.path` creates this path; None for paths that it does not create (the
        rest
            of a path, a returning probe) and for paths without uplinks.
    """

    plane: int
    switches: tuple[Node, ...]
    down: int
    nic: int | None
    selector: int | None


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
        """Every selector whose uplinks exist; their number is that of the longest paths in a plane."""
        for uplink in range(self.shape.t1s):
            for second in range(self.shape.t1_uplinks or 1):
                yield uplink << self.usids.second_uplink_bits | second

    def path(self, source: int, destination: int, plane: int, selector: int) -> Path:
        """The path between two NICs with this selector.

        Raises:
            ConfigError: a selector without a corresponding uplink, or NICs that the fabric does not have.
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
        """The NIC port's own address, used by peers."""
        return self.blocks.port(plane, *divmod(nic, self.shape.hosts_per_t0))

    def receive_address(self, nic: int, plane: int) -> IPv6Address:
        """The remaining address of a packet at the NIC: the block and the NIC port's uSID."""
        return pack(self.blocks, [self.usids.nic(plane, nic % self.shape.hosts_per_t0)])

    def read(self, address: IPv6Address, source: int | None = None) -> ReadPath:
        """The path of packets to this address: a whole path, or the rest of one after some shifts.

        Args:
            address: Destination address of a packet.
            source: NIC that sends it: its path must start at the T0 of this NIC.

        Raises:
            ConfigError: it is not a path along the cables of this fabric; the hint names the wrong uSID and the reason.
        """
        if address not in self.blocks.usid:
            raise _no_path(address, f"it is outside {self.blocks.usid}, the block of the uSIDs")
        usids = unpack(address)
        if address != pack(self.blocks, usids):
            raise _no_path(address, f"uSID {len(usids) + 1} is 0, which ends the list, and others follow")
        if not usids:
            raise _no_path(address, "it contains no uSID")
        end = self.usids.nic_port(usids[-1])
        switches = tuple(self._switch(address, usids, place) for place in range(len(usids) - 1))
        if end is None:
            raise _no_path(address, f"the last uSID, {usids[-1]:#06x}, is not a NIC port of this fabric")
        plane, down = end
        self._check_way(address, switches, plane)
        nic = switches[-1].index * self.shape.hosts_per_t0 + down if switches else None
        if nic is not None and nic >= self.shape.hosts:
            raise _no_path(address, f"no NIC hangs on port {down} of {switches[-1].name}")
        if source is not None:
            first = Node("t0", source // self.shape.hosts_per_t0, plane)
            if switches[:1] != (first,):
                raise _no_path(address, f"NIC {source} is connected to {first.name}, and the path does not start there")
        return ReadPath(plane, switches, down, nic, self._selector(switches))

    def _switch(self, address: IPv6Address, usids: list[int], place: int) -> Node:
        node = self.usids.node(usids[place])
        if node is None:
            what = "a NIC port, which ends a list" if self.usids.nic_port(usids[place]) else "no switch of this fabric"
            raise _no_path(address, f"uSID {place + 1}, {usids[place]:#06x}, is {what}")
        return node

    def _check_way(self, address: IPv6Address, switches: tuple[Node, ...], plane: int) -> None:
        for node in switches:
            if node.plane != plane:
                raise _no_path(address, f"{node.name} is in plane {node.plane} and the NIC port in plane {plane}")
        for node, following in pairwise(switches):
            if not self._joined(node, following):
                raise _no_path(address, f"no cable joins {node.name} and {following.name}")
        if switches and switches[-1].kind != "t0":
            raise _no_path(address, f"{switches[-1].name} has no NICs, and the NIC port follows it")

    def _joined(self, node: Node, following: Node) -> bool:
        lower, upper = sorted((node, following), key=lambda one: one.kind)
        if (lower.kind, upper.kind) == ("t0", "t1"):
            return upper.index in up_t1s(self.shape, lower.index)
        return (lower.kind, upper.kind) == ("t1", "t2") and upper.index in up_t2s(self.shape, lower.index)

    def _selector(self, switches: tuple[Node, ...]) -> int | None:
        if len(switches) < len(("t0", "t1", "t0")) or switches[0].kind != "t0":
            return None
        selector = switches[1].index % self.shape.t1s << self.usids.second_uplink_bits
        if switches[2].kind == "t2":
            selector |= switches[2].index % self.shape.t1_uplinks
        made = self._switches(switches[0].index, switches[-1].index, selector)
        return selector if made == [(node.kind, node.index) for node in switches] else None

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


def _no_path(address: IPv6Address, why: str) -> ConfigError:
    return ConfigError("path address", str(address), "a way along the cables of this fabric", hint=why)


assert BLOCK_BITS + _LIST_BITS == 128
