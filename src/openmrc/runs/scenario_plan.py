"""A scenario file as a run between real processes: the same fabric, flows, faults and seed as in a simulation.

Real processes support flows that begin at once and end by themselves or with the scenario's `duration`. Other parts of
a scenario are refused in a sentence; `nic` (latencies), `sample`, `watch` and `expect` apply to simulations only.
"""

from __future__ import annotations

import numpy as np

from openmrc.errors import ConfigError
from openmrc.runs.run_plan import HOSTS_MAX, PAYLOAD_MTUS, RunPlan
from openmrc.sim import Scenario
from openmrc.sim.evs import EVS_LEAST, evs_of
from openmrc.sim.native_config import all_faults
from openmrc.sim.run import build_graph
from openmrc.sim.transports import MrcSection, Transport

__all__ = ["flows_of", "plan_of"]

_DEPTH = 16
_MESSAGE_TIME_S = 0.005  # of a message at the rate of all planes
_MESSAGE_BYTES = (16 * 1024, 256 * 1024)
_ONLY_SIMULATED = "`openmrc sim run` can do that"
_CARRIED_OVER = {"kind", "ev_selector", "controller", "active_per_port", "universe_per_port", "min_active", "mpr_units"}
_CARRIED_OVER |= {"probe_interval", "skip_lapse", "timeout_exponent", "linear_retries", "exponential_retries"}


def flows_of(scenario: Scenario) -> dict[tuple[int, int], int]:
    """Sender, receiver and bytes of every flow.

    Raises:
        ConfigError: a workload with dependencies, or one that does not fit the fabric.
    """
    graph = build_graph(scenario)
    if len(graph.dep_op) or len(graph.sends) < len(graph.kind) or np.any(graph.earliest_ps > 0):
        raise ConfigError(
            "workload",
            scenario.workload,
            "flows that all begin at once (flows, permutation or incast without gap, parallel and start) between real "
            "processes",
            hint=_ONLY_SIMULATED,
        )
    flows: dict[tuple[int, int], int] = {}
    for source, destination, size in zip(graph.host.tolist(), graph.peer.tolist(), graph.bytes.tolist(), strict=True):
        flows[source, destination] = flows.get((source, destination), 0) + size
    return flows


def plan_of(scenario: Scenario) -> RunPlan:
    """The run of a scenario, with its first transport of kind `mrc`.

    Raises:
        ConfigError: a feature that only simulations support.
    """
    transport = _mrc_of(scenario)
    section = transport.settings
    assert isinstance(section, MrcSection)
    _check(scenario, section)
    flows = flows_of(scenario)
    hosts = {host for pair in flows for host in pair}
    if len(hosts) > HOSTS_MAX:
        raise ConfigError("workload", f"{len(hosts)} hosts", f"at most {HOSTS_MAX} that send or receive")
    fabric = scenario.fabric
    return RunPlan.over(
        fabric,
        list(flows),
        flow_bytes=tuple(flows.values()),
        seconds=scenario.duration_ps / 1e12,
        faults=tuple(str(fault) for fault in all_faults(scenario)),
        seed=scenario.seed,
        payload_mtu=scenario.payload_mtu,
        message_bytes=_message_bytes(fabric.line_rate_bps),
        depth=_DEPTH,
        evs_per_plane=evs_of(section, fabric).known,
        connection=_connection(section, trimming=fabric.trims),
    )


def _mrc_of(scenario: Scenario) -> Transport:
    for transport in scenario.transports:
        if transport.kind == "mrc":
            return transport
    kinds = ", ".join(transport.kind for transport in scenario.transports)
    raise ConfigError("transports", kinds, "one of kind mrc between real processes", hint=_ONLY_SIMULATED)


def _check(scenario: Scenario, section: MrcSection) -> None:
    lanes = section.lanes or scenario.nic.lanes
    if lanes != 1:
        raise ConfigError("lanes", lanes, "1 between real processes", hint=_ONLY_SIMULATED)
    if scenario.fabric.nics_per_host != 1:
        raise ConfigError("fabric.nics_per_host", scenario.fabric.nics_per_host, "1 between real processes")
    if scenario.payload_mtu not in PAYLOAD_MTUS:
        allowed = ", ".join(str(mtu) for mtu in PAYLOAD_MTUS)
        raise ConfigError("payload_mtu", scenario.payload_mtu, f"{allowed} between real processes")
    for name in sorted(section.model_fields_set - _CARRIED_OVER - {"lanes"}):
        raise ConfigError(
            f"transports.{name}", getattr(section, name), "not set between real processes", hint=_ONLY_SIMULATED
        )


def _connection(section: MrcSection, *, trimming: bool) -> dict[str, object]:
    """The transport's section as settings of a connection; the plan supplies the missing ones."""
    settings: dict[str, object] = {
        "ev_selector": section.ev_selector,
        "controller": section.controller,
        "active_per_port": section.active_per_port or EVS_LEAST,
        "trimming": trimming,
    }
    said = section.model_fields_set
    same = ("min_active", "mpr_units", "timeout_exponent", "linear_retries", "exponential_retries")
    settings |= {name: getattr(section, name) for name in same if name in said}
    times = {"probe_interval": "probe_interval_us", "skip_lapse": "skip_lapse_us"}
    return settings | {ours: getattr(section, name) // 10**6 for name, ours in times.items() if name in said}


def _message_bytes(rate_bps: int) -> int:
    least, most = _MESSAGE_BYTES
    wanted = int(rate_bps / 8 * _MESSAGE_TIME_S)
    return min(max(1 << max(wanted, 1).bit_length() - 1, least), most)
