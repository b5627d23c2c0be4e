"""Cost of a selector per packet, and its effect on marked paths, without a fabric."""

from __future__ import annotations

from dataclasses import dataclass

from openmrc._native import paths
from openmrc._native import policies as native
from openmrc.errors import ConfigError, did_you_mean

__all__ = ["SelectorRun", "run_ev_selector"]


@dataclass(frozen=True, slots=True)
class SelectorRun:
    """Results of an EV selector.

    Args:
        ns_per_packet: Nanoseconds of wall time to choose one EV and process one packet's feedback.
        marked_share: Share of packets on paths that mark, 0 to 1.
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
    in_flight: int = 64,
    seed: int = 1,
) -> SelectorRun:
    """A selector's cost and reaction on `ports` x `evs_per_port` idle paths, some of which mark all packets.

    Args:
        name: A built-in or registered name.
        packets: Packets sent.
        ports: 1 to 16.
        evs_per_port: Paths of a port.
        marking_per_port: Number of these that mark.
        in_flight: Packets in flight at any time: feedback is delayed by this many packets.
        seed: Equal seeds give equal choices.

    Raises:
        ConfigError: no selector has this name, or a number is out of range.
    """
    known = paths.selector_names()
    if name not in known:
        raise ConfigError("ev_selector", name, ", ".join(known), hint=did_you_mean(name, known))
    limits = {"packets": packets, "ports": ports, "evs_per_port": evs_per_port, "in_flight": in_flight}
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
        in_flight=in_flight,
        seed=seed,
    )
    return SelectorRun(result["elapsed_ns"] / packets, result["marked"] / packets)
