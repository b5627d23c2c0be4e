"""Description of an ordinary network: hosts on planes that differ in rate, queue, MTU and delay, and do not mark."""

from __future__ import annotations

from dataclasses import dataclass

from openmrc.errors import ConfigError

__all__ = ["ETHERNET_BYTES", "PlainNetwork", "PlainPlane"]

ETHERNET_BYTES = 14  # of a frame's header, which the kernel counts against a rate
_RATE_BPS = (1_000_000, 40_000_000_000)
_MTU_BYTES = (1280, 65_535)
_DELAY_US_MAX = 1_000_000
_HOSTS, _PLANES = (2, 8), (1, 8)


@dataclass(frozen=True, slots=True)
class PlainPlane:
    """One plane: a switch without marks whose port towards each host has a rate and a FIFO.

    Args:
        rate_bps: Of the port towards each host, frames with their Ethernet headers.
        fifo_bytes: Bytes that may wait at such a port; the rest is dropped.
        mtu_bytes: Of the hosts' interfaces.
        delay_us: Added from host to switch, so that it counts twice in a round trip; 0: the machine's own delay alone.

    Raises:
        ConfigError: a value that the kernel or the delay line cannot have.
    """

    rate_bps: int
    fifo_bytes: int = 256 * 1024
    mtu_bytes: int = 1500
    delay_us: int = 0

    def __post_init__(self) -> None:
        _check("rate_bps", self.rate_bps, *_RATE_BPS)
        _check("mtu_bytes", self.mtu_bytes, *_MTU_BYTES)
        _check("fifo_bytes", self.fifo_bytes, self.mtu_bytes + ETHERNET_BYTES, 1 << 30)
        _check("delay_us", self.delay_us, 0, _DELAY_US_MAX)

    def burst_bytes(self, *, offloads: bool) -> int:
        """Bytes that the port may send at once after a delay: 1 ms of its rate, at most an eighth of its FIFO.

        100 us where offloads let bursts cross the network as one packet, which delays timers less. At least two frames.
        A port whose timer is later than that loses capacity, unlike a real one.
        """
        late = self.rate_bps // 8 // 10_000 if offloads else min(self.rate_bps // 8 // 1_000, self.fifo_bytes // 8)
        return max(2 * (self.mtu_bytes + ETHERNET_BYTES), late)

    def payload_share(self, header_bytes: int) -> float:
        """Share of the rate left for payload when every frame is full and has headers of this size from IP on."""
        return (self.mtu_bytes - header_bytes) / (self.mtu_bytes + ETHERNET_BYTES)


@dataclass(frozen=True, slots=True)
class SiteLinks:
    """Two sites, each with a switch in every plane, and one link between these switches.

    Args:
        hosts: Of the first site, the others are on the second one.
        links: By plane; the delay is that of one direction.
    """

    hosts: int
    links: tuple[PlainPlane, ...]


@dataclass(frozen=True, slots=True)
class PlainNetwork:
    """Hosts that are all attached to the same planes.

    Args:
        planes: One to eight.
        hosts: Two to eight, or nine for an incast of eight senders.
        sites: None: all hosts are attached to the same switches.

    Raises:
        ConfigError: too many or too few of either, or a delay from host to switch in a network of two sites.
    """

    planes: tuple[PlainPlane, ...]
    hosts: int = 2
    sites: SiteLinks | None = None

    def __post_init__(self) -> None:
        _check("planes", len(self.planes), *_PLANES)
        _check("hosts", self.hosts, _HOSTS[0], _HOSTS[1] + 1)
        if self.sites is None:
            return
        _check("sites.hosts", self.sites.hosts, 1, self.hosts - 1)
        _check("sites.links", len(self.sites.links), len(self.planes), len(self.planes))
        for plane, link in zip(self.planes, self.sites.links, strict=True):
            _check("delay_us", plane.delay_us, 0, 0)
            _check("sites.links.mtu_bytes", link.mtu_bytes, plane.mtu_bytes, _MTU_BYTES[1])

    def site(self, host: int) -> int:
        """Number of a host's site."""
        return int(self.sites is not None and host >= self.sites.hosts)

    @classmethod
    def of_rates(cls, rates_bps: tuple[int, ...], *, hosts: int = 2, fifo_bytes: int, mtu_bytes: int) -> PlainNetwork:
        """A network whose planes differ in rate alone."""
        return cls(tuple(PlainPlane(rate, fifo_bytes, mtu_bytes) for rate in rates_bps), hosts)

    def address(self, host: int, plane: int) -> str:
        """IPv4 address of a host in a plane."""
        return f"10.88.{plane}.{host + 1}"

    def mac(self, host: int, plane: int) -> str:
        """Ethernet address of a host in a plane."""
        return f"02:88:00:00:{plane:02x}:{host + 1:02x}"

    def limit_bps(self, header_bytes: int) -> float:
        """Payload that one host can receive over all planes in full frames with headers of this size from IP on."""
        return sum(plane.rate_bps * plane.payload_share(header_bytes) for plane in self.planes)


def _check(field: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ConfigError(field, value, f"{least} to {most}")
