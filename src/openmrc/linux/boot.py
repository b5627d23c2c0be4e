"""Identity of the running kernel, by its boot identifier."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

__all__ = ["boot_id", "hashed_boot_id"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """The boot identifier, which every start of the kernel draws anew.

    Raises:
        OSError: `/proc` does not show it.
    """
    return _BOOT_ID.read_text().strip()


@cache
def hashed_boot_id() -> str | None:
    """A hash of it for other hosts, equal on one kernel, as the identifier itself is not for them; None: unknown."""
    try:
        return hashlib.sha256(f"openmrc kernel {boot_id()}".encode()).hexdigest()[:32]
    except OSError:
        return None
