"""Hosts that have been up for months: 2^63 picoseconds of monotonic clock are 106.75 days."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from own_ports import UDP_PORT

pytestmark = [
    pytest.mark.live,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare"),
]
OVERFLOW_S = 2**63 / 10**12


def run_at(offset_s: int, until_s: float) -> dict[str, float]:
    """The program's result with `offset_s` added to the monotonic clock."""
    program = Path(__file__).with_name("clock_program.py")
    command = [sys.executable, str(program), str(UDP_PORT), str(until_s)]
    unshare = ["unshare", "--time", "--fork", "--kill-child", "--monotonic", str(offset_s)]
    done = subprocess.run([*unshare, *command], capture_output=True, text=True, check=False, timeout=40)
    assert done.returncode == 0, done.stderr
    result: dict[str, float] = json.loads(done.stdout)
    return result


def assert_healthy(result: dict[str, float]) -> None:
    assert result["writes"] > 0
    assert result["wrong"] == 0
    assert result["event_in_time"], "events have the time of time.monotonic_ns()"


def test_transfers_go_on_while_the_monotonic_clock_passes_106_days() -> None:
    for lead_s in (2, 8, 25):  # time for Python to start, which takes longer on a busy machine
        offset = int(OVERFLOW_S - time.clock_gettime(time.CLOCK_MONOTONIC)) - lead_s
        result = run_at(offset, OVERFLOW_S + 0.2)
        assert_healthy(result)
        if result["began"] < OVERFLOW_S:
            break
    assert result["began"] < OVERFLOW_S < result["ended"], "the clock passed the limit in the middle"


@pytest.mark.parametrize("days", [0, 107, 20_000])
def test_a_device_opens_on_a_host_that_has_been_up_for_long(days: int) -> None:
    assert_healthy(run_at(days * 86_400, 0))


def test_a_device_outlives_the_range_of_its_engines_clock() -> None:
    """The engine's clock is first set back after a second of life, while data flows."""
    for span_s in (2.5, 8, 25):  # time for Python to start, which takes longer on a busy machine
        result = run_at(0, time.clock_gettime(time.CLOCK_MONOTONIC) + span_s)
        assert_healthy(result)
        if result["rebases"] >= 1:
            break
    assert result["rebases"] >= 1
