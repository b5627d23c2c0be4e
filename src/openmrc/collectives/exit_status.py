"""Exit status of other processes of this host, for the ranks that outlive them."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
from contextlib import suppress
from pathlib import Path

from openmrc.forks import keep_from_children

__all__ = ["ProcessHandle", "open_process", "status_text"]

# ioctl PIDFD_GET_INFO of Linux 6.13, and its flag of 6.15 that asks for the exit status. A holder of a descriptor that
# was opened while the process ran gets it even after the parent has fetched it.
_INFO = struct.Struct("=QQ11Ii")  # mask, control group, process and user numbers, exit status
_GET_INFO = 3 << 30 | _INFO.size << 16 | 0xFF << 8 | 11
_INFO_EXIT = 1 << 3
_EXIT_MS = 50  # a process closes its sockets before it counts as ended
_NO_SIGNAL = 0


class ProcessHandle:
    """A descriptor of another process of this host.

    Args:
        process: Its number, in the namespace of this process.

    Raises:
        OSError: there is no such process, or no descriptor is left.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self._descriptor = os.pidfd_open(process)
        keep_from_children(self)

    def exit_status(self) -> int | None:
        """Status as `os.waitpid` returns it, at most 50 ms later; None: the process runs, or Linux does not say.

        Before Linux 6.15 the status is known only until the parent has fetched it.
        """
        if self._descriptor < 0 or not self._ended():
            return None
        status = self._recorded()
        if status is None and (status := self._of_zombie()) is None:
            status = self._recorded()  # the parent has fetched it between the two looks
        return status

    def close(self) -> None:
        """Closes the descriptor. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _leave_to_parent(self) -> None:
        self.close()

    def _ended(self) -> bool:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(_EXIT_MS))

    def _recorded(self) -> int | None:
        """Status that Linux keeps for holders of descriptors, once the parent has fetched it."""
        info = bytearray(_INFO.pack(_INFO_EXIT, *[0] * 13))
        try:
            fcntl.ioctl(self._descriptor, _GET_INFO, info)
        except OSError:  # an older Linux
            return None
        mask, *_, status = _INFO.unpack(info)
        return status if mask & _INFO_EXIT else None

    def _of_zombie(self) -> int | None:
        """Status of a process whose parent has not fetched it: the last field of its line in /proc."""
        try:
            line = Path(f"/proc/{self._process}/stat").read_text()
            signal.pidfd_send_signal(self._descriptor, _NO_SIGNAL)  # else another process may have the number now
            return int(line.split()[-1])
        except (OSError, ValueError):
            return None


def open_process(process: int) -> ProcessHandle | None:
    """Descriptor of a process; None: it is gone, or this system has no such descriptors or none is left."""
    with suppress(AttributeError, OSError, OverflowError):
        return ProcessHandle(process)
    return None


def status_text(status: int) -> str:
    """The end of a process, in words.

    Args:
        status: As `os.waitpid` returns it.
    """
    if not os.WIFSIGNALED(status):
        return f"its process ended with exit code {os.waitstatus_to_exitcode(status)}"
    number = os.WTERMSIG(status)
    try:
        return f"its process was killed by {signal.Signals(number).name}"
    except ValueError:  # real-time signals have no names
        return f"its process was killed by signal {number}"
