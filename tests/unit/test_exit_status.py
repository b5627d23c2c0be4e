"""Exit status of other processes: known to ranks that are not their parents, before and after the parent fetched it."""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
import sys

import pytest

from openmrc.collectives.exit_status import ProcessHandle, open_process, status_text

RELEASE = tuple(map(int, re.findall(r"\d+", platform.release())[:2]))
KEPT = RELEASE >= (6, 15)  # Linux keeps the status for holders of descriptors
ENDS = {
    "os.kill(os.getpid(), 9)": "its process was killed by SIGKILL",
    "os.kill(os.getpid(), 11)": "its process was killed by SIGSEGV",
    "os.kill(os.getpid(), 40)": "its process was killed by signal 40",
    "os._exit(3)": "its process ended with exit code 3",
    "pass": "its process ended with exit code 0",
}


def start(end: str) -> tuple[subprocess.Popen[bytes], ProcessHandle]:
    """A process that ends in this way as soon as its input does, and a descriptor of it."""
    program = f"import os, sys; sys.stdin.read(); {end}"
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    handle = open_process(process.pid)
    assert handle is not None
    return process, handle


@pytest.mark.parametrize(("end", "text"), ENDS.items())
def test_the_end_of_a_process_is_known_before_and_after_its_parent_has_fetched_it(end: str, text: str):
    process, handle = start(end)
    assert handle.exit_status() is None
    process.stdin.close()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended and is still there
    assert status_text(handle.exit_status()) == text
    process.wait()
    status = handle.exit_status()
    assert (status_text(status) == text) if KEPT else (status is None)
    handle.close()
    handle.close()


def test_a_child_that_is_forked_lets_the_descriptor_go():
    process, handle = start("pass")
    child = os.fork()
    if child == 0:
        os._exit(0 if handle._descriptor < 0 else 1)
    assert os.waitpid(child, 0)[1] == 0
    process.communicate()
    handle.close()
    assert handle.exit_status() is None


def test_a_process_that_is_gone_has_no_descriptor(monkeypatch: pytest.MonkeyPatch):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert open_process(process.pid) is None
    assert open_process(1 << 63) is None
    monkeypatch.delattr(os, "pidfd_open")
    assert open_process(os.getpid()) is None


def test_statuses_are_those_of_waitpid():
    assert status_text(signal.SIGABRT | 0x80) == "its process was killed by SIGABRT"  # with a core dump
