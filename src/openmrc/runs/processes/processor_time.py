"""Processor time of the whole machine, the kernel's work in interrupts included, and of processes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["MachineTime", "ProcessesTime", "machine_cpu_s", "read_times", "seconds_per_gb"]

_STAT = Path("/proc/stat")
_TICKS = os.sysconf("SC_CLK_TCK")


class MachineTime:
    """Processor time that the machine spends inside a `with` block, other programs included.

    Attributes:
        seconds: Of all processors together, after the block; None if the kernel does not report it.
        idle_share: Share of the processors' time that was idle; None if unknown.
    """

    seconds: float | None = None
    idle_share: float | None = None

    def __enter__(self) -> Self:
        self._before = _machine_times()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        after = _machine_times()
        if self._before is None or after is None:
            return
        busy_s, idle_s, total_s = (late - early for early, late in zip(self._before, after, strict=True))
        self.seconds = busy_s
        self.idle_share = idle_s / total_s if total_s > 0 else None

    def per_gb(self, count_bytes: float) -> float | None:
        """Seconds per 1e9 of these bytes; None if the time is unknown, or there are no bytes."""
        return seconds_per_gb(self.seconds, count_bytes)


class ProcessesTime:
    """Processor time of some processes from the creation of this object; ended threads count, children do not.

    Args:
        pids: The processes.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self._before_s = {pid: found[1] for pid in pids if (found := read_times(Path(f"/proc/{pid}"))) is not None}

    def seconds(self) -> float | None:
        """Sum over all of them so far; None if one has ended, since its time is then unknown."""
        total_s = 0.0
        for pid, before_s in self._before_s.items():
            found = read_times(Path(f"/proc/{pid}"))
            if found is None:
                return None
            total_s += found[1] - before_s
        return total_s


def read_times(folder: Path) -> tuple[str, float, float] | None:
    """Name, processor time, and of this the time in the kernel, of a process or thread, by its folder in `/proc`.

    Returns:
        Times in seconds, in steps of a tick; None where it is gone.
    """
    try:
        text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name is in parentheses, and may hold any character.
    words = text[text.rindex(")") + 2 :].split()
    user, system = int(words[11]) / _TICKS, int(words[12]) / _TICKS
    return text[text.index("(") + 1 : text.rindex(")")], user + system, system


def seconds_per_gb(seconds: float | None, count_bytes: float) -> float | None:
    """Seconds per 1e9 bytes; None if the time is unknown, or there are no bytes."""
    return None if seconds is None or not count_bytes else seconds / (count_bytes / 1e9)


def machine_cpu_s() -> float | None:
    """Processor time of all programs and of the kernel so far, in seconds; None if the kernel does not report it.

    Counts user, nice, system, irq and softirq of `/proc/stat`, in steps of a tick.
    """
    times = _machine_times()
    return None if times is None else times[0]


def _machine_times() -> tuple[float, float, float] | None:
    """Busy time, idle time, and the sum of these and of the time that a hypervisor took, in seconds."""
    try:
        words = _STAT.read_text(encoding="ascii").split("\n", 1)[0].split()
        user, nice, system, idle, waiting, irq, softirq, stolen = (int(word) for word in words[1:9])
    except (OSError, ValueError):
        return None
    busy, idle = user + nice + system + irq + softirq, idle + waiting
    return busy / _TICKS, idle / _TICKS, (busy + idle + stolen) / _TICKS
