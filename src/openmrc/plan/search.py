"""What-if: which fabrics of given planes and tiers carry so many NICs, what they take, and why others do not exist.

A switch has as many ports of a plane's rate as its capacity allows, `radix` at most. T0s divide their ports by the
oversubscription, higher tiers are non-blocking. Where a fabric is smaller than its switches allow, several links join
the same two switches, so that the higher tiers need fewer of them.
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

__all__ = ["SORTS", "Design", "Infeasible", "Search", "Sort", "Wish", "numbers_of", "search"]

Sort = Literal["switches", "cost", "power"]
SORTS: tuple[Sort, ...] = ("switches", "cost", "power")
GPUS_MAX = 2**24
PLANES_MAX = 64


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is asked for; one NIC per GPU.

    Args:
        gpus: How many NICs the fabric must have.
        planes: Numbers of planes to try.
        tiers: Numbers of tiers to try, 2 or 3.
        nic_bps: Bandwidth of a NIC over all planes.
        switch: Capacity of a switch and the most ports it can have.
        oversubscription: Of the T0s: what their NICs send over what their uplinks carry.
        prices: By item, in `currency` a piece.
        powers_watts: By item.
        sort: What designs are sorted by.
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
    """A fabric that carries the NICs. Switches of all planes; `parallel_` says how many links join the same two.

    Transceivers are those of the NIC's bandwidth, and carry `planes` links. Where one switch per plane has a port for
    every NIC, the design has one tier.
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
    """A combination that does not carry the NICs, and why."""

    planes: int
    tiers: int
    reason: str


@dataclass(frozen=True, slots=True)
class Search:
    """Designs, best first, and what cannot be."""

    wish: Wish
    designs: tuple[Design, ...]
    infeasible: tuple[Infeasible, ...]


def search(wish: Wish) -> Search:
    """Every combination of planes and tiers.

    Raises:
        ConfigError: numbers out of range, planes that do not divide the NIC's rate, a sort without its table.
    """
    _check(wish)
    found = [_design(wish, planes, tiers) for planes in wish.planes for tiers in wish.tiers]
    designs = [one for one in found if isinstance(one, Design)]
    designs.sort(key=lambda one: (_weight(one, wish.sort), one.switches, one.planes, one.tiers))
    return Search(wish, tuple(designs), tuple(one for one in found if isinstance(one, Infeasible)))


def _weight(design: Design, sort: Sort) -> float:
    total = {"cost": design.cost, "power": design.power}.get(sort)
    return float(design.switches) if total is None else total.total


def _check(wish: Wish) -> None:
    if not 2 <= wish.gpus <= GPUS_MAX:
        raise ConfigError("--gpus", wish.gpus, f"2 to {GPUS_MAX:,}")
    for planes in wish.planes:
        if not 1 <= planes <= PLANES_MAX:
            raise ConfigError("--planes", planes, f"1 to {PLANES_MAX}, several with commas: 2,4,8")
        if wish.nic_bps % planes:
            rate = format_rate(wish.nic_bps)
            hint = f"{rate} over {_near(wish.nic_bps, planes)} planes is a whole rate"
            raise ConfigError("--planes", planes, f"numbers that divide the NIC's {rate}", hint=hint)
    for tiers in wish.tiers:
        if tiers not in (2, 3):
            raise ConfigError("--tiers", tiers, "2, 3 or 2,3")
    if not Fraction(1, 8) <= wish.oversubscription <= 64:
        raise ConfigError("--oversubscription", float(wish.oversubscription), "0.125 to 64; 1 is non-blocking")
    if wish.sort == "cost" and not wish.prices:
        raise ConfigError("--sort", "cost", "cost together with prices", hint="--prices FILE with prices:")
    if wish.sort == "power" and not wish.powers_watts:
        raise ConfigError("--sort", "power", "power together with powers", hint="--prices FILE with powers:")


def _near(nic_bps: int, planes: int) -> int:
    return next(number for number in range(planes - 1, 0, -1) if nic_bps % number == 0)


def _design(wish: Wish, planes: int, tiers: int) -> Design | Infeasible:
    rate_bps = wish.nic_bps // planes
    ports = wish.switch.radix(rate_bps)
    if tiers == 2 and wish.gpus <= ports:
        return _made(wish, planes, ports, _Clos(wish.gpus, 0, 1, 1, 0, 1, 1, 0, ports))
    down, up = _split(ports, wish.oversubscription)
    if not (down and up):
        return Infeasible(planes, tiers, f"a switch has {ports} ports of {format_rate(rate_bps)}: too few to divide")
    t0s = -(-wish.gpus // down)
    most = down * (ports if tiers == 2 else ports // 2 * ports)
    if wish.gpus > most:
        words = f"{tiers} tiers of {ports} ports of {format_rate(rate_bps)} reach {most:,} NICs"
        return Infeasible(planes, tiers, f"{words}, {wish.gpus - most:,} fewer than asked")
    if tiers == 3 and t0s <= ports // 2:
        words = "one T0 carries all" if t0s == 1 else f"{t0s} T0s fit in one pod of {ports // 2}"
        return Infeasible(planes, tiers, f"{words}: a third tier would join nothing")
    if tiers == 2:
        parallel = _parallel(up, t0s, ports)
        return _made(wish, planes, ports, _Clos(down, up, t0s, parallel, up // parallel, 1, 1, 0, most))
    return _made(wish, planes, ports, _three_tiers(ports, down, up, t0s, most))


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
    """Ports down and up of a T0: as many down as the oversubscription allows."""
    down = int(ports * oversubscription / (1 + oversubscription))
    up = -(-down * oversubscription.denominator // oversubscription.numerator)
    return (down, up) if down + up <= ports else (down - 1, -(-(down - 1) // oversubscription))


def _parallel(links: int, neighbours: int, ports: int) -> int:
    """The most links to the same switch: a divisor of the links that its ports allow for all neighbours."""
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


def _made(wish: Wish, planes: int, ports: int, clos: _Clos) -> Design:
    tiers = 3 if clos.t2s else 2 if clos.t1s else 1
    links = wish.gpus + clos.t0s * clos.up + clos.t2s * clos.pods * clos.parallel_up
    transceivers = _transceivers(wish.gpus, planes, clos)
    pieces: dict[Item, int] = {
        "nic": wish.gpus,
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
        plane_rate_bps=wish.nic_bps // planes,
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
        cost=total_of(wish.prices, pieces, wish.currency),
        power=total_of(wish.powers_watts, pieces, "W"),
    )


def numbers_of(text: str, option: str) -> tuple[int, ...]:
    """The numbers of `2,4,8`, each once, in order.

    Raises:
        ConfigError: something that is no whole number.
    """
    words: Iterable[str] = (word.strip() for word in text.split(","))
    found = []
    for word in words:
        if not word.isascii() or not word.isdecimal():
            raise ConfigError(option, text, "whole numbers with commas, such as 2,4,8")
        found.append(int(word))
    return tuple(dict.fromkeys(found))
