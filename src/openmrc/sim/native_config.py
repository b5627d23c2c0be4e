"""A scenario as the settings of the native simulation."""

from __future__ import annotations

from openmrc.fabric import Fabric, Fault
from openmrc.fabric.model import MRC_DATA_BYTES
from openmrc.fabric.native_settings import ScheduledFault
from openmrc.sim.evs import evs_of
from openmrc.sim.native_settings import MrcSettings, Reconvergence, SharedQueues, SimulationSettings
from openmrc.sim.scenario import Scenario
from openmrc.sim.signals import receiver_settings, signal_of
from openmrc.sim.transports import DctcpSection, MrcSection, RoceSection, Transport
from openmrc.verbs import PathSignal

__all__ = ["all_faults", "lanes_of", "native_config", "native_faults"]

USUAL_TIMEOUT_EXPONENT, TIMEOUT_EXPONENT_MAX = 8, 24
TIMEOUT_UNIT_PS = 1_024_000
NOMINAL_BYTES = 48  # UDP and IPv6: the protocol's nominal bytes around a datagram, for any encapsulation


def lanes_of(scenario: Scenario, transport: Transport) -> int:
    """QPs per peer: the transport's own number, or that of the NIC."""
    return transport.lanes or scenario.nic.lanes


def native_config(scenario: Scenario, transport: Transport, threads: int) -> SimulationSettings:
    """Settings of the native simulation of one transport."""
    fabric = scenario.fabric
    ports, unlike = fabric.native_ports(last_hop_marks=transport.settings.slows_by_marks)
    return SimulationSettings(
        shape=fabric.native_shape,
        ports=ports,
        unlike=unlike,
        queued=_queued(fabric),
        reconvergence=_reconvergence(scenario, transport),
        seed=scenario.seed,
        payload_mtu=scenario.payload_mtu,
        header_bytes=fabric.header_bytes,
        base_rtt_ps=scenario.base_rtt_ps,
        nic_latency_ps=scenario.nic.latency_ps,
        doorbell_ps=scenario.nic.doorbell_ps,
        lanes=lanes_of(scenario, transport),
        threads=threads,
        mrc=_mrc(scenario, transport.settings) if isinstance(transport.settings, MrcSection) else None,
        roce=transport.settings.native() if isinstance(transport.settings, RoceSection) else None,
        dctcp=transport.settings.native() if isinstance(transport.settings, DctcpSection) else None,
    )


def _reconvergence(scenario: Scenario, transport: Transport) -> Reconvergence | None:
    """Reconvergence applies if switches choose the path; a path chosen by the sender always uses the same links."""
    if transport.kind == "mrc" and scenario.fabric.routing == "modulo":
        return None
    return Reconvergence(down_ps=scenario.reconvergence.down_ps, blackhole_ps=scenario.reconvergence.blackhole_ps)


def _mrc(scenario: Scenario, settings: MrcSection) -> MrcSettings:
    """Settings of MRC. Congestion control gets the fabric's properties as its network parameters."""
    fabric = scenario.fabric
    evs = evs_of(settings, fabric)
    exponent = settings.timeout_exponent
    return settings.native(
        active_per_port=evs.active,
        universe_per_port=evs.known,
        signal=PathSignal[signal_of(settings, fabric).upper()],
        **receiver_settings(settings, fabric),
        timeout_exponent=_timeout_exponent(scenario.base_rtt_ps) if exponent is None else exponent,
        # Path events cost memory, so they are optional; of the watched hosts, or of all if none is watched.
        path_events="paths" in scenario.watch.series,
        watched=scenario.watch.hosts,
        cc=settings.cc.native(
            mtu_bytes=scenario.payload_mtu + MRC_DATA_BYTES + NOMINAL_BYTES,
            link_rate_bps=fabric.line_rate_bps,
            base_rtt_ns=-(-scenario.base_rtt_ps // 1000),
            trimming=fabric.trims and settings.trim_nack,
        ),
    )


def _timeout_exponent(base_rtt_ps: int) -> int:
    """The usual 8 (262 us), or room for four round trips: a shorter timer would repeat packets in flight."""
    exponent = USUAL_TIMEOUT_EXPONENT
    while TIMEOUT_UNIT_PS << exponent < 4 * base_rtt_ps and exponent < TIMEOUT_EXPONENT_MAX:
        exponent += 1
    return exponent


def _queued(fabric: Fabric) -> SharedQueues | None:
    """Settings of real queues, which a shared buffer or PFC requires."""
    shared, pfc = fabric.shared_buffer, fabric.pfc
    if shared is None and pfc is None:
        return None
    return SharedQueues(
        buffer_bytes=shared.bytes if shared else 0,
        alpha_permille=shared.alpha_permille if shared else 1000,
        pfc=pfc is not None,
        pfc_xoff_bytes=pfc.xoff_bytes if pfc else 0,
        pfc_xon_bytes=pfc.xon_bytes if pfc else 0,
    )


def all_faults(scenario: Scenario) -> list[Fault]:
    """Every fault of a run: the fabric's, the scenario's, and random flaps drawn from its seed."""
    faults = [*scenario.fabric.faults, *scenario.faults]
    for index, flaps in enumerate(scenario.random_faults):
        faults += flaps.draw(scenario.fabric, scenario.seed, index, scenario.duration_ps)
    return faults


def native_faults(scenario: Scenario) -> list[tuple[str, ScheduledFault]]:
    """Every fault with its text, for the native `add_fault`; a fault at many places gives many of them."""
    return [
        (str(fault), fault.at(place))
        for fault in all_faults(scenario)
        for place in fault.target.places(scenario.fabric)
    ]
