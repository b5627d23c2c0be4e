"""Which ranks are on one host, and memory that those share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from openmrc.collectives.sites import Sites

__all__ = ["Host", "hosts_of_ranks", "identify_host"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES = Path("/proc/self/ns/pid")

Host = tuple[str, str, int, int]


def identify_host(name: str) -> Host:
    """What processes have in common that can open each other's memory: boot, process ids, user; and the given name.

    Args:
        name: Parts a machine into several hosts; never joins several machines.
    """
    return name, _BOOT_ID.read_text().strip(), _PROCESSES.stat().st_ino, os.getuid()


def hosts_of_ranks(found: Mapping[int, Sequence[Any] | None]) -> Sites:
    """The ranks of each host, by the lowest rank; who names no host is alone.

    Args:
        found: By rank, what `identify_host` answered there; None: that rank shares nothing.
    """
    hosts: dict[object, list[int]] = {}
    for rank in sorted(found):
        host = found[rank]
        hosts.setdefault(rank if host is None else tuple(host), []).append(rank)
    return tuple(tuple(ranks) for ranks in hosts.values())
