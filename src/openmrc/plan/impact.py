"""Impact of each kind of failure on a NIC and on the fabric, and its expected frequency.

Capacity is the rate that NICs can send to the most distant others, when all of them send. Losses are differences of
maximum flows, which have a closed form in a Clos: all T0s of a pod are alike, and so are its T1s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Literal

from openmrc.fabric.model import Fabric
from openmrc.plan.bill import LINK_NAMES, Bill

__all__ = ["DAYS_PER_YEAR", "Impact", "impacts_of"]

DAYS_PER_YEAR = 365.25
Rated = Literal["link", "transceiver", "t0", "t1", "t2", "nic"]


@dataclass(frozen=True, slots=True)
class Impact:
    """One kind of failure.

    Args:
        failure: Its name: `T0-T1 link`.
        pieces: Number of such pieces in the fabric.
        nics_affected: NICs that lose capacity.
        plane_share_lost: Of an affected NIC's capacity in the plane concerned, 0 to 1.
        nic_share_lost: Of an affected NIC's capacity over all planes, 0 to 1.
        fabric_share_lost: Of the capacity of the whole fabric, 0 to 1.
        failures_per_day: Expected, of all pieces together; None if the file gives no rate.
    """

    failure: str
    pieces: int
    nics_affected: int
    plane_share_lost: float
    nic_share_lost: float
    fabric_share_lost: float
    failures_per_day: float | None


@dataclass(frozen=True)
class _Pod:
    """A pod in one plane, upwards: NICs of each T0, and the failed parts.

    The T1s `0..cut_t1s` have no link to the T0s `0..cut_t0s`, and `lame_up_bps` above them in place of `up_bps`.
    """

    nics: tuple[int, ...]
    nic_bps: int
    link_bps: int
    t1s: int
    up_bps: int | None = None
    cut_t0s: int = 0
    cut_t1s: int = 0
    lame_up_bps: int | None = None

    def flow_bps(self) -> int:
        """Maximum flow from the NICs to above the T1s: the smallest cut, over the number of T0s on the NICs' side."""
        broken = _cheapest_first(self.nics[: self.cut_t0s], self.nic_bps)
        whole = _cheapest_first(self.nics[self.cut_t0s :], self.nic_bps)
        return min(
            cut_broken + cut_whole + self._above(len(broken) - 1 - few, len(whole) - 1 - many)
            for few, cut_broken in enumerate(broken)
            for many, cut_whole in enumerate(whole)
        )

    def _above(self, broken: int, whole: int) -> int:
        """Capacity from these T0s upwards: through each T1 the smaller of its links below and those above."""
        sound_bps, lame_bps = (broken + whole) * self.link_bps, whole * self.link_bps
        if self.up_bps is not None:
            sound_bps = min(sound_bps, self.up_bps)
            lame_bps = min(lame_bps, self.up_bps if self.lame_up_bps is None else self.lame_up_bps)
        return (self.t1s - self.cut_t1s) * sound_bps + self.cut_t1s * lame_bps


def _cheapest_first(nics: Sequence[int], nic_bps: int) -> list[int]:
    """Cost of cutting off the 0, 1, 2, ... T0s with the fewest NICs."""
    return list(accumulate((number * nic_bps for number in sorted(nics)), initial=0))


def impacts_of(fabric: Fabric, bill: Bill) -> tuple[Impact, ...]:
    """All kinds of failure that the fabric can have, links first."""
    per_year = fabric.materials.failures.per_year
    fabric_bps = fabric.planes * sum(_pod(fabric, index).flow_bps() for index in range(fabric.pods))
    found = []
    for failure, rated, pieces, nics, plane_share, planes, lost_bps in _failures(fabric, bill):
        each = None if rated is None else per_year.get(rated)
        found.append(
            Impact(
                failure=failure,
                pieces=pieces,
                nics_affected=nics,
                plane_share_lost=plane_share,
                nic_share_lost=plane_share * planes / fabric.planes,
                fabric_share_lost=lost_bps / fabric_bps,
                failures_per_day=None if each is None else pieces * each / DAYS_PER_YEAR,
            )
        )
    return tuple(found)


_Failure = tuple[str, Rated | None, int, int, float, int, int]  # name, rate, pieces, NICs, plane share, planes, b/s


def _failures(fabric: Fabric, bill: Bill) -> Iterator[_Failure]:
    links = {tier.tier: tier for tier in bill.link_tiers}
    per_t0 = min(fabric.hosts_per_t0, fabric.hosts)
    pod, whole_plane = _pod(fabric, 0), sum(_pod(fabric, index).flow_bps() for index in range(fabric.pods))
    per_pod = sum(pod.nics)

    def fewer_nics(number: int) -> int:
        return pod.flow_bps() - replace(pod, nics=(pod.nics[0] - number, *pod.nics[1:])).flow_bps()

    yield f"{LINK_NAMES['nic']} link", "link", links["nic"].cables, 1, 1.0, 1, fewer_nics(1)
    share, lost = _cut(pod, 1, 1)
    yield f"{LINK_NAMES['t0']} link", "link", links["t0"].cables, per_t0, share, 1, lost
    if "t1" in links:
        share, lost = _lame(fabric, pod, 1)
        yield f"{LINK_NAMES['t1']} link", "link", links["t1"].cables, per_pod, share, 1, lost
    for tier in bill.switch_tiers:
        if tier.tier == "t0":
            yield "T0", "t0", tier.switches, per_t0, 1.0, 1, fewer_nics(per_t0)
        elif tier.tier == "t1":
            share, lost = _cut(pod, len(pod.nics), 1)
            yield "T1", "t1", tier.switches, per_pod, share, 1, lost
        else:
            share, _ = _lame(fabric, pod, 1)
            lost = sum(_lame(fabric, _pod(fabric, index), 1)[1] for index in range(fabric.pods))
            yield "T2", "t2", tier.switches, fabric.hosts, share, 1, lost
    yield "plane", None, fabric.planes, fabric.hosts, 1.0, 1, whole_plane
    yield "NIC", "nic", fabric.hosts, 1, 1.0, fabric.planes, fabric.planes * fewer_nics(1)
    yield from _transceivers(fabric, bill)


def _transceivers(fabric: Fabric, bill: Bill) -> Iterator[_Failure]:
    """A transceiver with the maximum number of links, at each end of each tier with optics."""
    pod = _pod(fabric, 0)
    per_t0, per_pod = pod.nics[0], sum(pod.nics)

    def fewer_nics(number: int) -> int:
        return pod.flow_bps() - replace(pod, nics=(per_t0 - number, *pod.nics[1:])).flow_bps()

    for tier in bill.link_tiers:
        if tier.medium == "copper":
            continue
        each = tier.links_per_transceiver
        if tier.tier == "nic":
            planes, nics = min(each, fabric.planes), min(each, per_t0)
            lost = planes * fewer_nics(1)
            yield "transceiver of a NIC", "transceiver", tier.transceivers_lower, 1, 1.0, planes, lost
            lost = fewer_nics(nics)
            yield "transceiver of a T0, down", "transceiver", tier.transceivers_upper, nics, 1.0, 1, lost
        elif tier.tier == "t0":
            share, lost = _cut(pod, 1, min(each, fabric.t1s))
            yield "transceiver of a T0, up", "transceiver", tier.transceivers_lower, per_t0, share, 1, lost
            t0s = min(each, len(pod.nics))
            share, lost = _cut(pod, t0s, 1)
            nics = sum(pod.nics[:t0s])
            yield "transceiver of a T1, down", "transceiver", tier.transceivers_upper, nics, share, 1, lost
        else:
            share, lost = _lame(fabric, pod, min(each, fabric.t1_uplinks))
            yield "transceiver of a T1, up", "transceiver", tier.transceivers_lower, per_pod, share, 1, lost
            pods = min(each, fabric.pods)
            share, _ = _lame(fabric, pod, 1)
            lost = sum(_lame(fabric, _pod(fabric, index), 1)[1] for index in range(pods))
            nics = sum(sum(_pod(fabric, index).nics) for index in range(pods))
            yield "transceiver of a T2", "transceiver", tier.transceivers_upper, nics, share, 1, lost


def _pod(fabric: Fabric, index: int) -> _Pod:
    per_pod = fabric.t0s_per_pod or fabric.t0s
    t0s = range(index * per_pod, min((index + 1) * per_pod, fabric.t0s))
    nics = tuple(min(fabric.hosts_per_t0, fabric.hosts - t0 * fabric.hosts_per_t0) for t0 in t0s)
    up_bps = fabric.t1_uplinks * fabric.rates.t1 if fabric.t1_uplinks else None
    return _Pod(nics, fabric.rates.nic, fabric.rates.t0, fabric.t1s, up_bps)


def _cut(pod: _Pod, t0s: int, t1s: int) -> tuple[float, int]:
    """Links between the first T0s and the first T1s are gone: share lost by these T0s, and b/s lost by the pod.

    The share refers to the capacity of these T0s while no other sends.
    """
    alone = replace(pod, nics=pod.nics[:t0s])
    before, after = alone.flow_bps(), replace(alone, cut_t0s=t0s, cut_t1s=t1s).flow_bps()
    return 1 - after / before, pod.flow_bps() - replace(pod, cut_t0s=t0s, cut_t1s=t1s).flow_bps()


def _lame(fabric: Fabric, pod: _Pod, uplinks: int) -> tuple[float, int]:
    """One T1 has lost uplinks: share and b/s that the pod loses."""
    left_bps = (fabric.t1_uplinks - uplinks) * fabric.rates.t1
    before, after = pod.flow_bps(), replace(pod, cut_t1s=1, lame_up_bps=left_bps).flow_bps()
    return 1 - after / before, before - after
