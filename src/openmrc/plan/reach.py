"""Reachability: paths, the longest of them, and the bisection bandwidth."""

from __future__ import annotations

from dataclasses import dataclass

from openmrc.fabric.model import Fabric

__all__ = ["Reach", "bisection_bps", "reach_of"]


@dataclass(frozen=True, slots=True)
class Reach:
    """Paths are counted between two NICs of different hosts.

    `one_hop_nics` are the NICs behind one T0, which reach each other through one switch; `one_hop_hosts` are their
    hosts. A kind of pair that the fabric lacks (one T0, one pod) is None. Oversubscription is the capacity of the ports
    below over that of the ports above; 1 and below is none.
    """

    one_hop_nics: int
    one_hop_hosts: int
    paths_same_t0: int
    paths_same_pod: int | None
    paths_farthest: int
    paths_same_t0_per_plane: int
    paths_same_pod_per_plane: int | None
    paths_farthest_per_plane: int
    longest_path_switches: int
    bisection_bps: int
    bisection_full_bps: int
    oversubscription_t0: float
    oversubscription_t1: float | None

    @property
    def bisection_share(self) -> float:
        """Share of the capacity of the smaller half's NICs; 1 is a full bisection."""
        return self.bisection_bps / self.bisection_full_bps if self.bisection_full_bps else 1.0


def reach_of(fabric: Fabric) -> Reach:
    """The reach of a fabric."""
    one_hop = min(fabric.hosts_per_t0, fabric.hosts)
    pod_t0s = min(fabric.t0s_per_pod or fabric.t0s, fabric.t0s)
    same_pod = fabric.t1s if pod_t0s > 1 else None
    longest = 1 if fabric.t0s == 1 else 3 if fabric.pods == 1 else 5
    farthest = {1: 1, 3: fabric.t1s, 5: fabric.paths}[longest]
    t1_over = None
    if fabric.t1_uplinks:
        t1_over = pod_t0s * fabric.rates.t0 / (fabric.t1_uplinks * fabric.rates.t1)
    return Reach(
        one_hop_nics=one_hop,
        one_hop_hosts=-(-one_hop // fabric.nics_per_host),
        paths_same_t0=fabric.planes,
        paths_same_pod=None if same_pod is None else same_pod * fabric.planes,
        paths_farthest=farthest * fabric.planes,
        paths_same_t0_per_plane=1,
        paths_same_pod_per_plane=same_pod,
        paths_farthest_per_plane=farthest,
        longest_path_switches=longest,
        bisection_bps=bisection_bps(fabric),
        bisection_full_bps=fabric.hosts // 2 * fabric.planes * fabric.rates.nic,
        oversubscription_t0=fabric.hosts_per_t0 * fabric.rates.nic / (fabric.t1s * fabric.rates.t0),
        oversubscription_t1=t1_over,
    )


def bisection_bps(fabric: Fabric) -> int:
    """Maximum rate from the first half of the NICs to the second half at once, over all planes, in b/s.

    NICs are halved by number, so that whole T0s and whole pods are on one side and the highest tier carries the
    traffic. A T0 or pod in the middle carries the traffic between its own NICs.
    """
    half = fabric.hosts // 2
    per_pod = (fabric.t0s_per_pod or fabric.t0s) * fabric.hosts_per_t0
    up_bps = fabric.t1s * fabric.t1_uplinks * fabric.rates.t1
    joined = left = right = 0
    for first in range(0, fabric.hosts, per_pod):
        nics = range(first, min(first + per_pod, fabric.hosts))
        inside, pod_left, pod_right = _pod_flows(fabric, nics, half)
        joined += inside
        if up_bps:
            pod_left, pod_right = min(pod_left, up_bps), min(pod_right, up_bps)
        left += pod_left
        right += pod_right
    return (joined + min(left, right)) * fabric.planes


def _pod_flows(fabric: Fabric, nics: range, half: int) -> tuple[int, int, int]:
    """For one pod and plane: internal flow, and each side's remainder for other pods."""
    up_bps, rate_bps = fabric.t1s * fabric.rates.t0, fabric.rates.nic
    joined = left = right = 0
    for first in range(nics.start, nics.stop, fabric.hosts_per_t0):
        stop = min(first + fabric.hosts_per_t0, nics.stop)
        lefts = max(0, min(stop, half) - first)
        rights = stop - first - lefts
        inside = min(lefts, rights)
        joined += inside * rate_bps
        left += min((lefts - inside) * rate_bps, up_bps)
        right += min((rights - inside) * rate_bps, up_bps)
    through_t1 = min(left, right)
    return joined + through_t1, left - through_t1, right - through_t1
