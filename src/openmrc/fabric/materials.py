"""Materials of a fabric: switch models, and the user's own tables of prices, powers and failure rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Failures", "Item", "Materials", "SwitchModel"]

# Items of the tables. A `transceiver` sits in a switch port cage or a NIC; `copper_cable` has none at its ends.
Item = Literal["t0", "t1", "t2", "nic", "transceiver", "fiber_cable", "copper_cable"]


@dataclass(frozen=True, slots=True)
class SwitchModel:
    """The properties of a switch that matter for a plan: maximum number of ports, and total capacity.

    `ports_max` bounds the radix if the rate of a port would allow more: 51.2 Tb/s are 64 ports of 800G, 512 of 100G.
    """

    name: str
    capacity_bps: int
    ports_max: int

    def radix(self, rate_bps: int) -> int:
        """Ports of this rate."""
        return min(self.capacity_bps // rate_bps, self.ports_max)


@dataclass(frozen=True, slots=True)
class Failures:
    """Expected failures of one piece, per year: the piece fails or flaps; missing values are not counted."""

    per_year: Mapping[Literal["link", "transceiver", "t0", "t1", "t2", "nic"], float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Materials:
    """The user's tables. Prices in `currency` per piece, powers in watts per piece; missing items are not guessed.

    `switches`: the model of each tier, if specified. `transceiver_bps`: rate of one transceiver; if above the rate of a
    link, it carries several links, which fail together. `copper`: tiers of links without optics.
    """

    switches: Mapping[Literal["t0", "t1", "t2"], SwitchModel] = field(default_factory=dict)
    transceiver_bps: int | None = None
    copper: frozenset[Literal["nic", "t0", "t1"]] = frozenset()
    prices: Mapping[Item, float] = field(default_factory=dict)
    powers_watts: Mapping[Item, float] = field(default_factory=dict)
    failures: Failures = field(default_factory=Failures)
    currency: str = "USD"
