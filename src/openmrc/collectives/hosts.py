"""Identity of a host, the ranks of each host, and machines with more ranks than processors."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from openmrc.collectives.sites import Sites
from openmrc.linux.boot import boot_id, hashed_boot_id

__all__ = ["Host", "Machine", "any_crowded", "hosts_of_ranks", "identify_host", "identify_machine"]

_PROCESSES = Path("/proc/self/ns/pid")
_NETWORK = Path("/proc/self/ns/net")

Host = tuple[str, str, int, int, int]
Machine = tuple[str, int]
"""A hash of the boot identifier, and the number of processors."""


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


def identify_machine() -> Machine | None:
    """The machine, which several hosts may share, as containers do; None: unknown."""
    kernel, processors = hashed_boot_id(), os.cpu_count()
    return None if kernel is None or processors is None else (kernel, processors)


def any_crowded(machines: Iterable[Machine | None]) -> bool:
    """True if a machine has more ranks than processors, so that the total of all their work counts.

    Args:
        machines: Result of `identify_machine` at each rank.
    """
    ranks = Counter(machine for machine in machines if machine is not None)
    return any(count > processors for (_, processors), count in ranks.items())
