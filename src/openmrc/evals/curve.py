"""Measured service curves of a model server: rates of one replica by GPUs and concurrency."""

from __future__ import annotations

import csv
import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from openmrc.errors import ConfigError

__all__ = ["Curve", "Point", "load_curve"]

_HEAD = ("gpus", "concurrency", "prefill_tokens_per_s", "decode_tokens_per_s")


@dataclass(frozen=True, slots=True)
class Point:
    """Tokens per second that a replica prefills and decodes, each alone, at a number of concurrent requests."""

    concurrency: float
    prefill_tokens_per_s: float
    decode_tokens_per_s: float


@dataclass(frozen=True)
class Curve:
    """Points by GPUs of a replica, ascending in concurrency.

    Between points rates are linear in the concurrency. Outside the measured range the nearest point holds: nothing is
    extrapolated.
    """

    points: Mapping[int, tuple[Point, ...]]

    def rates(self, gpus: int, concurrency: float) -> tuple[float, float]:
        """Prefill and decode rate in tokens per second of a replica with this number of GPUs."""
        points = self.points[gpus]
        at = bisect_right([point.concurrency for point in points], concurrency)
        low, high = points[max(at - 1, 0)], points[min(at, len(points) - 1)]
        span = high.concurrency - low.concurrency
        share = min(max((concurrency - low.concurrency) / span, 0.0), 1.0) if span else 0.0
        return (
            low.prefill_tokens_per_s + share * (high.prefill_tokens_per_s - low.prefill_tokens_per_s),
            low.decode_tokens_per_s + share * (high.decode_tokens_per_s - low.decode_tokens_per_s),
        )


def load_curve(path: Path) -> Curve:
    """The curve of a CSV file with the columns gpus, concurrency, prefill_tokens_per_s and decode_tokens_per_s.

    Raises:
        ConfigError: with file and line.
    """
    points: dict[int, list[Point]] = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            head = tuple(next(reader, ()))
            if head != _HEAD:
                raise ConfigError("head", ",".join(head), ",".join(_HEAD), source=path, line=1)
            for row in reader:
                if row:
                    gpus, point = _point(row, path, reader.line_num)
                    points.setdefault(gpus, []).append(point)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError("service curve", str(path), f"a readable CSV file: {reason}") from None
    if not points:
        raise ConfigError("service curve", "no rows", "at least one measured point", source=path)
    _check_ascending(points, path)
    return Curve({gpus: tuple(points[gpus]) for gpus in sorted(points)})


def _point(row: list[str], path: Path, line: int) -> tuple[int, Point]:
    try:
        numbers = [float(text) for text in row]
    except ValueError:
        numbers = []
    good = len(numbers) == len(_HEAD) and all(math.isfinite(number) and number > 0 for number in numbers)
    if not good or numbers[0] != int(numbers[0]):
        raise ConfigError("row", ",".join(row), "four numbers above 0, the first of them whole", source=path, line=line)
    return int(numbers[0]), Point(*numbers[1:])


def _check_ascending(points: Mapping[int, list[Point]], path: Path) -> None:
    for gpus, some in points.items():
        steps = [point.concurrency for point in some]
        if sorted(set(steps)) != steps:
            allowed = "rows of the same gpus in ascending concurrency, each once"
            raise ConfigError("concurrency", f"{steps} with {gpus} gpus", allowed, source=path)
