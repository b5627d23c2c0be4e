"""Processor time of the threads of processes, in the kernel and outside, from `/proc/PID/task`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from openmrc.live.processor import read_times

__all__ = ["ThreadTime", "spent", "thread_times"]

_IO_THREAD = "openmrc-io"  # the first; the others end with a number


@dataclass(frozen=True, slots=True)
class ThreadTime:
    """A thread and the processor time that it has had, in steps of a tick.

    Args:
        end: Which end of the stream its process is.
        thread: Its name; the I/O thread of a device is `openmrc-io`.
        user_cpu_s: Outside the kernel.
        system_cpu_s: In the kernel; some kernels charge interrupts to the thread that they interrupt.
    """

    end: str
    thread: str
    user_cpu_s: float
    system_cpu_s: float

    @property
    def is_io(self) -> bool:
        """Whether it is the I/O thread of a device."""
        return self.thread.startswith(_IO_THREAD)


def thread_times(pids: Mapping[str, int]) -> dict[tuple[str, int], ThreadTime]:
    """All threads of the processes now, by end and thread id; processes and threads that are gone are left out."""
    found = {}
    for end, pid in pids.items():
        for task in Path(f"/proc/{pid}/task").glob("[0-9]*"):
            if (times := read_times(task)) is not None:
                name, cpu_s, system_s = times
                found[end, int(task.name)] = ThreadTime(end, name, cpu_s - system_s, system_s)
    return found


def spent(
    before: Mapping[tuple[str, int], ThreadTime], after: Mapping[tuple[str, int], ThreadTime]
) -> list[ThreadTime]:
    """The time of each thread between two looks, none for a thread that had none."""
    threads = []
    for key, now in after.items():
        was = before.get(key)
        user = now.user_cpu_s - (was.user_cpu_s if was else 0.0)
        system = now.system_cpu_s - (was.system_cpu_s if was else 0.0)
        if user + system > 0:
            threads.append(ThreadTime(now.end, now.thread, user, system))
    return threads
