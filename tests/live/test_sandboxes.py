"""Sandboxes that refuse system calls: devices use older ones, or report the refusal; they never spin."""

from __future__ import annotations

import errno
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from own_ports import UDP_PORT

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(
        platform.machine() not in ("x86_64", "aarch64"), reason="this machine has other system call numbers"
    ),
]
TURNS_MAX = (
    1000  # of a thread that rests for a millisecond at a time; a spinning one would need a hundred times as many
)


def run(error: int, *calls: str) -> dict[str, object]:
    program = Path(__file__).with_name("sandbox_program.py")
    command = [sys.executable, str(program), str(UDP_PORT), str(error), *calls]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("call", ["epoll_pwait2", "sendto", "setsockopt", "sendmmsg", "recvmmsg"])
def test_a_refused_call_is_replaced_by_an_older_one(call: str) -> None:
    result = run(errno.EPERM, call)
    assert result["outcome"] == "written"
    assert result["same"]
    assert result["turns"] < TURNS_MAX


@pytest.mark.parametrize(
    "error", [errno.ENOBUFS, errno.ENETUNREACH, errno.EPERM, errno.EHOSTUNREACH, errno.ECONNREFUSED]
)
def test_a_refusal_to_send_is_named_by_an_event_and_does_not_spin(error: int) -> None:
    result = run(error, "sendto", "sendmsg", "sendmmsg")
    assert result["outcome"] == "WorkError"
    assert result["errno"] == error
    assert f"nothing leaves this side: port 0 (127.0.0.63): {os.strerror(error)}" in str(result["words"])
    assert error in result["refusals"]
    assert result["turns"] < TURNS_MAX


def test_a_refusal_to_receive_is_named_by_an_event_and_does_not_spin() -> None:
    result = run(errno.EACCES, "recvmsg", "recvmmsg")
    assert result["outcome"] != "written"
    assert errno.EACCES in result["refusals"]
    assert result["turns"] < TURNS_MAX
