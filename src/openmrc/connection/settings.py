"""Settings of a connection: what may be chosen, and what is chosen when nothing is."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openmrc._native import cc
from openmrc.errors import ConfigError
from openmrc.units import RATE_BPS_RANGE
from openmrc.verbs.enums import PathSignal

if TYPE_CHECKING:
    from openmrc.verbs import Device, Port
    from openmrc.verbs.paths import Paths

__all__ = ["QpSettings"]

TRANSPORTS = ("auto", "mrc", "rc")
SIGNALS = ("auto", "marks", "delay", "discover")
HEADER_BYTES_MAX = 44  # BTH, METH, TSETH, RETH, ImmDt and ICRC: the longest data packet
PAYLOAD_MTU_STANDARD_MAX = 4096
PAYLOAD_MTU_MAX = 8192
_RATE_BPS_UNKNOWN = 40_000_000_000  # a port whose interface does not tell its speed: loopback, veth
_BASE_RTT_NS_MIN = 100_000  # two threads have to be woken for an answer, on any machine
EXPONENTIAL_RETRIES = 10
RETRIES_FOR_EVER = 25
_SILENCE_S_MIN = 10.0
_MPR_UNITS_MARKS = 32
_RETRY_UNIT_S = 1.024e-6
_RETRY_S_MAX = _RETRY_UNIT_S * (1 << 24)
_RANGES = {
    "payload_mtu": (256, PAYLOAD_MTU_MAX),
    "mpr_units": (1, 255),
    "sack_bytes": (256, 1 << 20),
    "timeout_exponent": (0, 24),
    "linear_retries": (0, 7),
    "exponential_retries": (0, 25),
    "active_per_port": (1, 1024),
    "min_active": (1, 1024),
    "probe_interval_us": (100, 60_000_000),
    "skip_lapse_us": (0, 60_000_000),
    "base_rtt_us": (1, 10_000_000),
    "rate_bps": RATE_BPS_RANGE,
    "max_window_bytes": (4096, 1 << 40),
    "send_depth": (1, 65535),
    "recv_depth": (1, 65535),
    "rc_window_packets": (1, 32768),
    "rc_path": (0, 1023),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QpSettings:
    """How a connection's QP is to be. Everything has a default that works; None means "found out when connecting".

    Args:
        transport: "mrc", "rc" (the single-path fallback), or "auto": MRC if both ends can, else RC.
        selector: EV selector: "mrc", "random", "reps", "round_robin", "single", or one of `openmrc.policies`.
        controller: Congestion control: "nscc", "none", or one of `openmrc.policies`. With "none" the window is the MPR,
            which fills any queue.
        signal: How congestion shows: "marks" (ECN and trimming, as MRC is published), "delay" (queueing delay and
            losses, plane by plane, for switches that do not mark), "discover" (by delay, until a plane is seen to
            mark), or "auto": "marks" where a path file or `trimming` describes a fabric made for MRC, or where
            `controller` is not "nscc", "discover" elsewhere.
        payload_mtu: Bytes of payload in a packet. None: what the path MTU allows, at most 4,096 where `signal` is
            "marks", 8,192 elsewhere. More than 4,096 and any multiple of 4 is an extension that both ends must have.
        mpr_units: Receive window in units of 128 packets. None: 32 where `signal` is "marks", else 255, since packets
            behind one that is repeated over a long path take as much room as the path itself.
        sack_bytes: The receiver acknowledges after so many bytes at the latest. More is cheaper, less reacts faster.
            None: half a burst, and 4 KiB at least, in EV format SRV6 16.
        timeout_exponent: Retransmission timer 1.024 us x 2^exponent. 13 is 8.4 ms: above what a busy host needs to
            answer, well below what people notice.
        linear_retries: So many timeouts at the same interval,
        exponential_retries: then so many at doubling intervals of 17 s at most (25: for ever), then the QP fails. None:
            10, which is 17 s together with 7 linear ones; in a `World`, as many as its timeout takes.
        active_per_port: EVs in use at a time on each port; the rest is the backup set. None: half of the device's, in
            EV format SRV6 all.
        min_active: Paths are not put aside below this many usable ones.
        probe_interval_us: Between two probes of a path that is assumed bad.
        skip_lapse_us: A path marked by ECN is used again after this time at the latest; 0: when its turn comes.
        base_rtt_us: Round trip of an idle path. None: measured with probes when connecting, or what the path file says
            if that is more.
        rate_bps: All ports together. None: what the ports were given or their interfaces tell, 40 Gbit/s for each
            where neither is known.
        max_window_bytes: Never more in flight. None: from rate and round trip, within the peer's socket buffers.
        trimming: The fabric trims packets instead of dropping them.
        send_depth: Writes outstanding.
        recv_depth: Receives kept posted for writes with immediate.
        rc_window_packets: RC: packets in flight.
        rc_path: RC: its one path, counted through `Device.evs()`; where a hash would put the connection.

    Raises:
        ConfigError: naming the field, its value and what is allowed.
    """

    transport: str = "auto"
    selector: str = "mrc"
    controller: str = "nscc"
    signal: str = "auto"
    payload_mtu: int | None = None
    mpr_units: int | None = None
    sack_bytes: int | None = None
    timeout_exponent: int = 13
    linear_retries: int = 7
    exponential_retries: int | None = None
    active_per_port: int | None = None
    min_active: int = 1
    probe_interval_us: int = 10_000
    skip_lapse_us: int = 0
    base_rtt_us: int | None = None
    rate_bps: int | None = None
    max_window_bytes: int | None = None
    trimming: bool = False
    send_depth: int = 256
    recv_depth: int = 1024
    rc_window_packets: int = 64
    rc_path: int = 0

    def __post_init__(self) -> None:
        if self.transport not in TRANSPORTS:
            raise ConfigError("transport", self.transport, ", ".join(TRANSPORTS))
        if self.controller not in cc.controller_names():
            raise ConfigError("controller", self.controller, ", ".join(cc.controller_names()))
        if self.signal not in SIGNALS:
            raise ConfigError("signal", self.signal, ", ".join(SIGNALS))
        for one in fields(self):
            value: Any = getattr(self, one.name)
            if value is None or one.name not in _RANGES:
                continue
            low, high = _RANGES[one.name]
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(one.name, value, f"a whole number from {low} to {high}")
        if self.payload_mtu is not None and self.payload_mtu % 4:
            raise ConfigError("payload_mtu", self.payload_mtu, "a multiple of 4")

    @property
    def exponential_retry_count(self) -> int:
        """Timeouts at doubling intervals."""
        return EXPONENTIAL_RETRIES if self.exponential_retries is None else self.exponential_retries

    def path_signal(self, device: Device) -> PathSignal:
        """How congestion shows to QPs of this device."""
        if self.signal != "auto":
            return PathSignal[self.signal.upper()]
        made_for_mrc = device.paths is not None or self.trimming or self.controller != "nscc"
        return PathSignal.MARKS if made_for_mrc else PathSignal.DISCOVER

    def receive_window_units(self, device: Device) -> int:
        """Receive window of QPs of this device, in units of 128 packets."""
        if self.mpr_units is not None:
            return self.mpr_units
        return _MPR_UNITS_MARKS if self.path_signal(device) is PathSignal.MARKS else _RANGES["mpr_units"][1]

    @property
    def retry_s(self) -> float | None:
        """How long a QP retries without an answer; None: for ever."""
        return retry_s(self.timeout_exponent, self.linear_retries, self.exponential_retry_count)

    @property
    def silence_s(self) -> float | None:
        """How long a peer may be silent, also when nothing is sent to it, before it counts as gone; None: for ever."""
        return None if self.retry_s is None else max(self.retry_s, _SILENCE_S_MIN)

    @property
    def transports(self) -> list[str]:
        """What this side can do, best first."""
        return ["mrc", "rc"] if self.transport == "auto" else [self.transport]


@lru_cache(64)  # every connection of a job asks, for the same settings
def retry_s(timeout_exponent: int, linear_retries: int, exponential_retries: int) -> float | None:
    """How long a QP with these settings retries without an answer; None: for ever."""
    if exponential_retries >= RETRIES_FOR_EVER:
        return None
    first_s = _RETRY_UNIT_S * (1 << timeout_exponent)
    doubling = (min(first_s * (1 << n), _RETRY_S_MAX) for n in range(exponential_retries + 1))
    return linear_retries * first_s + sum(doubling)


def retries_for(timeout_s: float, settings: QpSettings) -> int:
    """Fewest exponential retries with which a QP retries for at least `timeout_s`."""
    for count in range(RETRIES_FOR_EVER):
        lasts_s = retry_s(settings.timeout_exponent, settings.linear_retries, count)
        if lasts_s is None or lasts_s >= timeout_s:
            return count
    return RETRIES_FOR_EVER


def payload_mtu_for(path_mtu_bytes: int, ip_version: int, wanted: int | None, most: int) -> int:
    """Payload that fits the path, `most` at most, or `wanted` if that fits.

    Raises:
        ConfigError: `wanted` does not fit the path.
    """
    room = (path_mtu_bytes - (28 if ip_version == 4 else 48) - HEADER_BYTES_MAX) & ~3
    if wanted is not None and wanted > room:
        raise ConfigError("payload_mtu", wanted, f"at most {room}: the path MTU is {path_mtu_bytes}")
    return min(room, most) if wanted is None else wanted


def packet_bytes_for(payload_mtu: int, ip_version: int) -> int:
    """Largest packet, IP header included, of a QP with this payload MTU."""
    return payload_mtu + HEADER_BYTES_MAX + (28 if ip_version == 4 else 48)


def port_rate_bps(port: Port) -> int:
    """What the port was given or its interface's driver tells, whichever is less; where neither is known, a guess."""
    known = [] if port.rate_bps is None else [port.rate_bps]
    if port.interface is not None:
        try:
            speed_mbps = int(Path(f"/sys/class/net/{port.interface}/speed").read_text())
        except (OSError, ValueError):
            speed_mbps = 0
        if speed_mbps > 0:
            known.append(speed_mbps * 1_000_000)
    return min(known, default=_RATE_BPS_UNKNOWN)


def rate_of(device: Device, settings: QpSettings) -> int:
    """All ports together."""
    return settings.rate_bps or sum(port_rate_bps(port) for port in device.ports)


def base_rtt_ns_of(settings: QpSettings, measured_ns: int | None, paths: Paths | None = None) -> int:
    """What the congestion control takes for an idle round trip.

    Twice what an idle path shows: with traffic, answers also wait for whole bursts to be read and written. What a path
    file says counts where it is more: probes are short, and full packets take their time on slow links.
    """
    if settings.base_rtt_us is not None:
        return settings.base_rtt_us * 1000
    told_ns = 0 if paths is None else (paths.base_rtt_us or 0) * 1000
    return max(_BASE_RTT_NS_MIN, 2 * max(measured_ns or 0, told_ns))


def cc_values(
    settings: QpSettings, *, payload_mtu: int, rate_bps: int, base_rtt_ns: int, peer_buffer_bytes: int
) -> dict[str, Any]:
    """Parameters for the congestion control.

    The window stays within a third of the peer's socket buffers: the kernel charges more for a datagram than its bytes,
    and what does not fit is lost.
    """
    bdp_bytes = rate_bps * base_rtt_ns // 8_000_000_000
    floor_bytes = 16 * payload_mtu
    window = settings.max_window_bytes or min(
        max(3 * bdp_bytes // 2, floor_bytes), max(peer_buffer_bytes // 3, floor_bytes)
    )
    return {
        "mtu_bytes": payload_mtu + HEADER_BYTES_MAX + 28,
        "link_rate_bps": rate_bps,
        "base_rtt_ns": base_rtt_ns,
        "max_cwnd_bytes": window,
        "trimming": settings.trimming,
    }
