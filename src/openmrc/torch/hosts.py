"""Ranks that share a host, determined through the store before connecting, and their use of shared memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from openmrc.collectives.rendezvous import Rendezvous
from openmrc.errors import ConfigError
from openmrc.linux.boot import boot_id
from openmrc.variables import HOST, SHARED_MEMORY

__all__ = ["Neighbours", "meet", "sharing"]

_NAMESPACE = Path("/proc/self/ns/net")


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The ranks of a job, by host.

    Args:
        own_index: Number of ranks on this host with a lower number.
        shared: Some host has more than one rank.
        all_here: This host has all of them.
    """

    own_index: int
    shared: bool
    all_here: bool


def meet(meeting: Rendezvous, rank: int, size: int) -> Neighbours:
    """Ranks that share a host: network namespaces count as hosts, as ports do not cross them.

    Args:
        meeting: Of this job.
        rank: Own number.
        size: Number of ranks.

    Raises:
        PeerError, TimeoutError: as `Rendezvous.gather`.
    """
    own = json.dumps([boot_id(), _NAMESPACE.stat().st_ino])
    meeting.publish("host", own)
    found = meeting.gather("host", [other for other in range(size) if other != rank]) | {rank: own}
    hosts = [found[other] for other in range(size)]
    return Neighbours(
        own_index=hosts[:rank].count(own), shared=len(set(hosts)) < size, all_here=hosts.count(own) == size
    )


def sharing(environment: Mapping[str, str]) -> tuple[bool, str]:
    """True if ranks of one host share memory, and the name of this host if one machine is divided into several.

    Args:
        environment: Of the process.

    Raises:
        ConfigError: a value other than yes or no, or a name without effect.
    """
    wanted, name = environment.get(SHARED_MEMORY, "1"), environment.get(HOST, "")
    if wanted not in ("0", "1"):
        raise ConfigError(SHARED_MEMORY, wanted, "1, the default: ranks of one host share memory; 0: they do not")
    if name and wanted == "0":
        raise ConfigError(HOST, name, f"nothing, where {SHARED_MEMORY}=0")
    return wanted == "1", name
