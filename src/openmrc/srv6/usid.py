"""The 16-bit uSIDs of switches and NIC ports (F3216: 32-bit block, six uSIDs in an address).

The number encodes the node, so that a path can be built from an EV by copying bits:

    0x4000..0x7FFF  T0: plane, T0 of the plane
    0x8000..0xBFFF  T1: plane, pod, T1 of the pod (the uplink number of a T0)
    0xC000..0xDFFF  T2: plane, position of its T1s in their pods, uplink number of these T1s
    0xE000..0xFFFF  NIC port: plane, down port of its T0; valid at that T0 only

Each number takes the bits it needs, the last one at the low end. 0 ends a list and is never assigned; 0x0001 to 0x3FFF
are left for the operator. Switch vendors treat the range up to 0xDFFF as global.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from openmrc.errors import ConfigError
from openmrc.fabric.cabling import SWITCH_KINDS, Node, NodeKind, count
from openmrc.fabric.model import Shape

__all__ = ["USID_BITS", "UsidPlan"]

USID_BITS = 16
_BASES: dict[NodeKind, int] = {"t0": 0x4000, "t1": 0x8000, "t2": 0xC000, "host": 0xE000}
_ROOM_BITS: dict[NodeKind, int] = {"t0": 14, "t1": 14, "t2": 13, "host": 13}
_WORDS = {"t0": "T0s", "t1": "T1s", "t2": "T2s", "host": "NICs at a T0"}


def _bits(count: int) -> int:
    """Bits that hold the numbers below `count`."""
    return max(count - 1, 0).bit_length()


@dataclass(frozen=True)
class UsidPlan:
    """The uSIDs of a fabric.

    Raises:
        ConfigError: a fabric with more switches or NICs than there are uSIDs for.
    """

    shape: Shape

    def __post_init__(self) -> None:
        for kind, room in _ROOM_BITS.items():
            needed = self.plane_bits + self._index_bits(kind)
            if needed > room:
                raise ConfigError(
                    _WORDS[kind],
                    f"{needed} bits with the plane",
                    f"at most {room} bits of a uSID, {1 << room} numbers",
                    hint="fewer planes or a larger radix; two fabrics may have a usid block each",
                )

    @cached_property
    def plane_bits(self) -> int:
        """Bits of the plane's number, in every uSID."""
        return _bits(self.shape.planes)

    @cached_property
    def uplink_bits(self) -> int:
        """Bits of the uplink number of a T0, which select the T1."""
        return _bits(self.shape.t1s)

    @cached_property
    def second_uplink_bits(self) -> int:
        """Bits of the uplink number of a T1; 0 with two tiers."""
        return _bits(self.shape.t1_uplinks)

    @property
    def selector_bits(self) -> int:
        """Bits of an EV that select the path: uplink of the T0, then uplink of the T1."""
        return self.uplink_bits + self.second_uplink_bits

    def _index_bits(self, kind: NodeKind) -> int:
        return {
            "t0": _bits(self.shape.t0s),
            "t1": _bits(self.shape.pods) + self.uplink_bits,
            "t2": self.uplink_bits + self.second_uplink_bits if self.shape.t2s else 0,
            "host": _bits(self.shape.hosts_per_t0),
        }[kind]

    def t0(self, plane: int, t0: int) -> int:
        """The uSID of a T0."""
        return self._usid("t0", plane, t0)

    def t1(self, plane: int, t1: int) -> int:
        """The uSID of a T1, counted through all pods of its plane."""
        pod, uplink = divmod(t1, self.shape.t1s)
        return self._usid("t1", plane, pod << self.uplink_bits | uplink)

    def t2(self, plane: int, t2: int) -> int:
        """The uSID of a T2."""
        uplink, second = divmod(t2, self.shape.t1_uplinks)
        return self._usid("t2", plane, uplink << self.second_uplink_bits | second)

    def nic(self, plane: int, down: int) -> int:
        """The uSID of the NIC port behind a T0's down port; every T0 uses the same ones."""
        return self._usid("host", plane, down)

    def of(self, node: Node) -> int:
        """The uSID of a switch."""
        assert node.plane is not None
        return {"t0": self.t0, "t1": self.t1, "t2": self.t2}[node.kind](node.plane, node.index)

    def node(self, usid: int) -> Node | None:
        """The switch of a uSID; None for numbers without a switch in this fabric."""
        for kind in SWITCH_KINDS:
            offset = usid - _BASES[kind]
            if not 0 <= offset < 1 << _ROOM_BITS[kind]:
                continue
            plane, low = offset >> self._index_bits(kind), offset & ((1 << self._index_bits(kind)) - 1)
            index = low
            if kind == "t1":
                index = (low >> self.uplink_bits) * self.shape.t1s + (low & ((1 << self.uplink_bits) - 1))
            elif kind == "t2":
                second = low & ((1 << self.second_uplink_bits) - 1)
                index = (low >> self.second_uplink_bits) * self.shape.t1_uplinks + second
            if (
                plane < self.shape.planes
                and index < count(self.shape, kind)
                and usid == self.of(Node(kind, index, plane))
            ):
                return Node(kind, index, plane)
        return None

    def nic_port(self, usid: int) -> tuple[int, int] | None:
        """Plane and T0 down port of a NIC port's uSID; None for numbers without a NIC port in this fabric."""
        bits = self._index_bits("host")
        plane, down = usid - _BASES["host"] >> bits, usid & ((1 << bits) - 1)
        known = 0 <= plane < self.shape.planes and down < self.shape.hosts_per_t0
        return (plane, down) if known and usid == self.nic(plane, down) else None

    @property
    def nic_port_bits(self) -> int:
        """Bits of a NIC port's uSID that contain the down port of its T0."""
        return self._index_bits("host")

    @property
    def t0_bits(self) -> int:
        """Bits of a T0's uSID that contain its number in the plane."""
        return self._index_bits("t0")

    @property
    def pod_bits(self) -> int:
        """Bits of a T1's uSID that contain its pod, above those of the uplink number."""
        return _bits(self.shape.pods)

    def _usid(self, kind: NodeKind, plane: int, index: int) -> int:
        return _BASES[kind] | plane << self._index_bits(kind) | index
