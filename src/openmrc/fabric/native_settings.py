"""Settings of a fabric and its faults, as the native side takes them.

Written by tools/spec.py from spec/fabric.toml: edit that, then `make spec`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from openmrc.record import Family, NestedRecord, Record

__all__ = [
    "EmulatorSettings",
    "FabricShape",
    "FaultDirection",
    "FaultEffects",
    "FaultPlace",
    "LinkKind",
    "PlanePorts",
    "PortConfig",
    "Routing",
    "ScheduledFault",
]

_family = Family()


class Routing(IntEnum):
    """Choice of a packet's path."""

    MODULO = 0
    """By digits of the EV, so that a host can name its path (SRv6 uSIDs, structured EVs)."""
    HASH = 1
    """ECMP over addresses and EV."""
    ADAPTIVE = 2
    """Each switch takes the uplink with the shortest queue (for comparison)."""


class FaultDirection(IntEnum):
    """Direction in which a fault acts."""

    BOTH = 0
    """Both."""
    TX = 1
    """Away from hosts."""
    RX = 2
    """Towards hosts."""


class LinkKind(IntEnum):
    """Kind of a link, by its two ends. Links have one direction."""

    NIC_UP = 0
    """NIC to T0."""
    NIC_DOWN = 1
    """T0 to NIC."""
    T0_UP = 2
    """T0 to T1."""
    T1_DOWN = 3
    """T1 to T0."""
    T1_UP = 4
    """T1 to T2."""
    T2_DOWN = 5
    """T2 to T1."""


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class FabricShape(Record):
    """Numbers of hosts, planes and switches, and the rule of routing."""

    planes: int
    """Planes, which is the number of ports of each host. 1 to 16."""
    hosts: int
    """Hosts; of hosts with several NICs, NICs. 1 to 4,294,967,295."""
    hosts_per_t0: int
    """Hosts at a T0. 1 to 4,294,967,295."""
    t1s: int
    """T1s of a pod, which is also the number of uplinks of a T0. 1 to 65,535."""
    t0s_per_pod: int = 0
    """T0s of a pod. 0: one pod, two tiers."""
    t1_uplinks: int = 0
    """Uplinks of a T1. 0: two tiers. 0 to 65,535."""
    routing: Routing = Routing.MODULO
    """Choice of a packet's path."""


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class PortConfig(Record):
    """The output port that feeds a link, and the link."""

    rate_bps: int
    """Rate of the link. 1 to 100,000,000,000,000."""
    delay_ps: int
    """Delay of the link. 0 to 3,600,000,000,000,000."""
    queue_bytes: int
    """Bound of the queue of data: packets that do not fit are dropped."""
    control_queue_bytes: int
    """Bound of the queue of control packets."""
    ecn: bool = False
    """The port marks data."""
    ecn_min_bytes: int = 0
    """Queue at which marking starts; equal to `ecn_max_bytes`: a step."""
    ecn_max_bytes: int = 0
    """Queue from which all packets are marked."""
    ecn_max_permille: int = 1000
    """Share marked just below `ecn_max_bytes`, to which the ramp rises. 0 to 1,000."""
    trim: bool = False
    """The port trims data."""
    trim_threshold_bytes: int = 0
    """Data that would wait behind more than this is trimmed."""
    trim_bytes: int = 0
    """Length of a trimmed packet on the wire, framing included."""
    last_hop: bool = False
    """Packets that it trims carry TRIMMED_LASTHOP."""
    priority: bool = True
    """Control packets overtake data; false: one FIFO for all, as in a plain switch."""


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class PlanePorts(NestedRecord):
    """The ports of a plane, by the kind of their links."""

    nic_up: PortConfig
    """Ports of NICs."""
    nic_down: PortConfig
    """Ports of T0s to hosts."""
    t0_up: PortConfig
    """Ports of T0s to T1s."""
    t1_down: PortConfig
    """Ports of T1s to T0s."""
    t1_up: PortConfig | None = None
    """Ports of T1s to T2s. None: there is no third tier."""
    t2_down: PortConfig | None = None
    """Ports of T2s to T1s. None: there is no third tier."""


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlace(Record):
    """Place of a fault. None: not restricted to one; all of them: the whole fabric."""

    plane: int | None = None
    """Plane."""
    host: int | None = None
    """Host: its NIC-T0 link; of hosts with several NICs, the NIC."""
    t0: int | None = None
    """T0; with `t1` the link between them, alone the switch."""
    t1: int | None = None
    """T1, counted through all pods; with `t2` the link between them."""
    t2: int | None = None
    """T2."""
    direction: FaultDirection = FaultDirection.BOTH
    """Direction in which it acts."""


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class FaultEffects(Record):
    """Effects of a fault on a link. Shares are parts per billion of the packets."""

    down: bool = False
    """The link is down, and both of its ends see it."""
    blackhole: bool = False
    """All packets are lost, and nothing reports it."""
    loss_ppb: int = 0
    """Share lost. 0 to 1,000,000,000."""
    burst_loss_ppb: int = 0
    """Share lost in bursts (Gilbert-Elliott). 0 to 1,000,000,000."""
    burst_packets: int = 1
    """Mean length of a burst of losses. 1 to 4,294,967,295."""
    rate_ppm: int = 1_000_000
    """Share of the link's rate that is left. 1 to 1,000,000."""
    delay_ps: int = 0
    """Further delay. 0 to 2,592,000,000,000,000,000."""
    jitter_ps: int = 0
    """Further delay on top, drawn for each packet from 0 to this. 0 to 2,592,000,000,000,000,000."""
    corrupt_ppb: int = 0
    """Share corrupted. 0 to 1,000,000,000."""
    duplicate_ppb: int = 0
    """Share duplicated. 0 to 1,000,000,000."""
    reorder_ppb: int = 0
    """Share held back by `reorder_delay_ps`. 0 to 1,000,000,000."""
    reorder_delay_ps: int = 0
    """Delay of packets that are held back. 0 to 2,592,000,000,000,000,000."""
    ev: int | None = None
    """The only EV that `loss_ppb` acts on. None: all."""


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledFault(NestedRecord):
    """A fault: place, effects, and time."""

    place: FaultPlace
    """Place."""
    effects: FaultEffects
    """Effects."""
    start_ps: int = 0
    """Begin, by the clock of the fabric. 0 to 4,611,686,018,427,387,904."""
    duration_ps: int | None = None
    """Time until it ends. None: it lasts until it is repaired. 1 to 4,611,686,018,427,387,904."""
    period_ps: int = 0
    """Above 0: it acts in the first half of each period. 0 to 4,611,686,018,427,387,904."""


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorSettings(NestedRecord):
    """Settings of the emulated fabric."""

    shape: FabricShape
    """Numbers of hosts, planes and switches."""
    ports: PlanePorts
    """Ports of every plane that `unlike` does not replace."""
    seed: int
    """Seed of all random choices."""
    udp_port: int
    """UDP port of hosts and fabric. 1 to 65,535."""
    header_bytes: int
    """Bytes around a UDP datagram on the emulated wire. 0 to 65,535."""
    tick_ps: int
    """Interval at which queues are looked at while packets are inside. 1 to 1,000,000,000,000."""
    local: tuple[str, ...]
    """Address that a host binds, for each plane and host, hosts of plane 0 first."""
    advertised: tuple[str, ...]
    """Address that peers send to, in the same order."""
    unlike: tuple[PlanePorts, ...] = ()
    """Ports of each plane, where planes differ."""
