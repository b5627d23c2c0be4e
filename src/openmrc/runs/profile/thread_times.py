"""Processor time of the threads of processes, in the kernel and outside, from `/proc/PID/task`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from openmrc.runs.processes.processor_time import read_times

__all__ = ["ThreadTime", "spent", "thread_times"]

_IO_THREAD = "openmrc-io"  # the first; the others end with a number


@dataclass(frozen=True, slots=True)
class ThreadTime:
    """A thread and its processor time, in steps of a tick.

    Args:
        end: End of the stream to which its process belongs.
        thread: Its name; the I/O thread of a device is `openmrc-io`.
        user_cpu_s: Outside the kernel.
        system_cpu_s: In the kernel; some kernels charge interrupts to the interrupted thread.
    """

    end: str
    thread: str
    user_cpu_s: float
    system_cpu_s: float

    @property
    def is_io(self) -> bool:
        """True for the I/O thread of a device."""
        return self.thread.startswith(_IO_THREAD)


def thread_times(pids: Mapping[str, int]) -> dict[tuple[str, int], ThreadTime]:
    """All current threads of the processes, by end and thread id; ended processes and threads are omitted."""
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
    """The time of each thread between two snapshots, omitting threads without any."""
    threads = []
    for key, now in after.items():
        was = before.get(key)
        user = now.user_cpu_s - (was.user_cpu_s if was else 0.0)
        system = now.system_cpu_s - (was.system_cpu_s if was else 0.0)
        if user + system > 0:
            threads.append(ThreadTime(now.end, now.thread, user, system))
    return threads
