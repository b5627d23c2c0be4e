"""A fabric with all settings resolved: those of the file, and defaults computed from rates and delays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from openmrc.fabric import native_settings
from openmrc.fabric.address_blocks import AddressBlocks
from openmrc.fabric.faults import Fault
from openmrc.fabric.interfaces import InterfaceNames
from openmrc.fabric.materials import Materials
from openmrc.fabric.native_settings import FabricShape, PlanePorts, PortConfig

__all__ = ["Ecn", "Fabric", "Pfc", "PlaneSettings", "Port", "Shape", "SharedBuffer", "Tiers", "Trim"]

UDP_HEADER_BYTES = 8
IP_HEADER_BYTES = {"ipv4": 20, "ipv6": 40, "srv6": 80}  # srv6: IPv6 in IPv6, the outer one carries the uSIDs
ETHERNET_BYTES = 38  # preamble, header, FCS, inter-frame gap
PAYLOAD_BYTES = 4096
MRC_DATA_BYTES = 44  # BTH, METH, TSETH, RETH, ICRC
ACK_BYTES = 64  # a SACK without UDP and IP
JUMBO_FRAME_BYTES = 9216

Framing = Literal["ipv4", "ipv6", "srv6"]
Routing = Literal["modulo", "hash", "adaptive"]
PortKind = Literal["nic_up", "nic_down", "t0_up", "t1_down", "t1_up", "t2_down"]

# In the order of the native fabric; the tier of links that a port feeds.
PORT_TIERS: dict[PortKind, Literal["nic", "t0", "t1"]] = {
    "nic_up": "nic",
    "nic_down": "nic",
    "t0_up": "t0",
    "t1_down": "t0",
    "t1_up": "t1",
    "t2_down": "t1",
}


@dataclass(frozen=True)
class Tiers:
    """One value for each tier of links: NIC to T0, T0 to T1, T1 to T2."""

    nic: int
    t0: int
    t1: int

    @property
    def uniform(self) -> bool:
        """True if all tiers have the same value."""
        return self.nic == self.t0 == self.t1


@dataclass(frozen=True)
class Ecn:
    """Marking ramp of a T0's uplink, in bytes that wait; equal values are a step.

    The ramp ends at `max_permille`; above it everything is marked.

    `nic`: also the hosts' own uplinks; `last_hop`: also the port to the host. Both off as deployed with MRC: a mark
    then means congestion of the fabric between the T0s, which another path can avoid. `last_hop` None: the usual
    deployment of the transport in use. `t0`, `t1` and `t2` are the other ports of these switches.
    """

    min_bytes: int
    max_bytes: int
    max_permille: int = 1000
    nic: bool = False
    last_hop: bool | None = None
    t0: bool = True
    t1: bool = True
    t2: bool = True

    def marks(self, kind: PortKind, *, last_hop: bool = False) -> bool:
        """True if ports of this kind mark; `last_hop`: the setting for ports to hosts if unspecified."""
        to_host = last_hop if self.last_hop is None else self.last_hop
        enabled = {"nic_up": self.nic, "nic_down": to_host, "t0_up": self.t0, "t2_down": self.t2}
        return enabled.get(kind, self.t1)


@dataclass(frozen=True)
class Trim:
    """Data that would wait behind more than the threshold is cut to `size_bytes` (IP header included).

    `last_hop_threshold_bytes` is the threshold of the port to the host, where trimmed packets get the class
    TRIMMED_LASTHOP.
    """

    threshold_bytes: int
    last_hop_threshold_bytes: int
    size_bytes: int = 128


@dataclass(frozen=True)
class Pfc:
    """Per ingress port: above `xoff_bytes` the upstream end stops sending data, below `xon_bytes` it resumes."""

    xoff_bytes: int
    xon_bytes: int


@dataclass(frozen=True)
class SharedBuffer:
    """Memory shared by the ports of a switch: a queue may hold at most alpha times the free memory."""

    bytes: int
    alpha_permille: int


@dataclass(frozen=True)
class Port:
    """Settings of the ports of one kind. Thresholds of marking and trimming apply if these are on."""

    rate_bps: int
    delay_ps: int
    queue_bytes: int
    ecn_min_bytes: int
    ecn_max_bytes: int
    trim_threshold_bytes: int


@dataclass(frozen=True)
class PlaneSettings:
    """The links and switches of one plane. `priority`: control packets overtake data; else one FIFO for all."""

    rates: Tiers
    delays: Tiers
    ports: dict[PortKind, Port]
    ecn: Ecn | None
    trim: Trim | None
    priority: bool = True


def round_trip_ps(rates: Tiers, delays: Tiers, header_bytes: int, *, tiers: int, payload_bytes: int) -> int:
    """Round trip of an idle fabric over its longest path: a full data packet there, an acknowledgement back.

    Every hop stores and forwards, so each link adds both packets' time on the wire and its delay twice. The latency of
    the NICs is not in it.
    """
    links = (("nic", 2), ("t0", 2), ("t1", 2 if tiers > 2 else 0))
    both_bytes = payload_bytes + MRC_DATA_BYTES + ACK_BYTES + 2 * header_bytes
    return sum(
        times * (2 * getattr(delays, tier) + both_bytes * 8 * 10**12 // getattr(rates, tier)) for tier, times in links
    )


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Attachment of hosts in a multi-plane Clos of two or three tiers; planes have the same shape.

    `hosts` counts endpoints, that is NICs: NIC n of host h is number `h * nics_per_host + n`. Endpoint h is attached to
    T0 `h // hosts_per_t0` of every plane; every T0 has one link to each of the `t1s` T1s of its pod. With three tiers,
    T1 j of every pod has one link to each of the T2s `j * t1_uplinks` to `(j + 1) * t1_uplinks - 1`; T1s are counted
    through all pods. A site is a pod whose T2 links are long.
    """

    planes: int
    hosts: int
    hosts_per_t0: int
    t1s: int
    t0s_per_pod: int = 0
    t1_uplinks: int = 0
    nics_per_host: int = 1

    @property
    def tiers(self) -> int:
        """2, or 3 with T2s."""
        return 3 if self.t1_uplinks else 2

    @property
    def t0s(self) -> int:
        """T0s of one plane."""
        return -(-self.hosts // self.hosts_per_t0)

    @property
    def pods(self) -> int:
        """Groups of T0s that meet in the same T1s; 1 with two tiers."""
        return -(-self.t0s // self.t0s_per_pod) if self.t0s_per_pod else 1

    @property
    def t1s_in_all(self) -> int:
        """T1s of one plane, of all pods."""
        return self.pods * self.t1s

    @property
    def t2s(self) -> int:
        """T2s of one plane."""
        return self.t1s * self.t1_uplinks

    @property
    def paths(self) -> int:
        """Number of paths in one plane between the most distant NICs."""
        return self.t1s * (self.t1_uplinks or 1)


@dataclass(frozen=True, kw_only=True)
class Fabric(Shape):
    """A fabric with all settings resolved. Sizes in bytes, rates in b/s, times in picoseconds.

    Rates count packets with `header_bytes` each around the transport's datagram. A port's `queue_bytes` bounds each
    switch port; that of `nic_up`, the host's uplink, stands for the memory of the NIC.

    `rates`, `delays`, `ports`, `ecn`, `trim` and `priority` are those of planes without settings of their own. `unlike`
    has the settings of every plane if planes differ, and is empty if they are alike; `plane` handles both cases.
    """

    name: str
    rates: Tiers
    delays: Tiers
    ports: dict[PortKind, Port]
    ecn: Ecn | None
    trim: Trim | None
    routing: Routing
    framing: Framing
    framing_bytes: int
    seed: int
    udp_port: int
    address_base: str
    sites: int = 1
    pfc: Pfc | None = None
    shared_buffer: SharedBuffer | None = None
    faults: tuple[Fault, ...] = ()
    addresses: AddressBlocks = field(default_factory=AddressBlocks)
    materials: Materials = field(default_factory=Materials)
    interfaces: InterfaceNames = field(default_factory=InterfaceNames)
    priority: bool = True
    unlike: tuple[PlaneSettings, ...] = ()

    def plane(self, index: int) -> PlaneSettings:
        """Settings of one plane, counted from 0."""
        return self.unlike[index] if self.unlike else self._alike

    @property
    def each_plane(self) -> tuple[PlaneSettings, ...]:
        """Settings of every plane, in order."""
        return self.unlike or (self._alike,) * self.planes

    @property
    def _alike(self) -> PlaneSettings:
        return PlaneSettings(self.rates, self.delays, self.ports, self.ecn, self.trim, self.priority)

    @property
    def rate_bps(self) -> int:
        """Rate of a NIC's port, the maximum of one plane for it; for planes without a rate of their own."""
        return self.rates.nic

    @property
    def line_rate_bps(self) -> int:
        """Rate of a NIC: sum of its ports in all planes."""
        return sum(plane.rates.nic for plane in self.each_plane)

    @property
    def marks(self) -> bool:
        """True if the switches of any plane mark packets."""
        return any(plane.ecn is not None for plane in self.each_plane)

    @property
    def trims(self) -> bool:
        """True if the switches of any plane trim packets."""
        return any(plane.trim is not None for plane in self.each_plane)

    @property
    def delay_ps(self) -> int:
        """Delay of the link between a NIC and its T0."""
        return self.delays.nic

    @property
    def queue_bytes(self) -> int:
        """Bound of a T0's uplink."""
        return self.ports["t0_up"].queue_bytes

    @property
    def nic_queue_bytes(self) -> int:
        """Bound of a host's uplink."""
        return self.ports["nic_up"].queue_bytes

    @property
    def header_bytes(self) -> int:
        """Bytes of each packet on the wire around the transport's datagram: UDP, IP, encapsulation, framing."""
        return UDP_HEADER_BYTES + IP_HEADER_BYTES[self.framing] + self.framing_bytes

    @property
    def base_rtt_ps(self) -> int:
        """Idle round trip over the longest path of the slowest plane."""
        return self.round_trip_ps()

    @property
    def base_rtt_us(self) -> int:
        """As `base_rtt_ps`, rounded up."""
        return -(-self.base_rtt_ps // 10**6)

    @property
    def bdp_bytes(self) -> int:
        """Bandwidth-delay product of one plane and the base round trip."""
        return self.rate_bps * self.base_rtt_ps // (8 * 10**12)

    def round_trip_ps(self, payload_bytes: int = PAYLOAD_BYTES) -> int:
        """Idle round trip over the longest path of the slowest plane, with this payload."""
        return max(
            round_trip_ps(plane.rates, plane.delays, self.header_bytes, tiers=self.tiers, payload_bytes=payload_bytes)
            for plane in self.unlike or (self._alike,)
        )

    @property
    def native_shape(self) -> FabricShape:
        """Numbers of hosts, planes and switches, as the native side takes them."""
        return FabricShape(
            planes=self.planes,
            hosts=self.hosts,
            hosts_per_t0=self.hosts_per_t0,
            t1s=self.t1s,
            t0s_per_pod=self.t0s_per_pod,
            t1_uplinks=self.t1_uplinks,
            routing=native_settings.Routing[self.routing.upper()],
        )

    def native_ports(self, *, last_hop_marks: bool = False) -> tuple[PlanePorts, tuple[PlanePorts, ...]]:
        """Ports of planes without settings of their own, and of each plane where planes differ.

        Args:
            last_hop_marks: As in `Ecn.marks`.
        """

        def ports(plane: PlaneSettings) -> PlanePorts:
            kinds = {kind: self.native_port(kind, plane, last_hop_marks=last_hop_marks) for kind in PORT_TIERS}
            return PlanePorts(**kinds)

        return ports(self._alike), tuple(ports(plane) for plane in self.unlike)

    def native_port(
        self, kind: PortKind, plane: PlaneSettings | None = None, *, last_hop_marks: bool = False
    ) -> PortConfig:
        """Settings of the native ports of one kind; without a plane, of planes without settings of their own."""
        plane = plane or self._alike
        port, nic = plane.ports[kind], kind == "nic_up"
        return PortConfig(
            rate_bps=port.rate_bps,
            delay_ps=port.delay_ps,
            queue_bytes=port.queue_bytes,
            control_queue_bytes=port.queue_bytes,
            ecn=plane.ecn is not None and plane.ecn.marks(kind, last_hop=last_hop_marks),
            ecn_min_bytes=port.ecn_min_bytes,
            ecn_max_bytes=port.ecn_max_bytes,
            ecn_max_permille=plane.ecn.max_permille if plane.ecn else 1000,
            trim=plane.trim is not None and not nic,
            trim_threshold_bytes=port.trim_threshold_bytes,
            trim_bytes=plane.trim.size_bytes + self.framing_bytes if plane.trim else 0,
            priority=plane.priority,
            last_hop=kind == "nic_down",
        )
