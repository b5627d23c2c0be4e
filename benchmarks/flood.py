"""Goodput between two processes while EV probes flood a port of one of them.

    python benchmarks/flood.py [--repeats 5] [--only CASE ...] [--json FILE]

One process floods a port of the receiving device with EV probes, at the maximum rate of one processor and at most
300,000 per second, from an address of its own (`stranger`) or from that of the sender (`peer`), over loopback. The
control is the same flood at a closed port of the same address: it takes as much processor time, but does not reach the
device.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from _cases import Repeat, run_cases

from openmrc.runs.bench.direct_pair import run_direct
from openmrc.runs.bench.rows import Row, row
from openmrc.runs.run_plan import RunPlan, loopback_addresses

FLOODER = Path(__file__).with_name("_flooder.py")
PLAN = RunPlan(planes=1, rate_bps=0, seconds=3.0, message_bytes=1 << 20)
UDP_PORT = 4791
CLOSED_PORT = 4790
RATE_PER_S = 300_000
STRANGER = "127.1.77.77"


@contextmanager
def flood(source: str, destination: str, port: int, rates: list[float]) -> Iterator[None]:
    """A flood for the duration of the block; its rate per second is appended to `rates`."""
    settings = {
        "source": source, "destination": destination, "port": port, "answer_port": UDP_PORT, "rate_per_s": RATE_PER_S,
    }  # fmt: skip
    command = [sys.executable, str(FLOODER), json.dumps(settings)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.stdin.close()
            rates.append(float(process.stdout.readline()))


def measure(seed: int, source: str | None, port: int) -> dict[str, Any]:
    """One transfer, flooded from `source` unless None."""
    rates: list[float] = []
    with ExitStack() as stack:
        if source is not None:
            stack.enter_context(flood(source, loopback_addresses(2, 1)[1][0], port, rates))
        result = run_direct(replace(PLAN, seed=seed))
    return {**result, "probes_per_s": rates[0] if rates else 0.0}


def flooded(repeat: Repeat, case: str, source: str) -> Iterator[Row]:
    free = repeat(lambda seed: measure(seed, None, 0))
    control = repeat(lambda seed: measure(seed, source, CLOSED_PORT))
    results = repeat(lambda seed: measure(seed, source, UDP_PORT))
    yield row(case, "goodput without a flood", [one["goodput_gbps"] for one in free], "Gb/s")
    yield row(case, "goodput, closed port flooded", [one["goodput_gbps"] for one in control], "Gb/s")
    yield row(case, "goodput", [one["goodput_gbps"] for one in results], "Gb/s")
    share = [one["goodput_gbps"] / other["goodput_gbps"] for one, other in zip(results, control, strict=True)]
    yield row(case, "goodput of closed port flooded", share, "", ">= 0.6")
    yield row(case, "probes sent", [one["probes_per_s"] for one in results], "per s")
    yield row(case, "retransmitted", [one["retransmitted_packets"] / one["sent_packets"] for one in results], "")
    wrong = [float(one["error"] is not None or not one["content_ok"]) for one in results]
    yield row(case, "errors", wrong, "", "== 0")


CASES: dict[str, Callable[[Repeat], Iterator[Row]]] = {
    "stranger": lambda repeat: flooded(repeat, "probes of a stranger, loopback", STRANGER),
    "peer": lambda repeat: flooded(repeat, "probes in the peer's name, loopback", loopback_addresses(2, 1)[0][0]),
}


if __name__ == "__main__":
    try:
        sys.exit(run_cases("flood", "Goodput under floods of probes.", CASES, repeats=5))
    except KeyboardInterrupt:
        sys.exit(130)
