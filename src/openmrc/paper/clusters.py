"""The paper's test beds (protocol D.1), with assumptions for the unpublished parts.

Cluster B's delays are derived from its two published latencies: 1.45 us for two more hops and 5.09 us below one T0 give
0.711 us per link (switch included; 14 ns more are the packet's own time on the wire) and 1.82 us in each NIC.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["NIC_B", "NIC_D", "PFC", "cluster_b", "cluster_c", "cluster_d", "pair", "writes"]

# Latency of one NIC, for a packet in either direction; see above.
NIC_B = {"latency": "1817ns"}
NIC_D = {"latency": "1us"}

# RoCE's requirements: pauses instead of drops, and marks on the last hop too, where an incast meets.
PFC: Mapping[str, Any] = {"pfc": "on", "ecn": {"last_hop": True}}


def cluster_b(*, hosts: int = 4, hosts_per_t0: int = 2, t1s: int = 32, planes: int = 8) -> dict[str, Any]:
    """GB200 hosts with one 800G NIC as 8 x 100G, SRv6 (IPv6 in IPv6), trimming."""
    return {
        "planes": planes,
        "hosts": hosts,
        "hosts_per_t0": hosts_per_t0,
        "t1s": t1s,
        "rate": "100Gbit",
        "delay": "711ns",
        "framing": "srv6",
        "trim": "on",
    }


def cluster_c(*, hosts: int = 64, trim: bool = True) -> dict[str, Any]:
    """64 hosts with 400G NICs as 4 x 100G; T0s of 16 hosts (an assumption), as many T1s: no oversubscription.

    ECMP by hash: the paper's RoCE has no source routes.
    """
    return {
        "planes": 4,
        "hosts": hosts,
        "hosts_per_t0": 16,
        "t1s": 16,
        "rate": "100Gbit",
        "delay": "711ns",
        "framing": "ipv4",
        "routing": "hash",
        "trim": "on" if trim else "off",
    }


def cluster_d(**changes: Any) -> dict[str, Any]:
    """16 servers in 4 racks of 4, 4 spines, one plane of 400G."""
    return {
        "planes": 1,
        "hosts": 16,
        "hosts_per_t0": 4,
        "t1s": 4,
        "rate": "400Gbit",
        "delay": "500ns",
        "framing": "ipv4",
        "routing": "hash",
        **changes,
    }


def writes(
    source: int, destination: int, run_ms: float, rate_gbps: float, *, size: int = 1_000_000, **changes: Any
) -> dict[str, Any]:
    """Continuous writes from one host to another, 16 in flight: more than `rate_gbps` can carry in `run_ms`."""
    count = int(rate_gbps * 1e6 * run_ms / (8 * size)) + 32
    return {
        "source": source,
        "destination": destination,
        "bytes": size,
        "count": count,
        "parallel": 16,
        **changes,
    }


def pair(one: int, other: int, run_ms: float, rate_gbps: float) -> dict[str, Any]:
    """Workload: both hosts write to each other all the time."""
    flows = [writes(one, other, run_ms, rate_gbps), writes(other, one, run_ms, rate_gbps)]
    return {"name": "flows", "flows": flows}
