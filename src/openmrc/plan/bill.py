"""Bill of materials of a fabric: switches and their ports, cables and transceivers, tier by tier, by arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from openmrc.errors import ConfigError
from openmrc.fabric.cabling import count, down_ports
from openmrc.fabric.materials import Item, SwitchModel
from openmrc.fabric.model import Fabric
from openmrc.units import format_rate

__all__ = ["LINK_NAMES", "Bill", "LinkTier", "SwitchTier", "bill_of", "links_per_transceiver"]

SwitchKind = Literal["t0", "t1", "t2"]
LinkKind = Literal["nic", "t0", "t1"]
LINK_NAMES: dict[LinkKind, str] = {"nic": "NIC-T0", "t0": "T0-T1", "t1": "T1-T2"}


@dataclass(frozen=True, slots=True)
class SwitchTier:
    """The switches of one tier. Ports are those of one fully wired switch; used and free ones are totals.

    `ports_free` counts ports of the downward rate, and is None if the file has no switch model.
    """

    tier: SwitchKind
    model: str | None
    switches_per_plane: int
    switches: int
    ports_down: int
    ports_up: int
    ports_used: int
    ports_free: int | None


@dataclass(frozen=True, slots=True)
class LinkTier:
    """The links of one tier, a cable each. `transceivers_lower` sit at the ends nearer to the hosts."""

    tier: LinkKind
    rate_bps: int
    cables: int
    medium: Literal["fiber", "copper"]
    links_per_transceiver: int
    transceivers_lower: int
    transceivers_upper: int

    @property
    def name(self) -> str:
        """`T0-T1`."""
        return LINK_NAMES[self.tier]

    @property
    def transceivers(self) -> int:
        """At both ends."""
        return self.transceivers_lower + self.transceivers_upper


@dataclass(frozen=True, slots=True)
class Bill:
    """All items to buy, tiers from the hosts up."""

    nics: int
    switch_tiers: tuple[SwitchTier, ...]
    link_tiers: tuple[LinkTier, ...]

    @property
    def switches(self) -> int:
        """Of all tiers and planes."""
        return sum(tier.switches for tier in self.switch_tiers)

    @property
    def cables(self) -> int:
        """Of all tiers and planes."""
        return sum(tier.cables for tier in self.link_tiers)

    @property
    def transceivers(self) -> int:
        """Of all tiers and planes, in switches and NICs."""
        return sum(tier.transceivers for tier in self.link_tiers)

    @property
    def pieces(self) -> Mapping[Item, int]:
        """Number of each item of the price tables."""
        found: dict[Item, int] = {"nic": self.nics}
        for tier in self.switch_tiers:
            found[tier.tier] = tier.switches
        found["transceiver"] = self.transceivers
        found["fiber_cable"] = sum(tier.cables for tier in self.link_tiers if tier.medium == "fiber")
        found["copper_cable"] = sum(tier.cables for tier in self.link_tiers if tier.medium == "copper")
        return {item: number for item, number in found.items() if number}


def bill_of(fabric: Fabric) -> Bill:
    """The bill of materials of a fabric.

    Raises:
        ConfigError: a switch model with too few ports, or a transceiver slower than its link.
    """
    return Bill(fabric.hosts, tuple(_switch_tiers(fabric)), tuple(_link_tiers(fabric)))


def links_per_transceiver(transceiver_bps: int | None, rate_bps: int) -> int:
    """Links of this rate that one transceiver carries; 1 if no transceiver is specified.

    Raises:
        ConfigError: a transceiver slower than the link.
    """
    if transceiver_bps is None:
        return 1
    if transceiver_bps < rate_bps:
        words = f"at least the {format_rate(rate_bps)} of a link with optics"
        hint = "name the tier as copper, or a faster transceiver"
        raise ConfigError("transceiver", format_rate(transceiver_bps), words, hint=hint)
    return transceiver_bps // rate_bps


def _switch_tiers(fabric: Fabric) -> list[SwitchTier]:
    links = {kind: _links_of_plane(fabric, kind) for kind in LINK_NAMES}
    ports: dict[SwitchKind, tuple[int, int]] = {
        "t0": (links["nic"], links["t0"]),
        "t1": (links["t0"], links["t1"]),
        "t2": (links["t1"], 0),
    }
    up = {"t0": fabric.t1s, "t1": fabric.t1_uplinks, "t2": 0}
    tiers = []
    for kind, (down_used, up_used) in ports.items():
        number = count(fabric, kind)
        if not number:
            continue
        model = fabric.materials.switches.get(kind)
        down = down_ports(fabric, kind)
        free = None if model is None else _free_ports(fabric, kind, model, down_used, up_used)
        tiers.append(
            SwitchTier(
                tier=kind,
                model=None if model is None else model.name,
                switches_per_plane=number,
                switches=fabric.planes * number,
                ports_down=down,
                ports_up=up[kind],
                ports_used=fabric.planes * (down_used + up_used),
                ports_free=free,
            )
        )
    return tiers


def _free_ports(fabric: Fabric, kind: SwitchKind, model: SwitchModel, down_used: int, up_used: int) -> int:
    """Unused ports of the downward rate on the switches of a tier; all planes."""
    rates = {"t0": (fabric.rates.nic, fabric.rates.t0), "t1": (fabric.rates.t0, fabric.rates.t1)}
    down_bps, up_bps = rates.get(kind, (fabric.rates.t1, 0))
    ups = {"t0": fabric.t1s, "t1": fabric.t1_uplinks, "t2": 0}[kind]
    down = down_ports(fabric, kind)
    if down + ups > model.ports_max or down * down_bps + ups * up_bps > model.capacity_bps:
        needs = f"{down} x {format_rate(down_bps)} down" + (f" and {ups} x {format_rate(up_bps)} up" if ups else "")
        words = f"a model with the ports of a {kind.upper()}: {needs}"
        raise ConfigError(f"switch model of {kind.upper()}", model.name, words, hint="fewer ports, or a larger switch")
    number = count(fabric, kind)
    left_bps = number * model.capacity_bps - down_used * down_bps - up_used * up_bps
    return fabric.planes * min(number * model.ports_max - down_used - up_used, left_bps // down_bps)


def _links_of_plane(fabric: Fabric, kind: LinkKind) -> int:
    if kind == "nic":
        return fabric.hosts
    return fabric.t0s * fabric.t1s if kind == "t0" else fabric.t1s_in_all * fabric.t1_uplinks


def _link_tiers(fabric: Fabric) -> list[LinkTier]:
    tiers = []
    for kind in LINK_NAMES:
        links = _links_of_plane(fabric, kind)
        if not links:
            continue
        rate_bps: int = getattr(fabric.rates, kind)
        copper = kind in fabric.materials.copper
        each = 1 if copper else links_per_transceiver(fabric.materials.transceiver_bps, rate_bps)
        lower, upper = (0, 0) if copper else _transceivers(fabric, kind, each)
        tiers.append(
            LinkTier(kind, rate_bps, fabric.planes * links, "copper" if copper else "fiber", each, lower, upper)
        )
    return tiers


def _transceivers(fabric: Fabric, kind: LinkKind, each: int) -> tuple[int, int]:
    """Transceivers at the lower and the upper ends; links of different nodes never share one."""

    def modules(links: int) -> int:
        return -(-links // each)

    if kind == "nic":
        full, rest = divmod(fabric.hosts, fabric.hosts_per_t0)
        upper = full * modules(fabric.hosts_per_t0) + modules(rest)
        return fabric.hosts * modules(fabric.planes), fabric.planes * upper
    if kind == "t0":
        per_pod = fabric.t0s_per_pod or fabric.t0s
        full, rest = divmod(fabric.t0s, per_pod)
        upper = fabric.t1s * (full * modules(per_pod) + modules(rest))
        return fabric.planes * fabric.t0s * modules(fabric.t1s), fabric.planes * upper
    lower = fabric.t1s_in_all * modules(fabric.t1_uplinks)
    return fabric.planes * lower, fabric.planes * fabric.t2s * modules(fabric.pods)
