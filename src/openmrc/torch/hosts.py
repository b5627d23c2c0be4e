"""Which ranks share a host, asked through the store before anything is connected."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Neighbours", "meet"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/net")


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The ranks of a job, by host.

    Args:
        own_index: How many ranks with a lower number are on this host.
        shared: Some host has more than one rank.
        all_here: This host has all of them.
    """

    own_index: int
    shared: bool
    all_here: bool


def meet(store: Any, key: str, rank: int, size: int) -> Neighbours:
    """Who shares a host: network namespaces count as hosts, as ports do not cross them.

    Args:
        store: Anything with `set` and a blocking `get`.
        key: Of this job, not used before.
        rank: Own number.
        size: How many ranks there are.
    """
    store.set(f"{key}/host/{rank}", json.dumps([_BOOT_ID.read_text().strip(), _NAMESPACE.stat().st_ino]))
    hosts = [tuple(json.loads(store.get(f"{key}/host/{other}"))) for other in range(size)]
    own = hosts[rank]
    return Neighbours(
        own_index=hosts[:rank].count(own), shared=len(set(hosts)) < size, all_here=hosts.count(own) == size
    )
