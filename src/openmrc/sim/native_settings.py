"""Settings of a simulated cluster, as the native simulation takes them.

Written by tools/spec.py from spec/simulator.toml: edit that, then `make spec`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from openmrc.fabric.native_settings import FabricShape, PlanePorts
from openmrc.record import Family, NestedRecord, Record
from openmrc.verbs.enums import PathSignal
from openmrc.verbs.parameters import CcConfig

__all__ = [
    "DctcpSettings",
    "DeniedPath",
    "MrcSettings",
    "Reconvergence",
    "RoceSettings",
    "SharedQueues",
    "SimulationSettings",
]

_family = Family(
    renamed={
        "mpr": "mpr_units",
        "max_wimm": "wimm_max",
        "no_trim_nack": "trim_nack",
        "mrc_timeout": "timeout_exponent",
        "linear_retry_count": "linear_retries",
        "exponential_retry_count": "exponential_retries",
    },
)


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class SharedQueues(Record):
    """Real queues in place of arithmetic, which a shared buffer and PFC need."""

    buffer_bytes: int = 0
    """Buffer of a switch that its ports share; 0: each port has its own queues alone."""
    alpha_permille: int = 1000
    """Share of the free buffer that a queue may take."""
    pfc: bool = False
    """Switches pause senders (PFC)."""
    pfc_xoff_bytes: int = 0
    """Bytes of a port's arrivals at which its sender is paused."""
    pfc_xon_bytes: int = 0
    """Bytes at which it may send again."""


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class Reconvergence(Record):
    """Time that a link has to be dead, or alive again, before all switches avoid it, or use it."""

    down_ps: int | None = None
    """Of a link that is down, which its two ends see at once. None: never. 0 to 4,611,686,018,427,387,904."""
    blackhole_ps: int | None = None
    """Of a silent one, which they infer from missing hellos. None: never. 0 to 4,611,686,018,427,387,904."""


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class DeniedPath(Record):
    """A path that no QP may use from the start, as a deny list of the controller would have it."""

    plane: int
    """Plane. 0 to 15."""
    t0_uplink: int
    """Uplink of the T0. 0 to 65,535."""
    t1_uplink: int = 0
    """Uplink of the T1. 0 to 65,535."""


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class MrcSettings(NestedRecord):
    """MRC: the engine, the very one that runs on the wire."""

    ev_selector: str = "mrc"
    """Policy that chooses the EV of each burst: one of the engine's, or one registered with `openmrc.policies`."""
    controller: str = "nscc"
    """Congestion control: `nscc`, `none`, or one registered with `openmrc.policies`. With `none` the window is the MPR,
    which fills any queue.
    """
    signal: PathSignal = PathSignal.MARKS
    """Signal of congestion on the planes."""
    active_per_port: int = 32
    """EVs in use at a time on each port; the rest is the backup set. 1 to 1,024."""
    universe_per_port: int = 32
    """EVs of each port, those in use and their backups. 1 to 8,192."""
    min_active: int = 1
    """No EV becomes ASSUMED_BAD where that would leave fewer usable ones (GOOD or SKIP). 1 to 65,535."""
    probe_successes: int = 3
    """Answered probes in a row that revive an EV. 1 to 255."""
    probe_interval_ps: int = 10_000_000_000
    """Between two probes of an EV that is ASSUMED_BAD, at least. 0 to 3,600,000,000,000,000."""
    skip_lapse_ps: int = 0
    """An EV in SKIP becomes GOOD after so long out of use at the latest; 0: when its turn comes. 0 to
    3,600,000,000,000,000.
    """
    reverse_probe_interval_ps: int = 0
    """Time between two probes of the paths for answers. 0: two base round trips, 1 ms at least where `signal` is not
    MARKS. 0 to 3,600,000,000,000,000.
    """
    half_marked_rule: bool = False
    """While more than half of the active EVs are in SKIP, none is passed over (UEC)."""
    marked_probe_revives_to_good: bool = False
    """A marked answer to a probe revives an EV to GOOD, in place of SKIP (record 0003)."""
    mpr_units: int = 32
    """Receive window in units of 128 packets: limit of the peer's packets in flight. 1 to 255. `mpr` in the MRC API."""
    wimm_max: int = 1024
    """WRITE_IMM messages in flight. Every message of a simulation ends in one, so that its receipt is seen: the NICs'
    default of 32 would bound it. 1 to 65,535. `max_wimm` in the MRC API.
    """
    sack_bytes: int = 4096
    """A SACK is sent after this many bytes at the latest; every packet counts as at least 1,024. 1 to 1,048,576."""
    trim_nack: bool = True
    """Trimmed packets are answered with a NACK. The opposite of `no_trim_nack` in the MRC API."""
    dynamic_mpr: bool = False
    """The receive window may change while the QP lives (`set_receive_window`)."""
    nack_out_of_window: bool = True
    """A PSN above the window is answered with a NACK; otherwise it is dropped silently."""
    timeout_exponent: int = 8
    """Base of the retransmission timer, 1.024 us x 2^n. 0 to 24. `mrc_timeout` in the MRC API."""
    linear_retries: int = 7
    """Timeouts at the same interval. 0 to 7. `linear_retry_count` in the MRC API."""
    exponential_retries: int = 25
    """Timeouts at doubling intervals of 17 s at most, after the linear ones; then the QP fails. 25: for ever. 0 to 25.
    `exponential_retry_count` in the MRC API.
    """
    path_events: bool = False
    """Changes of paths are kept, which costs memory."""
    watched: tuple[int, ...] = ()
    """Hosts whose changes of paths are kept; empty: all."""
    denied: tuple[DeniedPath, ...] = ()
    """Paths that no QP may use."""
    cc: CcConfig = field(default_factory=CcConfig)
    """Surroundings and parameters of congestion control."""


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class RoceSettings(Record):
    """RoCEv2 RC: go-back-N, one path per QP."""

    dcqcn: bool = True
    """DCQCN; false: every QP sends at the line rate and only PFC slows it."""
    cnp_interval_ps: int = 50_000_000
    """N: at most one CNP per QP in this time. 0 to 3,600,000,000,000,000."""
    alpha_timer_ps: int = 55_000_000
    """K: alpha decays once per so much time without CNP; above `cnp_interval_ps`. 1 to 3,600,000,000,000,000."""
    increase_timer_ps: int = 55_000_000
    """T: one step up per so much time. 1 to 3,600,000,000,000,000."""
    increase_bytes: int = 10_000_000
    """B: one step up per this many bytes sent. 1 to 2,147,483,648."""
    gain_shift: int = 8
    """g = 1/2^n. 1 to 16."""
    recovery_stages: int = 5
    """F: steps of fast recovery before the target itself rises. 0 to 100."""
    clamp_target: bool = False
    """Every CNP makes the rate of that moment the target, as the paper has it. False: only the first CNP after a step
    up does, so that a series of CNPs is one event, as in NVIDIA's firmware (CLAMP_TGT_RATE) and the authors' simulator.
    """
    rate_ai_bps: int = 0
    """Additive step of the target; 0: a thousandth of the port's rate, which is the paper's 40 Mb/s for its 40 Gb/s. 0
    to 100,000,000,000,000.
    """
    rate_hai_bps: int = 0
    """Hyper step; 0: ten times `rate_ai_bps`, the ratio of NVIDIA's 50 and 5 Mb/s. 0 to 100,000,000,000,000."""
    rate_min_bps: int = 0
    """Floor; 0: a thousandth of the port's rate (100 Mb/s of 100 Gb/s in the DCQCN that accompanies HPCC, SIGCOMM 2019;
    the paper names none). 0 to 100,000,000,000,000.
    """
    ack_packets: int = 4
    """The requester requests an acknowledgement in every n-th packet, and in the last one of a message. 1 to 1,024."""
    timeout_ps: int = 4_194_304_000
    """First retransmission timer: 4.096 us x 2^10. The usual value of verbs is 14 (67 ms), but NICs with adaptive
    retransmission try again after a few milliseconds; with 67 ms every lost tail would decide the run, which is not
    compared here. Much less would fire while PFC holds a path up. 1 to 3,600,000,000,000,000.
    """
    timeout_max_ps: int = 67_108_864_000
    """Adaptive retransmission waits longer each time that nothing comes back, up to the usual 4.096 us x 2^14: eight
    timeouts of 4 ms would end a QP before routing has found another way. 1 to 3,600,000,000,000,000.
    """
    retries: int = 7
    """Timeouts in a row that are answered by sending again; the next one ends the QP. `retry_cnt` of verbs, where 7 is
    the most and the usual value. 0 to 255.
    """
    window_bytes: int = 0
    """Most that a QP has unacknowledged, counted in full packets; 0: PSNs are the only bound (2^23), as in a NIC. 0 to
    1,099,511,627,776.
    """
    failover: bool = True
    """A QP whose port goes down sends through the next port that is up, as behind a bonded interface; lost packets are
    sent again by timeout. False: it waits for its port and fails after `retries`.
    """


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class DctcpSettings(Record):
    """DCTCP over ECMP, one path per connection."""

    gain_shift: int = 4
    """g = 1/2^n (RFC 8257, section 4.1; the same in Linux). 1 to 10."""
    initial_window: int = 10
    """First window (RFC 6928). 1 to 65,536."""
    min_window: int = 2
    """Smallest window after a mark or a loss (Linux dctcp_ssthresh). 1 to 65,536."""
    window_bytes: int = 0
    """Most in flight, as a receive buffer would bound it; 0: no bound. 0 to 1,099,511,627,776."""
    reordering_packets: int = 3
    """DupThresh of RFC 6675: a packet is lost once this many later ones have arrived. 1 to 65,536."""
    ack_packets: int = 2
    """Delayed acknowledgements (RFC 5681): one per this many packets. 1 to 64."""
    ack_delay_ps: int = 1_000_000_000
    """The longest that one waits. Linux has 40 ms, which is above a data centre's smallest RTO; it has to be below. 1
    to 3,600,000,000,000,000.
    """
    rto_min_ps: int = 10_000_000_000
    """Smallest RTO. RFC 6298 has 1 s and Linux 200 ms; data centres set 1 to 10 ms (Vasudevan et al., SIGCOMM 2009; the
    DCTCP paper measured with 10 ms). 1 to 3,600,000,000,000,000.
    """
    rto_max_ps: int = 120_000_000_000_000
    """Largest RTO (Linux TCP_RTO_MAX). 1 to 3,600,000,000,000,000."""
    retries: int = 15
    """Timeouts in a row before it gives up (Linux tcp_retries2). 0 to 255."""
    tail_loss_probe: bool = True
    """RFC 8985, section 7; on in Linux since 3.10."""
    failover: bool = False
    """A flow whose interface is down moves to the next port that is up, as behind a bonded interface. False: a TCP flow
    belongs to its interface, and times out while that is down.
    """


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings(NestedRecord):
    """Settings of one simulation: a fabric, its NICs, and exactly one of the three transports."""

    shape: FabricShape
    """Numbers of hosts, planes and switches."""
    ports: PlanePorts
    """Ports of every plane that `unlike` does not replace."""
    seed: int
    """Seed of all random choices."""
    payload_mtu: int
    """Payload of a full packet. 256 to 8,192."""
    header_bytes: int
    """Bytes of every packet on the wire around the transport's own header and payload: UDP, IP, encapsulation, Ethernet
    framing; the ICRC is the transport's. 0 to 65,535.
    """
    base_rtt_ps: int
    """Round trip of a full packet and its acknowledgement across the longest path while nothing waits. 0 to
    3,600,000,000,000,000.
    """
    nic_latency_ps: int
    """Delay of every packet in the sending and in the receiving NIC. 0 to 3,600,000,000,000,000."""
    lanes: int
    """QPs (connections of DCTCP) per peer. 1 to 65,535."""
    unlike: tuple[PlanePorts, ...] = ()
    """Ports of each plane, where planes differ."""
    queued: SharedQueues | None = None
    """Real queues. None: queues by arithmetic."""
    reconvergence: Reconvergence | None = None
    """Time until routing avoids a dead link. None: never."""
    doorbell_ps: int = 0
    """Time from the start of a send to its first packet. 0 to 3,600,000,000,000,000."""
    threads: int = 1
    """Threads of the simulation; the result does not depend on them. 1 to 256."""
    mrc: MrcSettings | None = None
    """MRC."""
    roce: RoceSettings | None = None
    """RoCEv2."""
    dctcp: DctcpSettings | None = None
    """DCTCP."""
