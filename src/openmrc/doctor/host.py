"""Files of /proc and /sys, below a root that may differ from the machine's own."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Host"]


@dataclass(frozen=True, slots=True)
class Host:
    """Source of the kernel's values for the checks.

    Args:
        root: Folder that holds `proc`, `sys` and `etc`.
        processors: Numbers of the processors that this process may run on.
    """

    root: Path = Path("/")
    processors: frozenset[int] = field(default_factory=lambda: frozenset(os.sched_getaffinity(0)))

    def text(self, path: str) -> str | None:
        """The file's text without surrounding white space; None if it is missing or not readable."""
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def number(self, path: str) -> int | None:
        """The first whole number in the file; None: there is none."""
        words = (self.text(path) or "").split()
        return int(words[0]) if words and words[0].lstrip("-").isdigit() else None

    def sysctl(self, name: str) -> int | None:
        """A kernel setting by its name with slashes: "net/core/rmem_max"."""
        return self.number(f"proc/sys/{name}")
