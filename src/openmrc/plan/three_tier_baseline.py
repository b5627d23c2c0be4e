"""The baseline of comparisons: one plane of three tiers, for the same NICs, from switches of the same capacity.

Its T0s have half of their ports down and half up, a pod has half a radix of T0s and of T1s, and the T2s have a port for
each pod. That makes radix^3 / 4 NICs. For another number of NICs, the number of T0s that these need, a T1 for each T0
and a T2 for two of them: the same share of everything, in whole switches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from openmrc.errors import ConfigError
from openmrc.fabric.materials import Item, SwitchModel
from openmrc.fabric.model import Fabric
from openmrc.plan.bill import Bill, LinkKind, bill_of
from openmrc.plan.costs import Total, total_of
from openmrc.plan.impact import Impact
from openmrc.plan.reach import Reach
from openmrc.units import format_rate

__all__ = ["DEFAULT_SWITCH", "Comparison", "ComparisonRow", "ThreeTier", "compare", "three_tier"]

DEFAULT_SWITCH = SwitchModel("51.2T", 51_200_000_000_000, 512)
FOUR_TIER_SWITCHES = 7


@dataclass(frozen=True, slots=True)
class ThreeTier:
    """A non-blocking fabric of one plane and three tiers. `full_` figures are those of the largest possible one."""

    switch: str
    radix: int
    link_bps: int
    nics: int
    t0s: int
    t1s: int
    t2s: int
    pod_nics: int
    full_nics: int
    full_switches: int

    @property
    def switches(self) -> int:
        """Of all tiers."""
        return self.t0s + self.t1s + self.t2s

    @property
    def one_hop_nics(self) -> int:
        """NICs behind one T0."""
        return self.radix // 2

    @property
    def fabrics(self) -> int:
        """Number of separate fabrics of three tiers for these NICs."""
        return -(-self.nics // self.full_nics)

    @property
    def two_tier_nics(self) -> int:
        """NICs that two tiers of these switches reach."""
        return self.radix**2 // 2

    def pieces(self, copper: frozenset[LinkKind], links_per_transceiver: int = 1) -> dict[Item, int]:
        """Number of each item. Each tier has a link for each NIC; the ends of those with fiber have transceivers."""
        shared = -(-self.nics // links_per_transceiver)
        optics = 0 if "nic" in copper else self.nics + shared
        optics += 2 * shared * len({"t0", "t1"} - copper)
        found: dict[Item, int] = {
            "nic": self.nics,
            "t0": self.t0s,
            "t1": self.t1s,
            "t2": self.t2s,
            "transceiver": optics,
            "fiber_cable": self.nics * (3 - len(copper)),
            "copper_cable": self.nics * len(copper),
        }
        return {item: number for item, number in found.items() if number}


def three_tier(nics: int, link_bps: int, switch: SwitchModel) -> ThreeTier:
    """The three-tier fabric for this number of NICs with links of this rate.

    Raises:
        ConfigError: a switch with fewer than two ports of this rate.
    """
    radix = switch.radix(link_bps) // 2 * 2
    if radix < 2:
        raise ConfigError("switch", switch.name, f"at least two ports of {format_rate(link_bps)}")
    half = radix // 2
    t0s = -(-nics // half)
    full_t0s = radix * half
    return ThreeTier(
        switch=switch.name,
        radix=radix,
        link_bps=link_bps,
        nics=nics,
        t0s=t0s,
        t1s=t0s,
        t2s=-(-t0s // 2),
        pod_nics=half * half,
        full_nics=full_t0s * half,
        full_switches=full_t0s * 2 + full_t0s // 2,
    )


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One figure of both fabrics, and the first over the second. Shares are 0 to 1."""

    figure: str
    fabric: float
    three_tier: float
    form: Literal["count", "per NIC", "share", "amount"] = "count"

    @property
    def ratio(self) -> float | None:
        """None for a divisor of zero."""
        return self.fabric / self.three_tier if self.three_tier else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The fabric beside the three-tier one. Transceivers of both are counted at `transceiver_bps`."""

    three_tier: ThreeTier
    transceiver_bps: int
    rows: tuple[ComparisonRow, ...]
    cost: Total | None
    power: Total | None
    notes: tuple[str, ...]

    def row(self, figure: str) -> ComparisonRow:
        """The row of this name.

        Raises:
            KeyError: there is none.
        """
        for row in self.rows:
            if row.figure == figure:
                return row
        raise KeyError(figure)


def compare(
    fabric: Fabric, bill: Bill, reach: Reach, impacts: tuple[Impact, ...], cost: Total | None, power: Total | None
) -> Comparison:
    """The fabric beside three tiers of the switch in its T0s, or of a 51.2 Tb/s one.

    Raises:
        ConfigError: a switch with fewer than two ports of the NIC's bandwidth.
    """
    nic_bps = fabric.planes * fabric.rates.nic
    switch = fabric.materials.switches.get("t0", DEFAULT_SWITCH)
    other = three_tier(fabric.hosts, nic_bps, switch)
    materials = fabric.materials
    transceiver_bps = max(materials.transceiver_bps or 0, nic_bps, fabric.rates.t0, fabric.rates.t1)
    ours = bill_of(replace(fabric, materials=replace(materials, transceiver_bps=transceiver_bps)))
    above: frozenset[LinkKind] = frozenset({"t1"} if fabric.tiers == 2 and "t0" in materials.copper else ())
    theirs = other.pieces(materials.copper | above, transceiver_bps // nic_bps)
    same_optics = transceiver_bps == materials.transceiver_bps
    their_cost = total_of(_known(materials.prices, same_optics=same_optics), theirs, materials.currency)
    their_power = total_of(_known(materials.powers_watts, same_optics=same_optics), theirs, "W")
    lost = {impact.failure: impact.plane_share_lost for impact in impacts}
    nic_lost = {impact.failure: impact.nic_share_lost for impact in impacts}
    cables = theirs.get("fiber_cable", 0) + theirs.get("copper_cable", 0)
    rows = [
        ComparisonRow("switches", bill.switches, other.switches),
        ComparisonRow("switches per NIC", bill.switches / bill.nics, other.full_switches / other.full_nics, "per NIC"),
        ComparisonRow("transceivers", ours.transceivers, theirs.get("transceiver", 0)),
        ComparisonRow(
            "transceivers per NIC", ours.transceivers / bill.nics, theirs.get("transceiver", 0) / bill.nics, "per NIC"
        ),
        ComparisonRow("cables", bill.cables, cables),
        ComparisonRow("NICs reached through one switch", reach.one_hop_nics, min(other.one_hop_nics, bill.nics)),
        ComparisonRow("switches on the longest path", reach.longest_path_switches, 5),
        ComparisonRow("plane capacity lost by a T0-T1 link", lost["T0-T1 link"], 1 / other.one_hop_nics, "share"),
        ComparisonRow("NIC capacity lost by a NIC-T0 link", nic_lost["NIC-T0 link"], 1.0, "share"),
        ComparisonRow("NIC capacity lost by a T0", nic_lost["T0"], 1.0, "share"),
    ]
    notes = _notes(other)
    for name, one, two in (("cost", cost, their_cost), ("power", power, their_power)):
        if one is None or two is None:
            continue
        differing = _differing(one, two)
        if differing:
            notes.append(f"No comparison of {name}: the table lacks {', '.join(differing)} for one of the two fabrics.")
        else:
            rows.append(ComparisonRow(f"{name}, {one.unit}", one.total, two.total, "amount"))
    return Comparison(other, transceiver_bps, tuple(rows), their_cost, their_power, tuple(notes))


def _known(table: Mapping[Item, float], *, same_optics: bool) -> dict[Item, float]:
    """The table for the other fabric: every switch is the T0's, and a transceiver counts only at the same rate."""
    found: dict[Item, float] = {item: table[item] for item in ("nic", "fiber_cable", "copper_cable") if item in table}
    if "t0" in table:
        found.update({"t0": table["t0"], "t1": table["t0"], "t2": table["t0"]})
    if "transceiver" in table and same_optics:
        found["transceiver"] = table["transceiver"]
    return found


def _differing(one: Total, two: Total) -> list[str]:
    """Kinds of items that count in one total and not in the other, or in part: such sums are not comparable."""

    def kinds(total: Total, *, known: bool) -> set[str]:
        switch = dict.fromkeys(("t0", "t1", "t2"), "some switches")
        return {
            switch.get(line.item, line.item.replace("_", " "))
            for line in total.lines
            if (line.each is not None) == known
        }

    known = kinds(one, known=True) | kinds(two, known=True)
    lacking_one, lacking_two = kinds(one, known=False), kinds(two, known=False)
    return sorted(known & (lacking_one | lacking_two) | lacking_one ^ lacking_two)


def _notes(other: ThreeTier) -> list[str]:
    notes = []
    if other.fabrics > 1:
        notes.append(
            f"Three tiers of radix {other.radix} are limited to {other.full_nics:,} NICs: these are the numbers of "
            f"{other.fabrics} separate fabrics. A fourth tier would connect them, with {FOUR_TIER_SWITCHES} switches "
            "on the longest path and more switches, transceivers and cables."
        )
    elif other.nics <= other.two_tier_nics:
        notes.append(
            f"A single plane of two tiers would be sufficient for {other.two_tier_nics:,} NICs; the third tier is "
            "for comparison only."
        )
    return notes
