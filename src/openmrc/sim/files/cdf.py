"""Distributions of message sizes: lines of `bytes probability`, cumulative."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openmrc.errors import ConfigError
from openmrc.sim.files.text import Line, read_lines
from openmrc.sim.ops import Array

__all__ = ["SizeDistribution", "load_sizes"]


@dataclass(frozen=True, eq=False)
class SizeDistribution:
    """Message sizes: up to `size_bytes[i]` with `probability[i]`, linear in between, ending at 1.

    A first probability above 0 is the share of messages of exactly the first size.
    """

    size_bytes: Array
    probability: Array

    @property
    def mean_bytes(self) -> float:
        """The mean of the distribution."""
        shares = np.diff(self.probability)
        middles = (self.size_bytes[1:] + self.size_bytes[:-1]) / 2
        return float(self.probability[0] * self.size_bytes[0] + (shares * middles).sum())

    def draw(self, count: int, rng: np.random.Generator) -> Array:
        """`count` sizes, whole and at least 1."""
        sizes = np.interp(rng.random(count), self.probability, self.size_bytes)
        return np.maximum(np.rint(sizes), 1).astype(np.int64)


def load_sizes(path: str | Path) -> SizeDistribution:
    """The distribution in a file: two columns, sizes in bytes and cumulative shares up to 1 (or up to 100, in percent).

    Raises:
        ConfigError: with file and line, if a line is malformed, a column decreases, or the last share is below 1.
    """
    rows: list[tuple[float, float]] = []
    line = None
    for line in read_lines(path, "sizes"):
        size, share = _row(line)
        if rows and (size < rows[-1][0] or share < rows[-1][1]):
            raise line.error("sizes", line.text.strip(), "sizes and shares that never fall from line to line")
        rows.append((size, share))
    if line is None:
        raise ConfigError("sizes", str(path), "lines of `bytes probability`, such as `4096 0.5`", source=path)
    columns = np.array(rows)
    if columns[-1, 1] not in (1.0, 100.0):
        raise line.error("sizes", line.words[1], "1 (or 100, for percent) as the last cumulative share")
    if columns[-1, 0] < 1:
        raise line.error("sizes", line.words[0], "a last size of at least 1 byte")
    return SizeDistribution(columns[:, 0], columns[:, 1] / columns[-1, 1])


def _row(line: Line) -> tuple[float, float]:
    try:
        size, share = (float(word) for word in line.words)
    except ValueError:
        size = share = math.nan
    if not (0 <= size < 2**44 and 0 <= share <= 100):
        raise line.error("sizes", line.text.strip(), "`bytes probability`, such as `4096 0.5`")
    return size, share
