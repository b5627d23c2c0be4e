"""Estimate of a simulation's memory before it starts, and the available memory."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from openmrc.errors import ConfigError
from openmrc.sim.evs import evs_of
from openmrc.sim.native_config import lanes_of
from openmrc.sim.ops import SEND, OpGraph
from openmrc.sim.scenario import Scenario
from openmrc.sim.transports import MrcSection, Transport
from openmrc.units import format_bytes

__all__ = ["MemoryEstimate", "available_bytes", "check_memory", "estimate_memory"]

# Bytes of one object each in the native simulation; benchmarks/sim.py reports the actual sum.
LINK_BYTES = 160
HOST_BYTES = 2048
OP_BYTES = 160  # in the native simulation, and in Python as columns of the result
DEPENDENCY_BYTES = 24
END_BYTES = {"mrc": 4096, "roce": 1024, "dctcp": 1024}
EV_BYTES = 24  # of an EV at a sending end
PACKET_BYTES = 128
WINDOW_BDPS = Fraction(3, 2)  # of packets in the fabric per sender: NSCC's initial window
BASE_BYTES = 2**20


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of a run, by purpose."""

    fabric_bytes: int
    connections_bytes: int
    workload_bytes: int
    packets_bytes: int

    @property
    def total_bytes(self) -> int:
        """Sum of all parts."""
        return self.fabric_bytes + self.connections_bytes + self.workload_bytes + self.packets_bytes

    def __str__(self) -> str:
        parts = (
            ("fabric", self.fabric_bytes),
            ("connections", self.connections_bytes),
            ("workload", self.workload_bytes),
            ("packets", self.packets_bytes),
        )
        return f"{format_bytes(self.total_bytes)} ({', '.join(f'{name} {format_bytes(size)}' for name, size in parts)})"


def estimate_memory(scenario: Scenario, transport: Transport, graph: OpGraph) -> MemoryEstimate:
    """Estimated memory for the run of one transport."""
    fabric = scenario.fabric
    links = 2 * fabric.planes * (fabric.hosts + fabric.t0s * fabric.t1s + fabric.t1s_in_all * fabric.t1_uplinks)
    sends = graph.kind == SEND
    pairs = graph.host[sends].astype(np.uint64) << np.uint64(32) | graph.peer[sends].astype(np.uint64)
    senders = np.unique(graph.host[sends])
    ends = len(np.unique(pairs)) * lanes_of(scenario, transport)
    evs = evs_of(transport.settings, fabric).known if isinstance(transport.settings, MrcSection) else 0
    windows = [int(WINDOW_BDPS * plane.rates.nic * scenario.base_rtt_ps / (8 * 10**12)) for plane in fabric.each_plane]
    packets = len(senders) * sum(1 + window // scenario.payload_mtu for window in windows)
    return MemoryEstimate(
        fabric_bytes=BASE_BYTES + links * LINK_BYTES + fabric.hosts * HOST_BYTES,
        connections_bytes=ends * (2 * END_BYTES[transport.kind] + evs * fabric.planes * EV_BYTES),
        workload_bytes=len(graph) * OP_BYTES + len(graph.dep_op) * DEPENDENCY_BYTES,
        packets_bytes=packets * PACKET_BYTES,
    )


def available_bytes() -> int | None:
    """Memory still available to this process, by the kernel and by its control group; None if unknown."""
    limits = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        limits += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            limits.append(int(limit) - int((group / "memory.current").read_text()))
    except (OSError, ValueError, IndexError):
        pass  # not Linux, or no control group: use the values found so far
    return min(limits) if limits else None


def check_memory(estimate: MemoryEstimate, available: int | None) -> None:
    """Checks that a run fits into memory.

    Raises:
        ConfigError: it does not; with the estimate.
    """
    if available is not None and estimate.total_bytes > available:
        raise ConfigError(
            "memory",
            f"an estimated {estimate}",
            f"{format_bytes(available)}, the free memory of this machine",
            hint="fewer hosts, planes, lanes or EVs; or a machine with more memory",
        )
