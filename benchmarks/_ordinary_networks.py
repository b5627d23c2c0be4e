"""Random ordinary networks, by seed, within the capacity of two cores."""

from __future__ import annotations

import math
import random

from openmrc.testbed.plain import PlainNetwork, PlainPlane

__all__ = ["describe", "draw"]

_RATE_BPS = (10e6, 1000e6)
_FIFO_BYTES = (20e3, 4e6)
_DELAY_US = (50.0, 25_000.0)  # one way, so that round trips reach 50 ms
_SUM_BPS_MAX = 1.5e9
_JUMBO_FROM_BPS = 500e6  # short packets would exceed the machine's processor time


def draw(count: int, seed: int) -> list[PlainNetwork]:
    """This number of networks of two hosts; the same for the same seed."""
    numbers = random.Random(seed)
    return [_network(numbers) for _ in range(count)]


def _network(numbers: random.Random) -> PlainNetwork:
    while True:
        rates = [_between(numbers, *_RATE_BPS) for _ in range(numbers.randint(2, 5))]
        if sum(rates) <= _SUM_BPS_MAX:
            break
    jumbo = sum(rates) > _JUMBO_FROM_BPS or numbers.random() < 0.3
    delayed = numbers.random() < 0.5
    planes = [
        PlainPlane(
            int(rate),
            max(int(_between(numbers, *_FIFO_BYTES)), 20_000),
            9000 if jumbo else 1500,
            int(_between(numbers, *_DELAY_US)) if delayed else 0,
        )
        for rate in rates
    ]
    return PlainNetwork(tuple(planes))


def _between(numbers: random.Random, least: float, most: float) -> float:
    """Evenly on a logarithmic scale."""
    return math.exp(numbers.uniform(math.log(least), math.log(most)))


def describe(network: PlainNetwork) -> str:
    """Description in one line."""
    return f"MTU {network.planes[0].mtu_bytes}; " + ", ".join(
        f"{plane.rate_bps / 1e6:.0f} Mb/s, {plane.fifo_bytes / 1e3:.0f} kB, {2 * plane.delay_us / 1e3:.1f} ms"
        for plane in network.planes
    )
