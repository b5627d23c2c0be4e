"""Settings of a run that distort its figures, with the values to set instead."""

from __future__ import annotations

from openmrc.sim.evs import Evs, evs_of
from openmrc.sim.scenario import Scenario
from openmrc.sim.transports import MrcSection, Transport

__all__ = ["hints"]


def hints(scenario: Scenario, transport: Transport, queue_drops: int) -> tuple[str, ...]:
    """Sentences about one transport of a scenario, each beginning with its setting.

    Args:
        scenario: Of the run.
        transport: Of the run.
        queue_drops: Packets that were lost to full queues.
    """
    if isinstance(transport.settings, MrcSection):
        return _of_evs(transport.settings, evs_of(transport.settings, scenario.fabric))
    return _of_marks(scenario, transport) + _of_losses(scenario, transport, queue_drops)


def _of_losses(scenario: Scenario, transport: Transport, queue_drops: int) -> tuple[str, ...]:
    if transport.kind != "roce" or scenario.fabric.pfc is not None or queue_drops == 0:
        return ()
    why = f"{queue_drops:,} packets were lost to full queues, and {transport.name} resends all that follows one"
    return (f"fabric.pfc: off: {why}; RoCE networks mostly have pfc: on",)


def _of_evs(settings: MrcSection, evs: Evs) -> tuple[str, ...]:
    found = []
    if settings.active_per_port is not None and evs.active < evs.wanted:
        found.append(
            f"active_per_port: {evs.wanted} configured, {evs.active} used: a plane has {evs.active} different paths"
        )
    if settings.universe_per_port is not None and evs.known < settings.universe_per_port:
        found.append(
            f"universe_per_port: {settings.universe_per_port} configured, {evs.known} used: "
            f"a plane has {evs.known} different paths"
        )
    if evs.active < evs.paths:
        more = f"up to {evs.room} are possible" if evs.active < evs.room else f"{evs.room} are the most of a QP's 1,024"
        found.append(
            f"active_per_port: {evs.active} EVs for {evs.paths} paths of a plane load some links more than others; "
            f"{more}"
        )
    return tuple(found)


def _of_marks(scenario: Scenario, transport: Transport) -> tuple[str, ...]:
    if not transport.settings.slows_by_marks:
        return ()
    found = [plane.ecn for plane in scenario.fabric.each_plane if plane.ecn is not None]
    if not found:
        return (f"fabric.ecn: off, but {transport.name} reacts to marks only; set a ramp or a step",)
    if not all(ecn.marks("nic_down", last_hop=True) for ecn in found):
        why = f"{transport.name} reduces its rate in an incast by marks only"
        return (f"fabric.ecn.last_hop: false, but {why}; remove it to give marks there to transports that need them",)
    return ()
