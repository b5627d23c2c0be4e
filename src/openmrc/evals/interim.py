"""Interim looks at a running comparison, without more false alarms than the level.

Looks come after whole epochs, so that the order of trials inside an epoch cannot bias them. At a look the statistic is
the paired z of all epochs so far. Its bound follows from the O'Brien-Fleming-like spending function of Lan and DeMets
(Biometrika 70, 1983), half of the level on each side, at the look's share of information, computed by the recursion of
Armitage, McPherson and Rowe (Journal of the Royal Statistical Society A 132, 1969). A look may also stop for futility,
if the remaining power under the trend so far is below a tenth (Lan, Simon and Halperin, 1982); that never raises the
rate of false alarms. With few samples bounds are quantiles of Student's t with the same tail (expansion 26.7.5 of
Abramowitz and Stegun).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from openmrc.evals.sizing import Size

__all__ = ["Looks", "bounds_of", "plan_looks", "stops", "student_bound"]

Values = npt.NDArray[np.float64]
NORMAL = NormalDist()
GRID = 1201
GRID_WIDTH = 8.0
FUTILITY_POWER = 0.1
FUTILITY_INFORMATION = 0.5  # an earlier trend is weak evidence: stopping on it would cost much power
PATHS = 20_000
SEED = 1


@dataclass(frozen=True)
class Looks:
    """Looks after whole epochs.

    Args:
        epochs: Number of epochs before each look; the last is the end.
        information: Share of the final information at each look.
        bounds: For the absolute value of z, at each look.
        saved_null: Share of trials that looks save on average if there is no difference.
        saved_effect: The same if the effect is as planned.
        power: With looks, of the planned effect, including the cost of futility stops.
        power_without: Of the same comparison without looks.
    """

    epochs: tuple[int, ...]
    information: tuple[float, ...]
    bounds: tuple[float, ...]
    saved_null: float
    saved_effect: float
    power: float
    power_without: float


def spent(level: float, information: float) -> float:
    """Level, of both sides together, that may be used up to a share of information."""
    if information >= 1:
        return level
    return 4 - 4 * NORMAL.cdf(NORMAL.inv_cdf(1 - level / 4) / math.sqrt(information))


def bounds_of(level: float, information: Sequence[float]) -> tuple[float, ...]:
    """Two-sided bounds of z at each look, whose crossing by chance has the probability `level` in all.

    `information` are the looks' shares of it, ascending; the last is 1.
    """
    bounds: list[float] = []
    grid = density = np.empty(0)
    for at, share in enumerate(information):
        target = spent(level, share) - (spent(level, information[at - 1]) if at else 0.0)
        scale = math.sqrt(share)
        new = np.linspace(-GRID_WIDTH * scale, GRID_WIDTH * scale, GRID)
        step = new[1] - new[0]
        if at == 0:
            reached = np.exp(-(new**2) / (2 * share)) / math.sqrt(2 * math.pi * share)
        else:
            gained = share - information[at - 1]
            kernel = np.exp(-((new[:, None] - grid[None, :]) ** 2) / (2 * gained)) / math.sqrt(2 * math.pi * gained)
            reached = kernel @ density * (grid[1] - grid[0])
        tail = _tail_bound(new, reached * step, target)
        bounds.append(tail / scale)
        grid, density = new, np.where(np.abs(new) < tail, reached, 0.0)
    return tuple(bounds)


def _tail_bound(grid: Values, mass: Values, target: float) -> float:
    """Value with the given mass beyond it, on both sides; linear between points."""
    half = len(grid) // 2
    above = mass[::-1]
    tails = (2 * np.cumsum(above) - above)[: half + 1]
    values = grid[::-1][: half + 1]
    return float(np.interp(target, tails, values))


def student_bound(bound: float, freedom: int) -> float:
    """Quantile of Student's t with the same tail as `bound` of the normal distribution."""
    z, v = bound, float(freedom)
    terms = (
        (z**3 + z) / (4 * v),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3),
    )
    return z + sum(terms)


def plan_looks(size: Size, looks: int) -> Looks:
    """Looks at a comparison, spread evenly over its epochs, at most one per epoch, and the trials that they save."""
    count = min(looks, size.epochs)
    epochs = tuple(sorted({-(-size.epochs * (at + 1) // count) for at in range(count)}))
    information = tuple(size.noise.variance(size.epochs) / max(size.noise.variance(k), 1e-300) for k in epochs)
    bounds = bounds_of(size.level, information)
    drift = size.effect / math.sqrt(max(size.noise.variance(size.epochs), 1e-300) / size.samples)
    saved_null, _ = _simulate(epochs, information, bounds, 0.0)
    saved_effect, power = _simulate(epochs, information, bounds, drift)
    return Looks(epochs, information, bounds, saved_null, saved_effect, power, size.power)


def _simulate(
    epochs: Sequence[int], information: Sequence[float], bounds: Sequence[float], drift: float
) -> tuple[float, float]:
    """Share of trials saved, and share of comparisons that cross a bound, over many random ones."""
    rng = np.random.default_rng(SEED)
    shares = np.array(information)
    steps = np.diff(shares, prepend=0.0)
    paths = np.cumsum(rng.standard_normal((PATHS, len(steps))) * np.sqrt(steps) + drift * steps, axis=1)
    used, found = 0.0, 0
    for values in paths:
        at, crossed = stops([float(one) for one in values / np.sqrt(shares)], information, bounds)
        used += epochs[at] / epochs[-1]
        found += crossed
    return 1 - used / PATHS, found / PATHS


def stops(z: Sequence[float], information: Sequence[float], bounds: Sequence[float]) -> tuple[int, bool]:
    """Index of the look that ends a comparison with the statistics `z`, and True if a bound was crossed there."""
    for at, value in enumerate(z):
        if abs(value) >= bounds[at]:
            return at, True
        goes_on = at + 1 == len(bounds) or information[at] < FUTILITY_INFORMATION
        if not goes_on and _power_left(abs(value), information[at], bounds[-1]) < FUTILITY_POWER:
            return at, False
    return len(z) - 1, False


def _power_left(z: float, information: float, bound: float) -> float:
    """Probability of crossing the last bound if the trend so far continues."""
    reached = z * math.sqrt(information)
    expected = reached / information
    return NORMAL.cdf((expected - bound) / math.sqrt(1 - information)) if information < 1 else 0.0
