"""Identity of a host, and the ranks of each host."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openmrc.collectives.sites import Sites
from openmrc.linux.boot import boot_id

__all__ = ["Host", "hosts_of_ranks", "identify_host"]

_PROCESSES = Path("/proc/self/ns/pid")
_NETWORK = Path("/proc/self/ns/net")

Host = tuple[str, str, int, int, int]


def identify_host(name: str) -> Host | None:
    """Identity of the host, equal for processes that can open each other's memory and use the same interfaces.

    It is the given name, the boot identifier, the namespaces of processes and network, and the user. None where `/proc`
    does not show them: such a rank shares memory with no other.

    Args:
        name: Divides one machine into several hosts; never joins several machines.
    """
    try:
        namespaces = _PROCESSES.stat().st_ino, _NETWORK.stat().st_ino
        return name, boot_id(), *namespaces, os.getuid()
    except OSError:
        return None


def hosts_of_ranks(found: Mapping[int, Sequence[Any] | None]) -> Sites:
    """The ranks of each host, ordered by the lowest rank. A rank without a host identity forms a group of its own.

    Args:
        found: Result of `identify_host` at each rank; None: that rank shares no memory.
    """
    hosts: dict[object, list[int]] = {}
    for rank in sorted(found):
        host = found[rank]
        hosts.setdefault(rank if host is None else tuple(host), []).append(rank)
    return tuple(tuple(ranks) for ranks in hosts.values())
