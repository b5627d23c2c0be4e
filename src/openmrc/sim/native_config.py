"""A scenario as the dictionary that the native simulation takes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from openmrc.fabric import Fabric, Fault
from openmrc.fabric.model import MRC_DATA_BYTES, PORT_TIERS
from openmrc.sim.evs import evs_of
from openmrc.sim.scenario import Scenario
from openmrc.sim.signals import signal_of
from openmrc.sim.transports import MrcSection, Transport

__all__ = ["all_faults", "lanes_of", "native_config", "native_faults"]

USUAL_TIMEOUT_EXPONENT, TIMEOUT_EXPONENT_MAX = 8, 24
TIMEOUT_UNIT_PS = 1_024_000
NOMINAL_BYTES = 48  # UDP and IPv6: what the protocol counts around a datagram, whatever the encapsulation


def lanes_of(scenario: Scenario, transport: Transport) -> int:
    """QPs per peer: the transport's own number, or that of the NIC."""
    return transport.lanes or scenario.nic.lanes


def native_config(scenario: Scenario, transport: Transport, threads: int) -> dict[str, Any]:
    """Settings of the native simulation of one transport."""
    fabric = scenario.fabric
    return {
        "shape": {
            "planes": fabric.planes,
            "hosts": fabric.hosts,
            "hosts_per_t0": fabric.hosts_per_t0,
            "t1s": fabric.t1s,
            "t0s_per_pod": fabric.t0s_per_pod,
            "t1_uplinks": fabric.t1_uplinks,
            "routing": fabric.routing,
        },
        **fabric.native_ports(PORT_TIERS, last_hop_marks=transport.settings.slows_by_marks),
        "queued": _queued(fabric),
        "seed": scenario.seed,
        "payload_mtu": scenario.payload_mtu,
        "header_bytes": fabric.header_bytes,
        "base_rtt_ps": scenario.base_rtt_ps,
        "nic_latency_ps": scenario.nic.latency_ps,
        "doorbell_ps": scenario.nic.doorbell_ps,
        "lanes": lanes_of(scenario, transport),
        "threads": threads,
        "transport": _transport(scenario, transport),
        "reconvergence": _reconvergence(scenario, transport),
    }


def _reconvergence(scenario: Scenario, transport: Transport) -> dict[str, int] | None:
    """Where switches choose the path; one that the sender names leads over the same links for ever."""
    if transport.kind == "mrc" and scenario.fabric.routing == "modulo":
        return None
    return {name: time for name, time in asdict(scenario.reconvergence).items() if time is not None}


def _transport(scenario: Scenario, transport: Transport) -> dict[str, Any]:
    """Settings of the transport. What congestion control is told of its surroundings is what the fabric is."""
    settings = transport.native()
    if not isinstance(transport.settings, MrcSection):
        return settings
    fabric = scenario.fabric
    evs = evs_of(transport.settings, fabric)
    settings |= {"evs_per_port": evs.active, "universe_per_port": evs.known}
    settings["cc"] |= {
        "mtu_bytes": scenario.payload_mtu + MRC_DATA_BYTES + NOMINAL_BYTES,
        "link_rate_bps": fabric.line_rate_bps,
        "base_rtt_ns": -(-scenario.base_rtt_ps // 1000),
        "trimming": fabric.trims and settings["trim_nack"],
    }
    settings["path_signal"] = signal_of(transport.settings, fabric)
    settings.setdefault("timeout_exponent", _timeout_exponent(scenario.base_rtt_ps))
    if "paths" in scenario.watch.series:
        # Path events cost memory, so they are asked for; of the watched hosts, or of all when none is.
        settings |= {"path_events": True, "watched": list(scenario.watch.hosts)}
    return settings


def _timeout_exponent(base_rtt_ps: int) -> int:
    """The usual 8 (262 us), or what leaves room for four round trips: a shorter timer repeats what is on its way."""
    exponent = USUAL_TIMEOUT_EXPONENT
    while TIMEOUT_UNIT_PS << exponent < 4 * base_rtt_ps and exponent < TIMEOUT_EXPONENT_MAX:
        exponent += 1
    return exponent


def _queued(fabric: Fabric) -> dict[str, Any] | None:
    """Real queues, where a buffer is shared or PFC is on."""
    shared, pfc = fabric.shared_buffer, fabric.pfc
    if shared is None and pfc is None:
        return None
    return {
        "buffer_bytes": shared.bytes if shared else 0,
        "alpha_permille": shared.alpha_permille if shared else 1000,
        "pfc": pfc is not None,
        "pfc_xoff_bytes": pfc.xoff_bytes if pfc else 0,
        "pfc_xon_bytes": pfc.xon_bytes if pfc else 0,
    }


def all_faults(scenario: Scenario) -> list[Fault]:
    """Every fault of a run: the fabric's, the scenario's, and random flaps as drawn from its seed."""
    faults = [*scenario.fabric.faults, *scenario.faults]
    for index, flaps in enumerate(scenario.random_faults):
        faults += flaps.draw(scenario.fabric, scenario.seed, index, scenario.duration_ps)
    return faults


def native_faults(scenario: Scenario) -> list[tuple[str, tuple[Any, ...]]]:
    """Every fault with the arguments of the native `add_fault`; one that names many places comes many times."""
    return [
        (str(fault), (target, fault.effects(), fault.start_ps, fault.duration_ps, fault.period_ps))
        for fault in all_faults(scenario)
        for target in fault.target.native_targets(scenario.fabric)
    ]
