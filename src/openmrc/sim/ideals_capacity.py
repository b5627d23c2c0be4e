"""Capacity of the shared places of a fabric over time: NICs, T0s, pods, less permanent faults.

A place is a set of parallel links with shared traffic: a NIC's ports (up and down), a T0's uplinks (up and down), a
pod's links to the T2s. Its capacity is the sum of its links' rates. A permanent fault takes its share from its start
on: a dead link all of it, a rate cut its part. Faults that end, that come and go, or that lose single packets are
ignored here, which can lower a bound but never invalidates it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from openmrc.fabric import Fault, FaultDirection
from openmrc.fabric.faults import Places
from openmrc.fabric.model import PlaneSettings, Tiers
from openmrc.sim.ops import Array

__all__ = ["PLACES", "BoundFabric", "Capacity", "capacities"]

PLACES = ("host_out", "host_in", "t0_up", "t0_down", "pod_up", "pod_down")
_PPB = 10**9


class BoundFabric(Places, Protocol):
    """Interface of a fabric for the bounds; `openmrc.fabric.Fabric` implements it."""

    @property
    def hosts_per_t0(self) -> int: ...
    @property
    def pods(self) -> int: ...
    @property
    def rates(self) -> Tiers: ...
    @property
    def delays(self) -> Tiers: ...
    @property
    def unlike(self) -> tuple[PlaneSettings, ...]: ...
    @property
    def each_plane(self) -> tuple[PlaneSettings, ...]: ...
    @property
    def header_bytes(self) -> int: ...


@dataclass(frozen=True, eq=False)
class Capacity:
    """Bits per second of the places of one kind: `rate_bps[k]` holds from `start_ps[k]` until the next start."""

    start_ps: Array
    rate_bps: Array

    def finish_ps(self, place: Array, release_ps: Array, bits: Array) -> Array:
        """Earliest time at which `bits` that begin to cross `place` at `release_ps` are through; inf for never."""
        now, left = release_ps.astype(np.float64), bits.astype(np.float64)
        for k, ahead_bps in enumerate(self.rate_bps):
            rate = ahead_bps[place] / 1e12
            with np.errstate(divide="ignore", invalid="ignore"):
                need = np.where(left > 0, left / rate, 0)
            if k + 1 == len(self.rate_bps):
                return np.asarray(now + need)
            span = np.maximum(self.start_ps[k + 1] - now, 0)
            left = np.where(need <= span, 0, left - span * rate)
            now = now + np.minimum(need, span)
        raise AssertionError("a capacity has at least one step")


def capacities(fabric: BoundFabric, faults: Iterable[Fault] = ()) -> dict[str, Capacity]:
    """The capacity of every kind of place (`PLACES`), with permanent faults."""
    lasting = [fault for fault in faults if _takes(fault) is not None]
    starts = sorted({0, *(fault.start_ps for fault in lasting)})
    links = _Links(fabric)
    steps = []
    for start_ps in starts:
        for fault in lasting:
            if fault.start_ps == start_ps:
                links.scale(fault)
        steps.append(links.rates())
    times = np.array(starts, dtype=np.float64)
    return {name: Capacity(times, np.stack([step[name] for step in steps])) for name in PLACES}


def _takes(fault: Fault) -> float | None:
    """The share of a link's rate that a permanent fault leaves; None for every other fault."""
    if fault.duration_ps is not None or fault.period_ps or fault.ev is not None:
        return None
    if fault.kind in ("down", "blackhole"):
        return 0.0
    if fault.kind == "rate":
        return fault.share_ppb / _PPB
    return None


class _Links:
    """The remaining share of every link's rate, by tier and direction (0 up, 1 down)."""

    def __init__(self, fabric: BoundFabric) -> None:
        self._fabric = fabric
        self._nic = np.ones((2, fabric.planes, fabric.hosts))
        self._t0 = np.ones((2, fabric.planes, fabric.t0s, fabric.t1s))
        self._t1 = np.ones((2, fabric.planes, fabric.t1s_in_all, max(fabric.t1_uplinks, 1)))

    def scale(self, fault: Fault) -> None:
        """Takes a fault's share from the links of its places."""
        left = _takes(fault)
        assert left is not None
        for place in fault.target.places(self._fabric):
            both = place.direction is FaultDirection.BOTH
            ways = slice(None) if both else slice(place.direction - 1, place.direction)
            planes = slice(None) if place.plane is None else slice(place.plane, place.plane + 1)
            for links, at in self._touched(place.host, place.t0, place.t1, place.t2):
                view = links[(ways, planes, *at)]
                np.minimum(view, left, out=view)

    def _touched(
        self, host: int | None, t0: int | None, t1: int | None, t2: int | None
    ) -> list[tuple[Array, tuple[slice, slice] | tuple[slice]]]:
        """Links of a place: of a switch all its links, of two switches those between them."""
        fabric, every = self._fabric, slice(None)
        uplinks = fabric.t1_uplinks
        if host is not None:
            return [(self._nic, (_one(host),))]
        if t0 is not None and t1 is not None:
            return [(self._t0, (_one(t0), _one(t1 % fabric.t1s)))]
        if t1 is not None and t2 is not None:
            return [(self._t1, (_one(t1), _one(t2 % uplinks)))]
        if t0 is not None:
            first = t0 * fabric.hosts_per_t0
            return [(self._nic, (slice(first, first + fabric.hosts_per_t0),)), (self._t0, (_one(t0), every))]
        if t1 is not None:
            pod = t1 // fabric.t1s
            t0s = slice(pod * fabric.t0s_per_pod, (pod + 1) * fabric.t0s_per_pod) if fabric.t0s_per_pod else every
            return [(self._t0, (t0s, _one(t1 % fabric.t1s))), (self._t1, (_one(t1), every))]
        if t2 is not None:
            return [(self._t1, (slice(t2 // uplinks, None, fabric.t1s), _one(t2 % uplinks)))]
        return [(self._nic, (every,)), (self._t0, (every, every)), (self._t1, (every, every))]

    def rates(self) -> dict[str, Array]:
        """Bits per second of every place."""
        fabric = self._fabric
        if fabric.unlike:
            return self._rates_of_unlike()
        nic = self._nic.sum(axis=1) * fabric.rates.nic
        t0 = self._t0.sum(axis=(1, 3)) * fabric.rates.t0
        t1 = self._t1.sum(axis=(1, 3)).reshape(2, fabric.pods, -1).sum(axis=2) * fabric.rates.t1
        return dict(zip(PLACES, (*nic, *t0, *t1), strict=True))

    def _rates_of_unlike(self) -> dict[str, Array]:
        tiers = [[getattr(plane.rates, tier) for plane in self._fabric.unlike] for tier in ("nic", "t0", "t1")]
        nic_bps, t0_bps, t1_bps = (np.array(rates, dtype=np.float64)[:, None] for rates in tiers)
        nic = (self._nic * nic_bps).sum(axis=1)
        t0 = (self._t0.sum(axis=3) * t0_bps).sum(axis=1)
        t1 = (self._t1.sum(axis=3) * t1_bps).sum(axis=1).reshape(2, self._fabric.pods, -1).sum(axis=2)
        return dict(zip(PLACES, (*nic, *t0, *t1), strict=True))


def _one(number: int) -> slice:
    return slice(number, number + 1)
