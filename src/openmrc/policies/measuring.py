"""What a selector costs per packet, and how it steers, without a fabric around it."""

from __future__ import annotations

from dataclasses import dataclass

from openmrc._native import paths
from openmrc._native import policies as native
from openmrc.errors import ConfigError, did_you_mean

__all__ = ["SelectorRun", "run_ev_selector"]


@dataclass(frozen=True, slots=True)
class SelectorRun:
    """How an EV selector did.

    Args:
        ns_per_packet: Nanoseconds for choosing one EV and taking in one packet's feedback, by the wall clock.
        marked_share: Packets that went over paths that mark, 0 to 1.
    """

    ns_per_packet: float
    marked_share: float


def run_ev_selector(
    name: str,
    *,
    packets: int = 1_000_000,
    ports: int = 8,
    evs_per_port: int = 16,
    marking_per_port: int = 4,
    inflight: int = 64,
    seed: int = 1,
) -> SelectorRun:
    """A selector's cost and steering on `ports` x `evs_per_port` idle paths of which some mark all that they carry.

    Args:
        name: Of the engine or registered.
        packets: Packets sent.
        ports: 1 to 16.
        evs_per_port: Paths of a port.
        marking_per_port: So many of them mark.
        inflight: Packets on their way at any time: feedback comes so many packets later.
        seed: Same seed, same choices.

    Raises:
        ConfigError: no selector has this name, or a number is out of range.
    """
    known = paths.selector_names()
    if name not in known:
        raise ConfigError("ev_selector", name, ", ".join(known), hint=did_you_mean(name, known))
    limits = {"packets": packets, "ports": ports, "evs_per_port": evs_per_port, "inflight": inflight}
    for field, value in limits.items():
        if value < 1:
            raise ConfigError(field, value, "a whole number above 0")
    if ports > 16 or ports * evs_per_port > 1024:
        raise ConfigError("evs_per_port", evs_per_port, "1024 paths over all ports, which are 16 at most")
    result = native.run_selector(
        name,
        packets=packets,
        ports=ports,
        evs_per_port=evs_per_port,
        marking=marking_per_port,
        inflight=inflight,
        seed=seed,
    )
    return SelectorRun(result["elapsed_ns"] / packets, result["marked"] / packets)
