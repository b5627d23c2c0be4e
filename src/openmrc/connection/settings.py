"""Settings of a connection, and the defaults derived for those that are not set."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from openmrc.errors import ConfigError
from openmrc.verbs.enums import PathSignal
from openmrc.verbs.parameters import CcConfig
from openmrc.verbs.plane_defaults import receive_window_units

from .fields import QpSettingsFields

if TYPE_CHECKING:
    from openmrc.verbs import Device, Port
    from openmrc.verbs.paths import Paths

__all__ = ["QpSettings"]

HEADER_BYTES_MAX = 44  # BTH, METH, TSETH, RETH, ImmDt and ICRC: the longest data packet
PAYLOAD_MTU_STANDARD_MAX = 4096
PAYLOAD_MTU_MAX = 8192
_RATE_BPS_UNKNOWN = 40_000_000_000  # a port whose interface does not report its speed: loopback, veth
_BASE_RTT_NS_MIN = 100_000  # an answer requires waking two threads, on any machine
EXPONENTIAL_RETRIES = 10
RETRIES_FOR_EVER = 25
_SILENCE_S_MIN = 10.0
_RETRY_UNIT_S = 1.024e-6
_RETRY_S_MAX = _RETRY_UNIT_S * (1 << 24)


class QpSettings(QpSettingsFields):
    """Settings of a connection's QPs. Every default works; None: determined when connecting.

    Raises:
        ConfigError: naming the field, its value and what is allowed.
    """

    __slots__ = ()

    @property
    def chosen_exponential_retries(self) -> int:
        """Number of timeouts at doubling intervals."""
        return EXPONENTIAL_RETRIES if self.exponential_retries is None else self.exponential_retries

    def path_signal(self, device: Device) -> PathSignal:
        """Path signal for QPs of this device."""
        if self.signal != "auto":
            return PathSignal[self.signal.upper()]
        made_for_mrc = device.paths is not None or self.trimming or self.controller != "nscc"
        return PathSignal.MARKS if made_for_mrc else PathSignal.DISCOVER

    def receive_window_units(self, device: Device) -> int:
        """Receive window of QPs of this device, in units of 128 packets."""
        if self.mpr_units is not None:
            return self.mpr_units
        return receive_window_units(marks=self.path_signal(device) is PathSignal.MARKS)

    @property
    def retry_s(self) -> float | None:
        """Time for which a QP retries without an answer; None: no limit."""
        return retry_s(self.timeout_exponent, self.linear_retries, self.chosen_exponential_retries)

    @property
    def silence_s(self) -> float | None:
        """Silence after which a peer counts as gone, also if nothing is sent to it; None: no limit."""
        return None if self.retry_s is None else max(self.retry_s, _SILENCE_S_MIN)

    @property
    def transports(self) -> list[str]:
        """Supported transports, best first."""
        return ["mrc", "rc"] if self.transport == "auto" else [self.transport]


@lru_cache(64)  # every connection of a job calls this with the same settings
def retry_s(timeout_exponent: int, linear_retries: int, exponential_retries: int) -> float | None:
    """Time for which a QP with these settings retries without an answer; None: no limit."""
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
    """Payload that fits the path, at most `most`; or `wanted` if that fits.

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
    """The configured rate or the one reported by the interface's driver, whichever is less; a default if neither is
    known.
    """
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
    """Sum over all ports."""
    return settings.rate_bps or sum(port_rate_bps(port) for port in device.ports)


def base_rtt_ns_of(settings: QpSettings, measured_ns: int | None, paths: Paths | None = None) -> int:
    """Idle round trip for the congestion control.

    Twice the measured idle value: with traffic, answers also wait for whole bursts to be read and written. The value of
    a path file takes precedence if larger: probes are short, and full packets take longer on slow links.
    """
    if settings.base_rtt_us is not None:
        return settings.base_rtt_us * 1000
    told_ns = 0 if paths is None else (paths.base_rtt_us or 0) * 1000
    return max(_BASE_RTT_NS_MIN, 2 * max(measured_ns or 0, told_ns))


def cc_config(
    settings: QpSettings, *, payload_mtu: int, rate_bps: int, base_rtt_ns: int, peer_buffer_bytes: int
) -> CcConfig:
    """Parameters for the congestion control.

    The window stays within a third of the peer's socket buffers: the kernel accounts more for a datagram than its
    bytes, and datagrams beyond the buffer are lost.
    """
    bdp_bytes = rate_bps * base_rtt_ns // 8_000_000_000
    floor_bytes = 16 * payload_mtu
    window = settings.max_window_bytes or min(
        max(3 * bdp_bytes // 2, floor_bytes), max(peer_buffer_bytes // 3, floor_bytes)
    )
    return CcConfig(
        mtu_bytes=payload_mtu + HEADER_BYTES_MAX + 28,
        link_rate_bps=rate_bps,
        base_rtt_ns=base_rtt_ns,
        max_cwnd_bytes=window,
        trimming=settings.trimming,
    )
