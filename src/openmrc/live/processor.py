"""Processor time of the whole machine, the kernel's work in interrupts included."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["MachineTime", "machine_cpu_s", "seconds_per_gb"]

_STAT = Path("/proc/stat")


class MachineTime:
    """Processor time that the machine spends inside a `with` block, other programs included.

    Attributes:
        seconds: Of all processors together, after the block; None where the kernel does not tell.
    """

    seconds: float | None = None

    def __enter__(self) -> Self:
        self._before_s = machine_cpu_s()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        after_s = machine_cpu_s()
        if self._before_s is not None and after_s is not None:
            self.seconds = after_s - self._before_s

    def per_gb(self, count_bytes: float) -> float | None:
        """Seconds for each 1e9 of these bytes; None where the time is not known, or there are no bytes."""
        return seconds_per_gb(self.seconds, count_bytes)


def seconds_per_gb(seconds: float | None, count_bytes: float) -> float | None:
    """Seconds for each 1e9 bytes; None where the time is not known, or there are no bytes."""
    return None if seconds is None or not count_bytes else seconds / (count_bytes / 1e9)


def machine_cpu_s() -> float | None:
    """Processor time of all programs and of the kernel so far, in seconds; None where the kernel does not tell.

    Counts user, nice, system, irq and softirq of `/proc/stat`, in steps of a tick.
    """
    try:
        words = _STAT.read_text(encoding="ascii").split("\n", 1)[0].split()
        user, nice, system, _idle, _waiting, irq, softirq = (int(word) for word in words[1:8])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
