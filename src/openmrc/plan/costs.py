"""Totals of prices and powers from the user's tables; missing items are named, never guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from openmrc.fabric.materials import Item

__all__ = ["Total", "TotalLine", "total_of"]


@dataclass(frozen=True, slots=True)
class TotalLine:
    """One item: number of pieces, value per piece, total; the last two are None if the table lacks it."""

    item: Item
    pieces: int
    each: float | None
    all: float | None


@dataclass(frozen=True, slots=True)
class Total:
    """A sum over the items in the table; `without` lists items of the fabric that the table lacks."""

    unit: str
    lines: tuple[TotalLine, ...]
    total: float
    per_nic: float
    without: tuple[Item, ...]


def total_of(table: Mapping[Item, float], pieces: Mapping[Item, int], unit: str) -> Total | None:
    """The total of a table over the pieces; None for an empty table."""
    if not table:
        return None
    lines = []
    for item, number in pieces.items():
        each = table.get(item)
        lines.append(TotalLine(item, number, each, None if each is None else number * each))
    total = sum(line.all for line in lines if line.all is not None)
    without = tuple(line.item for line in lines if line.each is None)
    return Total(unit, tuple(lines), total, total / pieces["nic"], without)
