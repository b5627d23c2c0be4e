"""EV format profile and generated EV profiles that expand to a fabric's path addresses. (protocol C.2.3, F.2, F.3)

A row is one generated profile: the uSID list that includes the destination, and masks at the bits of the compact EV.
Expansion reads each bit of a compact EV once. With two tiers that is enough: the uplink number is in the T1's uSID
only, and one row holds all paths. With three tiers it is in the uSIDs of both T1s and of the T2, so there is a row for
each uplink of the T0, with that number written into all three; the masks take the rest, the uplink of the T1.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address

from openmrc.errors import ConfigError
from openmrc.fabric.address_blocks import BLOCK_BITS
from openmrc.fabric.cabling import Node
from openmrc.srv6.paths import PathPlan, unpack
from openmrc.srv6.usid import USID_BITS
from openmrc.verbs.ev_format import EvFormat, EvFormatMode, EvProfileField, expand_ev

__all__ = ["EV_FORMAT", "EvRow", "ev_rows"]

EV_FORMAT = EvFormat((BLOCK_BITS, *[USID_BITS] * 6), EvFormatMode.SRV6)
"""Layout for the expansion of every row: block and six uSIDs."""


@dataclass(frozen=True, slots=True)
class EvRow:
    """A generated EV profile: `fields` for `EV_FORMAT`.

    Attributes:
        plane: All its paths are in this plane.
        fields: Block and uSIDs; uSIDs behind the last field are 0.
        selectors: Of its paths, in the order in which the profile generates them. The uplink of the T1 inside a pod,
        and
            the whole selector behind one T0, are irrelevant: selectors that differ only there occur once, with zeros.
        shift: Low bits of a selector that are not in the compact EV.
    """

    plane: int
    fields: tuple[EvProfileField, ...]
    selectors: tuple[int, ...]
    shift: int

    def compact(self, selector: int) -> bytes:
        """The compact EV of a selector.

        Raises:
            ConfigError: the row has no path of this selector.
        """
        if selector not in self.selectors:
            raise ConfigError("selector", selector, f"{self.selectors[0]} to {self.selectors[-1]}, those of this row")
        bits = sum(field.taken_bits for field in self.fields)
        size = -(-bits // 8)
        return ((selector >> self.shift & ((1 << bits) - 1)) << (8 * size - bits)).to_bytes(size, "big")

    def address(self, selector: int) -> IPv6Address:
        """The destination address, by EV expansion.

        Raises:
            ConfigError: the row has no path of this selector.
        """
        return IPv6Address(expand_ev(EV_FORMAT, self.fields, self.compact(selector))[:16])


def ev_rows(plan: PathPlan, source: int, destination: int | Node, plane: int) -> tuple[EvRow, ...]:
    """The generated profiles that hold all paths of a plane from one NIC to another, or to all NICs behind a T0.

    Args:
        plan: Of the fabric.
        source: Number of the sending NIC.
        destination: Number of the receiving NIC, or its T0: the number of the down port is then left 0, for the sender
            to fill in from the peer's address.
        plane: Number of the plane.

    Returns:
        One row; between pods one for each uplink of the T0.

    Raises:
        ConfigError: the fabric has no such NIC, T0 or plane.
    """
    shape, usids = plan.shape, plan.usids
    if not 0 <= plane < shape.planes:
        raise ConfigError("plane", plane, f"0 to {shape.planes - 1}")
    if isinstance(destination, Node):
        if destination.kind != "t0" or not 0 <= destination.index < shape.t0s:
            raise ConfigError("destination", destination.name, f"a NIC's number or a T0 below {shape.t0s}")
        destination = destination.index * shape.hosts_per_t0
    second_bits = usids.second_uplink_bits
    direct = plan.path(source, destination, plane, 0)
    kinds = [node.kind for node in direct.switches]
    if kinds == ["t0"]:
        return (_row(plan, direct.address, {}, (0,), second_bits, plane),)
    uplinks = tuple(uplink << second_bits for uplink in range(shape.t1s))
    if "t2" not in kinds:
        choice = EvProfileField(USID_BITS, unpack(direct.address)[1], (1 << usids.uplink_bits) - 1, 0, shape.t1s - 1)
        return (_row(plan, direct.address, {1: choice}, uplinks, second_bits, plane),)
    rows = []
    for first in uplinks:
        address = plan.path(source, destination, plane, first).address
        choice = EvProfileField(USID_BITS, unpack(address)[2], (1 << second_bits) - 1, 0, shape.t1_uplinks - 1)
        selectors = tuple(first | second for second in range(shape.t1_uplinks))
        rows.append(_row(plan, address, {2: choice}, selectors, 0, plane))
    return tuple(rows)


def _row(
    plan: PathPlan,
    address: IPv6Address,
    choices: dict[int, EvProfileField],
    selectors: tuple[int, ...],
    shift: int,
    plane: int,
) -> EvRow:
    block = EvProfileField(BLOCK_BITS, int(plan.blocks.usid.network_address) >> (128 - BLOCK_BITS))
    constants = [EvProfileField(USID_BITS, usid) for usid in unpack(address)]
    uplinks = [choices.get(place, constant) for place, constant in enumerate(constants)]
    return EvRow(plane, (block, *uplinks), selectors, shift)
