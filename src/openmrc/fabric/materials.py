"""What a fabric is bought as: switch models, and the user's own tables of prices, powers and failure rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Failures", "Item", "Materials", "SwitchModel"]

# What tables name. A `transceiver` sits in a switch port cage or a NIC; `copper_cable` has none at its ends.
Item = Literal["t0", "t1", "t2", "nic", "transceiver", "fiber_cable", "copper_cable"]


@dataclass(frozen=True, slots=True)
class SwitchModel:
    """A switch by what matters for a plan: so many ports at most, so much in all.

    `ports_max` bounds the radix where the rate of a port would allow more: 51.2 Tbit/s are 64 ports of 800G, 512 of
    100G.
    """

    name: str
    capacity_bps: int
    ports_max: int

    def radix(self, rate_bps: int) -> int:
        """Ports of this rate."""
        return min(self.capacity_bps // rate_bps, self.ports_max)


@dataclass(frozen=True, slots=True)
class Failures:
    """Expected failures of one piece, per year: the piece is gone or flaps; what is not given is not counted."""

    per_year: Mapping[Literal["link", "transceiver", "t0", "t1", "t2", "nic"], float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Materials:
    """What the user's tables say. Prices in `currency` a piece, powers in watts a piece; a missing item is not guessed.

    `switches`: the model of each tier, where the file names one. `transceiver_bps`: rate of one transceiver; where it
    is above the rate of a link, it carries several links, which fail together. `copper`: tiers of links without optics.
    """

    switches: Mapping[Literal["t0", "t1", "t2"], SwitchModel] = field(default_factory=dict)
    transceiver_bps: int | None = None
    copper: frozenset[Literal["nic", "t0", "t1"]] = frozenset()
    prices: Mapping[Item, float] = field(default_factory=dict)
    powers_watts: Mapping[Item, float] = field(default_factory=dict)
    failures: Failures = field(default_factory=Failures)
    currency: str = "USD"
