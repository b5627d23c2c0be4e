"""A fabric with every setting decided: what the file says, and defaults computed from rate and delay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from openmrc.fabric.faults import Fault

__all__ = ["Ecn", "Fabric", "Trim"]

IP_UDP_HEADER_BYTES = 28
DATA_PACKET_BYTES = 4168  # 4,096 of payload with MRC, UDP and IPv4 headers
ACK_PACKET_BYTES = 92
JUMBO_FRAME_BYTES = 9216
LINKS_ONE_WAY = 4  # NIC, T0, T1, T0, NIC


@dataclass(frozen=True)
class Ecn:
    """Marking ramp of the T0 uplinks and the T1s, in bytes that wait; equal values are a step.

    `nic`: also the hosts' own uplinks; `last_hop`: also the port to the host. Both off as deployed: a mark then says
    that the fabric between the T0s is congested, which another path can avoid.
    """

    min_bytes: int
    max_bytes: int
    nic: bool = False
    last_hop: bool = False


@dataclass(frozen=True)
class Trim:
    """Data that would wait behind more than the threshold is cut to `size_bytes` (IP header included).

    `last_hop_threshold_bytes` is the threshold of the port to the host, where trimmed packets say TRIMMED_LASTHOP.
    """

    threshold_bytes: int
    last_hop_threshold_bytes: int
    size_bytes: int = 128


def base_rtt_ps(rate_bps: int, delay_ps: int) -> int:
    """Round trip across a T1 of an idle fabric: a full data packet there, an acknowledgement back."""
    transmit_ps = (DATA_PACKET_BYTES + ACK_PACKET_BYTES) * 8 * 10**12 // rate_bps
    return LINKS_ONE_WAY * (2 * delay_ps + transmit_ps)


@dataclass(frozen=True)
class Fabric:
    """A two-tier multi-plane Clos. Sizes in bytes, rates in bit/s, times in picoseconds.

    Planes are alike. Host h hangs on T0 `h // hosts_per_t0` of every plane; every T0 reaches every T1 of its plane by
    one link. `rate_bps` counts IP packets plus `framing_bytes` each. `queue_bytes` bounds each switch port and
    `nic_queue_bytes` each host's uplink, whose queue stands for the memory of the NIC.
    """

    name: str
    planes: int
    hosts: int
    hosts_per_t0: int
    t1s: int
    rate_bps: int
    delay_ps: int
    queue_bytes: int
    nic_queue_bytes: int
    ecn: Ecn | None
    trim: Trim | None
    ev_mapping: Literal["modulo", "hash"]
    framing_bytes: int
    seed: int
    udp_port: int
    address_base: str
    faults: tuple[Fault, ...] = ()

    @property
    def t0s(self) -> int:
        """T0s of one plane."""
        return -(-self.hosts // self.hosts_per_t0)

    @property
    def base_rtt_ps(self) -> int:
        """Round trip across a T1 while nothing waits."""
        return base_rtt_ps(self.rate_bps, self.delay_ps)

    @property
    def bdp_bytes(self) -> int:
        """What fills one plane for one base round trip."""
        return self.rate_bps * self.base_rtt_ps // (8 * 10**12)

    def native_config(self, tick_ps: int) -> dict[str, Any]:
        """Settings of the native fabric, without the addresses."""
        return {
            "planes": self.planes,
            "hosts": self.hosts,
            "hosts_per_t0": self.hosts_per_t0,
            "t1s": self.t1s,
            "hash_ev": self.ev_mapping == "hash",
            "ports": [self._native_port(kind) for kind in ("nic_up", "nic_down", "t0_up", "t1_down")],
            "seed": self.seed,
            "udp_port": self.udp_port,
            "header_bytes": IP_UDP_HEADER_BYTES + self.framing_bytes,
            "tick_ps": tick_ps,
        }

    def _native_port(self, kind: str) -> dict[str, int | bool]:
        ecn, trim = self.ecn, self.trim
        nic, last = kind == "nic_up", kind == "nic_down"
        marks = ecn is not None and (ecn.nic if nic else ecn.last_hop if last else True)
        threshold = 0 if trim is None else trim.last_hop_threshold_bytes if last else trim.threshold_bytes
        return {
            "rate_bps": self.rate_bps,
            "delay_ps": self.delay_ps,
            "queue_bytes": self.nic_queue_bytes if nic else self.queue_bytes,
            "control_queue_bytes": self.nic_queue_bytes if nic else self.queue_bytes,
            "ecn": marks,
            "ecn_min_bytes": ecn.min_bytes if ecn else 0,
            "ecn_max_bytes": ecn.max_bytes if ecn else 0,
            "trim": trim is not None and not nic,
            "trim_threshold_bytes": threshold,
            "trim_bytes": trim.size_bytes + self.framing_bytes if trim else 0,
            "last_hop": last,
        }
