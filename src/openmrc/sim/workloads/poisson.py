"""Messages with random arrivals, and sizes drawn from a measured distribution."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from openmrc.errors import ConfigError
from openmrc.sim.files.cdf import SizeDistribution, load_sizes
from openmrc.sim.ops import OPS_MAX, OpGraph
from openmrc.sim.workloads.builder import Builder
from openmrc.sim.workloads.ranks import Ranks
from openmrc.sim.workloads.values import Bytes, Count, Duration, Load, Settings

__all__ = ["Poisson", "poisson"]


class Poisson(Settings):
    """A Poisson process: every message goes from a random rank to a random other, all equally likely.

    Sizes are `bytes`, or drawn from the file `sizes` (lines of `bytes probability`, cumulative, linear in between).
    `load` is the mean payload that all ranks send, as a share of all their NICs' rates. Messages arrive for `duration`,
    or there are `messages` of them.
    """

    name: Literal["poisson"]
    load: Load
    sizes: str | None = None
    bytes: Bytes | None = None
    duration: Duration | None = None
    messages: Count | None = None


def poisson(settings: Poisson, ranks: Ranks) -> OpGraph:
    """The messages in the order of their arrival.

    Raises:
        ConfigError: size or end is given twice or not at all, or the size file is invalid.
    """
    if len(ranks) < 2:
        raise ConfigError("hosts", len(ranks), "at least 2 hosts")
    for one, other in (("sizes", "bytes"), ("duration", "messages")):
        given = [name for name in (one, other) if getattr(settings, name) is not None]
        if len(given) != 1:
            raise ConfigError(one, getattr(settings, one), f"either {one} or {other}, one of the two")
    sizes = _sizes(settings, ranks.folder)
    mean_gap_ps = sizes.mean_bytes * 8e12 / (settings.load * len(ranks) * ranks.line_rate_bps)
    start_ps = _arrivals(settings, mean_gap_ps, ranks.rng)
    count = len(start_ps)
    if not count:
        raise ConfigError(
            "duration", settings.duration, f"long enough for one message; the mean interval is {mean_gap_ps:.0f} ps"
        )
    source = ranks.rng.integers(len(ranks), size=count)
    destination = (source + ranks.rng.integers(1, len(ranks), size=count)) % len(ranks)
    builder = Builder()
    job = builder.group("poisson")
    builder.sends(source, destination, sizes.draw(count, ranks.rng), earliest_ps=start_ps, job=job)
    return builder.build()


def _sizes(settings: Poisson, folder: Path) -> SizeDistribution:
    if settings.bytes is not None:
        return SizeDistribution(np.array([settings.bytes]), np.array([1.0]))
    assert settings.sizes is not None
    return load_sizes(folder / settings.sizes)


def _arrivals(settings: Poisson, mean_gap_ps: float, rng: np.random.Generator) -> np.ndarray:
    """Times in picoseconds, ascending."""
    if settings.messages is not None:
        count = settings.messages
    else:
        assert settings.duration is not None
        expected = settings.duration / mean_gap_ps
        count = int(rng.poisson(expected)) if expected < OPS_MAX else OPS_MAX + 1
    if count > OPS_MAX:
        raise ConfigError("load", settings.load, f"a load at which at most {OPS_MAX} messages arrive")
    if settings.messages is not None:
        return np.cumsum(rng.exponential(mean_gap_ps, count)).astype(np.int64)
    # Given their number, the arrivals of a Poisson process are uniform over its duration.
    return np.sort(rng.integers(settings.duration or 0, size=count)) if count else np.empty(0, np.int64)
