"""Search for fabrics: those of given planes and tiers that carry a number of NICs, their materials, and reasons against
others.

A switch has as many ports of a plane's rate as its capacity allows, at most `radix`. T0s divide their ports by the
oversubscription, higher tiers are non-blocking. In a fabric smaller than its switches allow, several links join the
same two switches, so that the higher tiers need fewer of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from openmrc.errors import ConfigError
from openmrc.fabric.materials import Item, SwitchModel
from openmrc.plan.costs import Total, total_of
from openmrc.units import format_rate

__all__ = ["SORTS", "Design", "Infeasible", "Search", "SearchQuery", "Sort", "numbers_of", "search"]

Sort = Literal["switches", "cost", "power"]
SORTS: tuple[Sort, ...] = ("switches", "cost", "power")
GPUS_MAX = 2**24
PLANES_MAX = 64


@dataclass(frozen=True, kw_only=True)
class SearchQuery:
    """Parameters of a search; one NIC per GPU.

    Args:
        gpus: Number of NICs in the fabric.
        planes: Numbers of planes to try.
        tiers: Numbers of tiers to try, 2 or 3.
        nic_bps: Bandwidth of a NIC over all planes.
        switch: Capacity and maximum number of ports of a switch.
        oversubscription: Of the T0s: rate of their NICs over the rate of their uplinks.
        prices: By item, in `currency` per piece.
        powers_watts: By item.
        sort: Sort key of the designs.
    """

    gpus: int
    planes: tuple[int, ...]
    tiers: tuple[int, ...]
    nic_bps: int
    switch: SwitchModel
    oversubscription: Fraction = Fraction(1)
    prices: Mapping[Item, float] = field(default_factory=dict)
    powers_watts: Mapping[Item, float] = field(default_factory=dict)
    currency: str = "USD"
    sort: Sort = "switches"


@dataclass(frozen=True, slots=True)
class Design:
    """A fabric that carries the NICs. Switches of all planes; `parallel_` is the number of links between the same two.

    Transceivers have the NIC's bandwidth, and carry `planes` links. If one switch per plane has a port for every NIC,
    the design has one tier.
    """

    planes: int
    tiers: int
    plane_rate_bps: int
    ports_per_switch: int
    nics_per_t0: int
    uplinks_per_t0: int
    parallel_t0_t1: int
    parallel_t1_t2: int
    pods: int
    t0s: int
    t1s: int
    t2s: int
    cables: int
    transceivers: int
    nics_at_most: int
    longest_path_switches: int
    paths_per_plane: int
    t0_t1_link_lost_plane_share: float | None
    nic_t0_link_lost_nic_share: float
    cost: Total | None
    power: Total | None

    @property
    def switches(self) -> int:
        """Of all tiers and planes."""
        return self.t0s + self.t1s + self.t2s


@dataclass(frozen=True, slots=True)
class Infeasible:
    """A combination that does not carry the NICs, with the reason."""

    planes: int
    tiers: int
    reason: str


@dataclass(frozen=True, slots=True)
class Search:
    """Designs, best first, and infeasible combinations."""

    query: SearchQuery
    designs: tuple[Design, ...]
    infeasible: tuple[Infeasible, ...]


def search(query: SearchQuery) -> Search:
    """Every combination of planes and tiers.

    Raises:
        ConfigError: numbers out of range, planes that do not divide the NIC's rate, a sort without its table.
    """
    _check(query)
    found = [_design(query, planes, tiers) for planes in query.planes for tiers in query.tiers]
    designs = [one for one in found if isinstance(one, Design)]
    designs.sort(key=lambda one: (_weight(one, query.sort), one.switches, one.planes, one.tiers))
    return Search(query, tuple(designs), tuple(one for one in found if isinstance(one, Infeasible)))


def _weight(design: Design, sort: Sort) -> float:
    total = {"cost": design.cost, "power": design.power}.get(sort)
    return float(design.switches) if total is None else total.total


def _check(query: SearchQuery) -> None:
    if not 2 <= query.gpus <= GPUS_MAX:
        raise ConfigError("--gpus", query.gpus, f"2 to {GPUS_MAX:,}")
    for planes in query.planes:
        if not 1 <= planes <= PLANES_MAX:
            raise ConfigError("--planes", planes, f"1 to {PLANES_MAX}, several with commas: 2,4,8")
        if query.nic_bps % planes:
            rate = format_rate(query.nic_bps)
            hint = f"{rate} over {_near(query.nic_bps, planes)} planes is a whole rate"
            raise ConfigError("--planes", planes, f"numbers that divide the NIC's {rate}", hint=hint)
    for tiers in query.tiers:
        if tiers not in (2, 3):
            raise ConfigError("--tiers", tiers, "2, 3 or 2,3")
    if not Fraction(1, 8) <= query.oversubscription <= 64:
        raise ConfigError("--oversubscription", float(query.oversubscription), "0.125 to 64; 1 is non-blocking")
    if query.sort == "cost" and not query.prices:
        raise ConfigError("--sort", "cost", "cost together with prices", hint="--prices FILE with prices:")
    if query.sort == "power" and not query.powers_watts:
        raise ConfigError("--sort", "power", "power together with powers", hint="--prices FILE with powers:")


def _near(nic_bps: int, planes: int) -> int:
    return next(number for number in range(planes - 1, 0, -1) if nic_bps % number == 0)


def _design(query: SearchQuery, planes: int, tiers: int) -> Design | Infeasible:
    rate_bps = query.nic_bps // planes
    ports = query.switch.radix(rate_bps)
    if tiers == 2 and query.gpus <= ports:
        return _made(query, planes, ports, _Clos(query.gpus, 0, 1, 1, 0, 1, 1, 0, ports))
    down, up = _split(ports, query.oversubscription)
    if not (down and up):
        return Infeasible(planes, tiers, f"a switch has {ports} ports of {format_rate(rate_bps)}: too few to divide")
    t0s = -(-query.gpus // down)
    most = down * (ports if tiers == 2 else ports // 2 * ports)
    if query.gpus > most:
        words = f"{tiers} tiers of {ports} ports of {format_rate(rate_bps)} reach {most:,} NICs"
        return Infeasible(planes, tiers, f"{words}, {query.gpus - most:,} fewer than asked")
    if tiers == 3 and t0s <= ports // 2:
        words = "one T0 carries all" if t0s == 1 else f"{t0s} T0s fit in one pod of {ports // 2}"
        return Infeasible(planes, tiers, f"{words}: a third tier would join nothing")
    if tiers == 2:
        parallel = _parallel(up, t0s, ports)
        return _made(query, planes, ports, _Clos(down, up, t0s, parallel, up // parallel, 1, 1, 0, most))
    return _made(query, planes, ports, _three_tiers(ports, down, up, t0s, most))


@dataclass(frozen=True, slots=True)
class _Clos:
    """Of one plane."""

    down: int
    up: int
    t0s: int
    parallel: int
    t1s: int
    pods: int
    parallel_up: int
    t2s: int
    most: int


def _split(ports: int, oversubscription: Fraction) -> tuple[int, int]:
    """Ports down and up of a T0: the maximum number down for the oversubscription."""
    down = int(ports * oversubscription / (1 + oversubscription))
    up = -(-down * oversubscription.denominator // oversubscription.numerator)
    return (down, up) if down + up <= ports else (down - 1, -(-(down - 1) // oversubscription))


def _parallel(links: int, neighbours: int, ports: int) -> int:
    """The maximum number of links to one switch: a divisor of the links that its ports allow for all neighbours."""
    return max(number for number in range(1, max(ports // neighbours, 1) + 1) if links % number == 0)


def _three_tiers(ports: int, down: int, up: int, t0s: int, most: int) -> _Clos:
    """Of the pod sizes, the one with the fewest switches above the T0s, and of these the one with the fewest pods."""
    half = ports // 2
    best: _Clos | None = None
    for size in range(half, 0, -1):
        pods = -(-t0s // size)
        if pods > ports:
            break
        parallel = _parallel(up, size, half)
        t1s, t1_up = up // parallel, size * parallel
        parallel_up = _parallel(t1_up, pods, ports)
        clos = _Clos(down, up, t0s, parallel, t1s * pods, pods, parallel_up, t1s * t1_up // parallel_up, most)
        if best is None or clos.t1s + clos.t2s < best.t1s + best.t2s:
            best = clos
    assert best is not None
    return best


def _transceivers(gpus: int, planes: int, clos: _Clos) -> int:
    """Of the NIC's bandwidth, so that `planes` links share one; links of different switches never do."""

    def spread(links: int, switches: int) -> int:
        return switches * -(-links // (switches * planes)) if switches else 0

    full, rest = divmod(gpus, clos.down)
    first_links, second_links = clos.t0s * clos.up, clos.t2s * clos.pods * clos.parallel_up
    below = full * -(-clos.down // planes) + -(-rest // planes) + spread(first_links, clos.t0s)
    above = spread(first_links, clos.t1s) + spread(second_links, clos.t1s) + spread(second_links, clos.t2s)
    return gpus + planes * (below + above)


def _made(query: SearchQuery, planes: int, ports: int, clos: _Clos) -> Design:
    tiers = 3 if clos.t2s else 2 if clos.t1s else 1
    links = query.gpus + clos.t0s * clos.up + clos.t2s * clos.pods * clos.parallel_up
    transceivers = _transceivers(query.gpus, planes, clos)
    pieces: dict[Item, int] = {
        "nic": query.gpus,
        "t0": planes * clos.t0s,
        "t1": planes * clos.t1s,
        "t2": planes * clos.t2s,
        "transceiver": transceivers,
        "fiber_cable": planes * links,
    }
    pieces = {item: number for item, number in pieces.items() if number}
    return Design(
        planes=planes,
        tiers=tiers,
        plane_rate_bps=query.nic_bps // planes,
        ports_per_switch=ports,
        nics_per_t0=clos.down,
        uplinks_per_t0=clos.up,
        parallel_t0_t1=clos.parallel,
        parallel_t1_t2=clos.parallel_up,
        pods=clos.pods,
        t0s=planes * clos.t0s,
        t1s=planes * clos.t1s,
        t2s=planes * clos.t2s,
        cables=planes * links,
        transceivers=transceivers,
        nics_at_most=clos.most,
        longest_path_switches=2 * tiers - 1,
        paths_per_plane=(1, clos.up, clos.t2s * clos.parallel_up)[tiers - 1],
        t0_t1_link_lost_plane_share=1 / clos.up if clos.up else None,
        nic_t0_link_lost_nic_share=1 / planes,
        cost=total_of(query.prices, pieces, query.currency),
        power=total_of(query.powers_watts, pieces, "W"),
    )


def numbers_of(text: str, option: str) -> tuple[int, ...]:
    """The numbers of `2,4,8`, each once, in order.

    Raises:
        ConfigError: an item that is not a whole number.
    """
    words: Iterable[str] = (word.strip() for word in text.split(","))
    found = []
    for word in words:
        if not word.isascii() or not word.isdecimal():
            raise ConfigError(option, text, "whole numbers with commas, such as 2,4,8")
        found.append(int(word))
    return tuple(dict.fromkeys(found))
