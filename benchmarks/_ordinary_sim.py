"""Networks that do not mark ECN, with planes that may differ, in the simulator: the rows that need no kernel.

Every named row is a scenario in scenarios/ordinary, which `openmrc sim run` repeats. The others are networks drawn by
seed, which a live test bed can draw as well: `draw`. A stream is judged from 1 s to 4 s of simulated time, beside the
bytes that its links can carry there, and beside the best plane alone.

    python benchmarks/_ordinary_sim.py [--only SCENARIO ...] [--networks 40] [--signal auto] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from openmrc import _native
from openmrc.cli.output_files import file_argument
from openmrc.fabric import PlaneSettings, make_fabric
from openmrc.sim import load_scenario, make_scenario
from openmrc.sim.native_config import native_config, native_faults
from openmrc.sim.run import build_graph, ideals_of
from openmrc.sim.scenario import Scenario

__all__ = ["DrawnPlane", "draw", "rows"]

SCENARIOS = Path(__file__).resolve().parent.parent / "scenarios" / "ordinary"
MRC_BYTES = 44  # BTH, METH, TSETH, RETH, ICRC of a data packet
PAYLOAD = 1408  # of an Ethernet frame of 1,500 bytes
ETHERNET_BYTES = 14
MESSAGE_BYTES, OUTSTANDING = 256 * 1024, 16
SECOND = 10**12
STEP_PS = 1_930_000_000  # no multiple of the networks' round trips
T0_UP, T1_DOWN = 2, 3  # kinds of links that queue, in the order of the native fabric
RATES_BPS, FIFO_BYTES, ROUND_TRIPS_US, PLANES_MAX = (10**7, 10**10), (20_000, 4_000_000), (50, 50_000), 8


@dataclass(frozen=True)
class DrawnPlane:
    """One plane of a drawn network: its rate, its FIFO, and its round trip while nothing waits."""

    rate_bps: int
    fifo_bytes: int
    round_trip_us: int

    def settings(self) -> dict[str, Any]:
        """As a plane of a fabric file: a quarter of the way for each of four links, the bottleneck behind the NIC."""
        nic_bps = max(self.rate_bps, 10**10)
        return {
            "rate": {"nic": f"{nic_bps}bit", "t0": f"{self.rate_bps}bit"},
            "delay": f"{self.round_trip_us * 1000 // 8}ns",
            "queue_bytes": self.fifo_bytes,
        }


def draw(seed: int, *, rate_max_bps: int = RATES_BPS[1]) -> tuple[DrawnPlane, ...]:
    """The planes of a network, the same for the same seed; `rate_max_bps` if the limit is below 10 Gb/s."""
    rng = random.Random(f"ordinary network {seed}")

    def between(low: int, high: int) -> int:
        return round(math.exp(rng.uniform(math.log(low), math.log(high))))

    return tuple(
        DrawnPlane(between(RATES_BPS[0], rate_max_bps), between(*FIFO_BYTES), between(*ROUND_TRIPS_US))
        for _ in range(rng.randint(1, PLANES_MAX))
    )


@dataclass(frozen=True)
class Window:
    """A time of a run, and the planes available in it, each with the share of its rate."""

    name: str
    start_s: float
    end_s: float
    shares: tuple[float, ...] = ()


# Judged parts of a run with a fault, beside the stream before it: from half a second into it, and after the repair.
FAULTED = {
    "quarter_and_return": (
        Window("at a quarter", 2.5, 4, (0.25,)),
        Window("0.5 to 1 s after the return", 4.5, 5),
        Window("1 to 2 s after the return", 5, 6),
    ),
    "silent_plane": (
        Window("while silent", 1, 5, (0,)),
        Window("0.5 s after it fell silent", 1.5, 5, (0,)),
        Window("1 to 2 s after the repair", 6, 7),
    ),
}
STREAM = (Window("", 1, 4),)


def rows(
    *, only: Sequence[str] = (), seeds: Sequence[int] = range(1, 41), signal: str = "auto"
) -> Iterator[dict[str, Any]]:
    """Every row of the simulated half, as soon as it is measured; units are in the keys.

    Args:
        only: Names of scenarios in scenarios/ordinary; none: all of them.
        seeds: Of the random networks.
        signal: MRC's signal of congestion, as in a scenario's transport.
    """
    for path in sorted(SCENARIOS.glob("*.yaml")):
        if only and path.stem not in only:
            continue
        scenario = load_scenario(path, {"transports": {"mrc": {"signal": signal}}})
        finite = path.stem in ("incast_8", "all_to_all_8")
        for row in _to_the_end(scenario) if finite else _judged(scenario, FAULTED.get(path.stem, STREAM)):
            yield {"network": path.stem, "title": scenario.name, **row}
    for seed in seeds:
        for row in _judged(drawn_scenario(draw(seed), seed, signal), STREAM):
            yield {"network": f"drawn {seed}", "title": words_of(draw(seed)), **row}


def words_of(planes: Sequence[DrawnPlane]) -> str:
    """A drawn network in a line: Mb/s, KB of FIFO, ms of round trip of every plane."""
    return " + ".join(
        f"{plane.rate_bps / 1e6:.0f}/{plane.fifo_bytes / 1e3:.0f}/{plane.round_trip_us / 1e3:.2g}" for plane in planes
    )


def drawn_scenario(planes: Sequence[DrawnPlane], seed: int, signal: str = "auto") -> Scenario:
    """A stream of messages between two hosts over these planes, for 4 s."""
    fabric = make_fabric(
        planes=[plane.settings() for plane in planes],
        hosts=2,
        hosts_per_t0=1,
        t1s=1,
        nic_queue_bytes="4MB",
        ecn="off",
        priority="off",
        framing_bytes=ETHERNET_BYTES,
    )
    total_bps = sum(plane.rate_bps for plane in planes)
    count = total_bps * 4 // (8 * MESSAGE_BYTES) + 2 * OUTSTANDING
    flow = {"source": 0, "destination": 1, "bytes": MESSAGE_BYTES, "count": count, "parallel": OUTSTANDING}
    return make_scenario(
        name=f"drawn {seed}",
        fabric=fabric,
        payload_mtu=PAYLOAD,
        transports={"mrc": {"signal": signal}},
        workload={"name": "flows", "flows": [flow]},
        duration="4s",
        seed=seed,
    )


def _judged(scenario: Scenario, windows: Sequence[Window]) -> Iterator[dict[str, Any]]:
    began = time.monotonic()
    run = _Sampled(scenario)
    wall_s = time.monotonic() - began
    alone_gbps = _best_alone_gbps(scenario) if scenario.fabric.planes > 1 and windows == STREAM else None
    for window in windows:
        row = run.over(window)
        if alone_gbps is not None:
            row |= {"best_alone_gbps": alone_gbps, "to_best_alone_ratio": row["goodput_gbps"] / alone_gbps}
        yield row | {"wall_s": wall_s}


def _best_alone_gbps(scenario: Scenario) -> float:
    """Goodput over the best single plane: tried from the fastest on, while the next one could still be better."""
    best = 0.0
    for plane in sorted(scenario.fabric.each_plane, key=lambda each: -_limit_gbps(scenario, each)):
        if _limit_gbps(scenario, plane) <= best:
            break
        fabric = replace(scenario.fabric, planes=1, unlike=(plane,))
        lossy = [fault for fault in fabric.faults if fault.target.plane is None]
        alone = _Sampled(replace(scenario, fabric=replace(fabric, faults=tuple(lossy))))
        best = max(best, alone.over(STREAM[0])["goodput_gbps"])
    return best


def _limit_gbps(scenario: Scenario, plane: PlaneSettings) -> float:
    """Payload capacity of a plane: its rate less headers."""
    payload = scenario.payload_mtu
    rate_bps = min(plane.rates.nic, plane.rates.t0)
    return rate_bps * payload / (payload + MRC_BYTES + scenario.fabric.header_bytes) / 1e9


class _Sampled:
    """A stream from host 0 to host 1, run to the scenario's end and sampled every few milliseconds."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.simulation = _start(scenario)
        times, received, sent, retransmitted, waits = [], [], [], [], []
        ended = False
        while not ended and self.simulation.now_ps < scenario.duration_ps:
            ended = self.simulation.run_until(min(self.simulation.now_ps + STEP_PS, scenario.duration_ps))
            connections = self.simulation.connections()
            forth = connections["host"] < connections["peer"]
            times.append(self.simulation.now_ps / SECOND)
            received.append(int(connections["received_bytes"][forth].sum()))
            sent.append(int(connections["sent_packets"][forth].sum()))
            retransmitted.append(int(connections["retransmitted_packets"][forth].sum()))
            waits.append([self._waits_ms(index, plane) for index, plane in enumerate(scenario.fabric.each_plane)])
        if ended:
            raise AssertionError(f"{scenario.name}: the stream ended at {times[-1]} s; it needs more messages")
        self.times_s, self.waits_ms = np.array(times), np.array(waits)
        self.received, self.sent, self.retransmitted = np.array(received), np.array(sent), np.array(retransmitted)

    def _waits_ms(self, index: int, plane: PlaneSettings) -> float:
        """Current queueing delay of a packet from host 0 to host 1 in the switches of a plane."""
        up = int(self.simulation.links(index, T0_UP)["queue_bytes"][0])
        down = int(self.simulation.links(index, T1_DOWN)["queue_bytes"][1])
        return (up + down) * 8e3 / plane.rates.t0

    def over(self, window: Window) -> dict[str, Any]:
        """One part of the run, in figures."""
        inside = (self.times_s >= window.start_s) & (self.times_s <= window.end_s)
        times, received = self.times_s[inside], self.received[inside]
        waits = self.waits_ms[inside]
        goodput_gbps = int(received[-1] - received[0]) * 8 / float(times[-1] - times[0]) / 1e9
        shares = (*window.shares, *[1.0] * self.scenario.fabric.planes)
        planes = zip(shares, self.scenario.fabric.each_plane, strict=False)
        limit_gbps = sum(share * _limit_gbps(self.scenario, plane) for share, plane in planes)
        sent = int(self.sent[inside][-1] - self.sent[inside][0])
        retransmitted = int(self.retransmitted[inside][-1] - self.retransmitted[inside][0])
        return {
            "window": window.name,
            "goodput_gbps": goodput_gbps,
            "limit_gbps": limit_gbps,
            "share_of_limit_ratio": goodput_gbps / limit_gbps,
            "retransmitted_percent": 100 * retransmitted / max(sent, 1),
            "queue_mean_ms": float(waits.mean()),
            "queue_p95_ms": float(np.percentile(waits, 95)),
            "queue_worst_plane_p95_ms": float(np.percentile(waits, 95, axis=0).max()),
            "longest_gap_ms": 1e3 * _longest_gap_s(times, received),
        }


def _longest_gap_s(times: Any, received: Any) -> float:
    """Longest time without arrivals, at the resolution of the samples."""
    moments = times[np.append(True, np.diff(received) > 0)]
    return float(np.diff(np.append(moments, times[-1])).max())


def _to_the_end(scenario: Scenario) -> Iterator[dict[str, Any]]:
    """Messages that all finish: their time beside the ideal."""
    began = time.monotonic()
    simulation = _start(scenario)
    simulation.run_until(scenario.duration_ps)
    bounds = ideals_of(scenario, scenario.transports[0], build_graph(scenario))
    received = simulation.op_times()["received_ps"]
    connections = simulation.connections()
    sent, retransmitted = (int(connections[name].sum()) for name in ("sent_packets", "retransmitted_packets"))
    done = bool((received >= 0).all())
    yield {
        "window": "",
        "time_s": int(received.max()) / SECOND if done else None,
        "ideal_s": bounds.graph_received_ps / SECOND,
        "to_ideal_ratio": int(received.max()) / bounds.graph_received_ps if done else None,
        "retransmitted_percent": 100 * retransmitted / max(sent, 1),
        "wall_s": time.monotonic() - began,
    }


def _start(scenario: Scenario) -> Any:
    scenario = replace(scenario, watch=replace(scenario.watch, series=()))
    simulation = _native.simulate.Simulation(native_config(scenario, scenario.transports[0], 1).values())
    simulation.add_ops(*build_graph(scenario).native())
    for _, fault in native_faults(scenario):
        simulation.add_fault(fault.values())
    return simulation


def _table(found: Sequence[dict[str, Any]]) -> Table:
    """The rows, in the units of their keys."""
    heads = (
        "network",
        "window",
        "of the limit",
        "retransmitted %",
        "queue ms, mean",
        "p95",
        "worst plane",
        "longest gap ms",
    )
    table = Table(*heads, "of best plane", "of ideal time", title="planes without marks, simulated")
    keys = (
        "share_of_limit_ratio",
        "retransmitted_percent",
        "queue_mean_ms",
        "queue_p95_ms",
        "queue_worst_plane_p95_ms",
    )
    for row in found:
        values = (row.get(key) for key in (*keys, "longest_gap_ms", "to_best_alone_ratio", "to_ideal_ratio"))
        cells = ["" if value is None else f"{value:.3f}" for value in values]
        table.add_row(row["title"], row["window"], *cells)
    return table


def main() -> None:
    """Measures, prints a table, and writes the rows."""
    parser = argparse.ArgumentParser(description="Networks that do not mark ECN, in the simulator.")
    parser.add_argument("--only", nargs="+", default=[], help="only these scenarios of scenarios/ordinary")
    parser.add_argument("--networks", type=int, default=40, help="how many networks are drawn, by seeds from 1 on")
    parser.add_argument("--signal", choices=("auto", "marks", "delay", "discover"), default="auto")
    parser.add_argument("--json", type=file_argument, help="write the rows to this file")
    options = parser.parse_args()
    found = []
    for row in rows(only=options.only, seeds=range(1, options.networks + 1), signal=options.signal):
        print(f"  {row['network']} {row['window']}", file=sys.stderr, flush=True)
        found.append(row)
    Console(width=None if sys.stdout.isatty() else 180).print(_table(found))
    drawn = [row for row in found if "to_best_alone_ratio" in row]
    slower = [row["network"] for row in drawn if row["to_best_alone_ratio"] < 1]
    print(f"slower than the best plane alone: {len(slower)} of {len(drawn)}: {', '.join(slower)}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
