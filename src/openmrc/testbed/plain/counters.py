"""Counters of an ordinary network's FIFOs."""

from __future__ import annotations

import json
import re
import subprocess

__all__ = ["fifo_drops"]

_PORT = re.compile(r"^p(\d+)h(\d+)$")


def fifo_drops(switch: str) -> dict[tuple[int, int], int]:
    """Packets dropped by the FIFO of each (plane, host) in the switch's namespace."""
    done = subprocess.run(
        ("tc", "-n", switch, "-s", "-j", "qdisc", "show"), capture_output=True, text=True, timeout=30, check=True
    )
    found = {}
    for queue in json.loads(done.stdout):
        match = _PORT.match(queue.get("dev", ""))
        if match and queue["kind"] == "bfifo":
            found[int(match.group(1)), int(match.group(2))] = int(queue["drops"])
    return found
