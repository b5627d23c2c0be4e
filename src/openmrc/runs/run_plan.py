"""Plan of a run on this machine: hosts, planes, rate, transport, flows, faults."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from openmrc.errors import ConfigError, did_you_mean
from openmrc.fabric import Fabric, make_fabric
from openmrc.runs.records.goodput_limit import TransportName

TRANSPORTS: tuple[TransportName, ...] = ("mrc", "rc")
PAYLOAD_MTUS = (256, 512, 1024, 2048, 4096, 8192)
PAYLOAD_MTU_DEFAULT = 4096
PLANES_MAX = 16
HOSTS_MAX = 32
SECONDS_MAX = 3600.0


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A run over an emulated fabric, or with `rate_bps` 0 without a fabric.

    Args:
        hosts: Host processes; in a ring each writes to the next one, two hosts have one writer unless `ring`.
        planes: Planes of the fabric = ports of each NIC.
        rate_bps: Rate of every link; 0: no fabric, processes are connected directly over loopback.
        transport: "mrc" or "rc".
        seconds: Duration of the data flow.
        faults: In the fault language of `openmrc emulate`, for example "plane 2 blackhole at 2s for 3s".
        loss: Share of packets lost at random on every plane, 0 to 1.
        seed: Of the random draws of fabric, NICs and contents.
        t1s: T1 switches per plane, that is paths per plane between hosts of different T0s.
        ring: All hosts write, each to the next.
        payload_mtu: Bytes of payload per packet.
        message_bytes: Size of each checked message.
        depth: Messages in flight per connection.
        burst_packets: Packets that share one EV; None: 1 over a fabric, the device's default without one.
        evs_per_plane: EVs that a device has on each plane.
        connection: Settings of the connections that differ from the plan's defaults.
        given: An existing fabric for the run, see `over`.
        flows: Pairs of writer and receiver, in place of `ring`.
        flow_bytes: Bytes of each flow, in whole messages; empty: for the duration of the run.
    """

    hosts: int = 2
    planes: int = 4
    rate_bps: int = 250_000_000
    transport: TransportName = "mrc"
    seconds: float = 10.0
    faults: tuple[str, ...] = ()
    loss: float = 0.0
    seed: int = 1
    t1s: int = 4
    ring: bool = False
    payload_mtu: int = PAYLOAD_MTU_DEFAULT
    message_bytes: int = 256 * 1024
    depth: int = 12
    burst_packets: int | None = None
    evs_per_plane: int = 32
    connection: Mapping[str, Any] = field(default_factory=dict)
    given: Fabric | None = None
    flows: tuple[tuple[int, int], ...] = ()
    flow_bytes: tuple[int, ...] = ()

    @classmethod
    def over(cls, fabric: Fabric, flows: Sequence[tuple[int, int]], **changes: Any) -> RunPlan:
        """A run over this fabric, without the fabric's own faults, with these flows and further arguments."""
        return cls(
            hosts=fabric.hosts,
            planes=fabric.planes,
            rate_bps=fabric.rate_bps,
            t1s=fabric.t1s,
            given=replace(fabric, faults=()),
            flows=tuple(flows),
            **changes,
        )

    def __post_init__(self) -> None:
        if self.transport not in TRANSPORTS:
            raise ConfigError(
                "transport", self.transport, " or ".join(TRANSPORTS), hint=did_you_mean(self.transport, TRANSPORTS)
            )
        if self.payload_mtu not in PAYLOAD_MTUS:
            raise ConfigError("payload_mtu", self.payload_mtu, ", ".join(str(mtu) for mtu in PAYLOAD_MTUS))
        _within("hosts", self.hosts if self.given is None else len(self.participants()), 2, HOSTS_MAX)
        _within("planes", self.planes, 1, PLANES_MAX)
        _within("t1s", self.t1s, 1, 256)
        _within("depth", self.depth, 1, 32)
        _within("message_bytes", self.message_bytes, 4096, 1 << 24)
        if not 0.2 <= self.seconds <= SECONDS_MAX:
            raise ConfigError("seconds", self.seconds, f"0.2 to {SECONDS_MAX:g}")
        if self.rate_bps and not 1_000_000 <= self.rate_bps <= 100_000_000_000:
            raise ConfigError("rate", self.rate_bps, "0 (no shaping) or 1Mbit to 100Gbit")
        if not 0 <= self.loss <= 0.5:
            raise ConfigError("loss", f"{self.loss:.0%}", "0 to 50 percent")
        if not self.rate_bps and (self.faults or self.loss):
            raise ConfigError("rate", 0, "a rate above 0 for runs with faults", hint="faults need a fabric")

    def fabric(self) -> Fabric:
        """The fabric of the run; by default every host has a T0 of its own, so that all traffic crosses a T1.

        Raises:
            FabricFileError: the sizes do not fit a fabric.
        """
        if self.given is not None:
            return replace(self.given, seed=self.seed)
        return make_fabric(
            name="live",
            planes=self.planes,
            hosts=self.hosts,
            hosts_per_t0=1,
            t1s=self.t1s,
            rate=f"{self.rate_bps}bit",
            seed=self.seed,
        )

    def all_faults(self) -> tuple[str, ...]:
        """The faults, and the loss as a further one."""
        if not self.loss:
            return self.faults
        percent = f"{self.loss * 100:.7f}".rstrip("0").rstrip(".")
        return (*self.faults, f"all loss {percent}%")

    def device_settings(self, host: int) -> dict[str, Any]:
        """Keyword arguments of a host's device."""
        settings: dict[str, Any] = {"seed": self.seed * 1000 + host, "evs_per_port": self.evs_per_plane}
        if self.burst_packets is not None:
            settings["burst_packets"] = self.burst_packets
        elif self.rate_bps:
            settings["burst_packets"] = 1  # on links of some 100 Mb/s a burst forms a queue, and saves little
        return settings

    def connection_settings(self, flow: int = 0) -> dict[str, Any]:
        """Keyword arguments of `QpSettings` for both ends of a connection, the `flow`th of `pairs()`.

        Timers follow the fabric's round trip, since a fabric of some Mb/s is slower than any timer suitable for real
        ones. RC connections are spread over planes and T1s, as a hash would do on average.
        """
        settings: dict[str, Any] = {"transport": self.transport, "payload_mtu": self.payload_mtu}
        if self.rate_bps:
            settings |= self._shaped_settings(flow)
        return settings | dict(self.connection)

    def _shaped_settings(self, flow: int) -> dict[str, Any]:
        fabric = self.fabric()
        rtt_us = fabric.base_rtt_us
        settings = {
            "rate_bps": self.rate_bps * self.planes,
            "base_rtt_us": 2 * rtt_us,  # from the fabric file; twice, as for a measured one
        }
        if self.transport == "mrc":
            return {
                **settings,
                "signal": "marks",
                "timeout_exponent": max(13, _exponent_above(4 * rtt_us)),
                "probe_interval_us": max(10_000, 8 * rtt_us),  # a later answer counts as lost
            }
        window = max(8, min(64, 3 * fabric.bdp_bytes // self.payload_mtu))
        drain_us = window * (self.payload_mtu + 100) * 8 * 10**6 // self.rate_bps
        return {
            **settings,
            "rc_window_packets": window,
            "timeout_exponent": _exponent_above(2 * (rtt_us + drain_us)),
            "rc_path": flow % self.planes * self.evs_per_plane + flow % self.t1s,
        }

    def stream_shape(self, flow: int) -> dict[str, int]:
        """Arguments of `StreamShape` for the `flow`th of `pairs()`, as JSON."""
        shape = {"message_bytes": self.message_bytes, "depth": self.depth, "seed": self.seed}
        if self.flow_bytes:
            shape["messages"] = -(-self.flow_bytes[flow] // self.message_bytes)
        return shape

    def participants(self) -> list[int]:
        """Hosts that write or are written to."""
        return sorted({host for pair in self.pairs() for host in pair})

    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of writer and receiver."""
        if self.flows:
            return list(self.flows)
        if self.ring:
            return [(host, (host + 1) % self.hosts) for host in range(self.hosts)]
        return [(host, host + 1) for host in range(0, self.hosts - 1, 2)]


def loopback_addresses(hosts: int, planes: int) -> list[list[str]]:
    """Addresses for hosts that are connected directly over loopback, unlikely to be in use by another run on this
    machine.

    Emulated fabrics use 127.16 and above, hand-written examples addresses below 127.2.
    """
    number = os.getpid()
    net, block = 2 + number % 13, number // 13 % 16 * PLANES_MAX
    return [[f"127.{net}.{block + plane}.{host + 1}" for plane in range(planes)] for host in range(hosts)]


def draw_seed(seed: int | None) -> int:
    """The requested seed, or a new one to be printed with the results."""
    return random.SystemRandom().randrange(1, 1 << 31) if seed is None else seed


def _exponent_above(time_us: int) -> int:
    """The exponent of the shortest retransmission timer (1.024 us x 2^exponent) not below a time."""
    return max(0, min(24, (time_us - 1).bit_length()))


def _within(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ConfigError(field, value, f"{least} to {most}")
