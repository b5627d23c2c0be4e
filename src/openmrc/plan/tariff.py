"""The user's table of prices and powers in a file of its own, for searches."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from openmrc.config.section import Section
from openmrc.config.yaml_document import read_text, read_yaml
from openmrc.fabric import FabricFileError
from openmrc.fabric.material_sections import PowerSection, PriceSection, items
from openmrc.fabric.materials import Item

__all__ = ["Tariff", "load_tariff"]


class _TariffFile(Section):
    prices: PriceSection | None = None
    powers: PowerSection | None = None


@dataclass(frozen=True, slots=True)
class Tariff:
    """Prices in `currency` a piece, powers in watts a piece."""

    prices: dict[Item, float] = field(default_factory=dict)
    powers_watts: dict[Item, float] = field(default_factory=dict)
    currency: str = "USD"


def load_tariff(path: Path) -> Tariff:
    """The tables of a YAML file with the keys `prices` and `powers` of a fabric file.

    Raises:
        FabricFileError: with every problem of the file, each with line and hint; also if it cannot be read.
    """
    text = read_text(path, "price file", FabricFileError)
    document = read_yaml(text, path, "price file", "prices: {switch: 30000}", FabricFileError)
    try:
        file = _TariffFile.model_validate(dict(document.values))
    except ValidationError as error:
        raise FabricFileError(document.problems(error, _TariffFile)) from None
    tables: list[Any] = [items(file.prices), items(file.powers)]
    currency = file.prices.currency if file.prices is not None else "USD"
    return Tariff(cast("dict[Item, float]", tables[0]), cast("dict[Item, float]", tables[1]), currency)
