"""Sections of a fabric file for switches, optics, and the user's own tables of prices, powers and failures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from openmrc.config.section import Section, count, quantity
from openmrc.errors import ConfigError, did_you_mean
from openmrc.fabric.materials import SwitchModel
from openmrc.fabric.switch_models import SWITCH_MODELS, switch_model
from openmrc.fabric.value_schemas import FREQUENCY, NUMBER, POWER, RATE, Written
from openmrc.units import parse_rate

__all__ = ["FailureSection", "ModelSection", "PowerSection", "PriceSection", "SwitchSection", "Switches", "items"]

PORTS_MAX = 65536
PRICE_MAX = 10**9
WATTS_MAX = 10**6
PER_YEAR_MAX = 10**6
_PER_YEAR = {"": 1.0, "/year": 1.0, "/month": 12.0, "/week": 365.25 / 7, "/day": 365.25}
_NUMBER = re.compile(r"\s*((?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?)\s*(\S*)\s*\Z", re.ASCII)
_POWER_WORDS = f"watts a piece from 0 to {WATTS_MAX}, such as 500W, 1.2kW or 500"
_FREQUENCY_WORDS = f"failures of one piece from 0 to {PER_YEAR_MAX} a year, such as 0.02/year or 0.02"
_CURRENCY_MAX = 8

Capacity = Annotated[
    int, BeforeValidator(quantity(parse_rate, "capacity", 10**9, 10**15, "1Gbit to 1000Tbit")), Written(RATE)
]
Ports = Annotated[int, count(2, PORTS_MAX)]


class ModelSection(Section):
    """A user-defined switch model."""

    name: Annotated[str, Field(min_length=1, description="Name in tables")]
    capacity: Annotated[Capacity, Field(description="Sum of the rates of all its ports, in one direction")]
    ports: Annotated[int, count(2, PORTS_MAX), Field(description="Largest number of ports, at any rate")]

    @property
    def model(self) -> SwitchModel:
        """The switch model of the section."""
        return SwitchModel(self.name, self.capacity, self.ports)


def _section_of(model: SwitchModel) -> ModelSection:
    return ModelSection.model_construct(None, name=model.name, capacity=model.capacity_bps, ports=model.ports_max)


def _model(value: Any) -> Any:
    return _section_of(switch_model(value)) if isinstance(value, str) else value


_KNOWN = {"enum": list(SWITCH_MODELS)}
Model = Annotated[ModelSection, BeforeValidator(_model), Written(_KNOWN, beside=True)]


class SwitchSection(Section):
    """The model of each tier, or one user-defined model for all tiers."""

    t0: Model | None = Field(None, description="Model of the T0s")
    t1: Model | None = Field(None, description="Model of the T1s; left out: as T0")
    t2: Model | None = Field(None, description="Model of the T2s; left out: as T1")
    name: str | None = Field(None, min_length=1, description="One model for all tiers: its name in tables")
    capacity: Capacity | None = Field(
        None, description="Capacity of that model: sum of the rates of all ports, in one direction"
    )
    ports: Ports | None = Field(None, description="Largest number of ports of that model, at any rate")


def _switches(value: Any) -> Any:
    if isinstance(value, str):
        model = _section_of(switch_model(value))
        return SwitchSection.model_construct(None, t0=model, t1=None, t2=None, name=None, capacity=None, ports=None)
    if not isinstance(value, Mapping | SwitchSection):
        raise ConfigError("switch", value, "a model, or t0, t1 and t2 with one each", hint="such as switch: 51.2T")
    return value


Switches = Annotated[SwitchSection, BeforeValidator(_switches), Written(_KNOWN, beside=True)]


def _number(value: Any, units: Mapping[str, float], high: float, what: str, words: str) -> float:
    """A number with one of the units, at most `high` base units."""
    match = None if isinstance(value, bool) else _NUMBER.match(str(value))
    if match is None or match[2] not in units:
        raise ConfigError(what, value, words, hint=did_you_mean(match[2], units) if match else None)
    number = float(match[1]) * units[match[2]]
    if number > high:
        raise ConfigError(what, value, words)
    return number


def _price(value: Any) -> float:
    words = f"a price a piece, a number from 0 to {PRICE_MAX}"
    if isinstance(value, str):
        raise ConfigError("price", value, words, hint="a number; the key currency has the unit")
    return _number(value, {"": 1.0}, PRICE_MAX, "price", words)


def _watts(value: Any) -> float:
    return _number(value, {"": 1.0, "W": 1.0, "kW": 1000.0}, WATTS_MAX, "power", _POWER_WORDS)


def _per_year(value: Any) -> float:
    return _number(value, _PER_YEAR, PER_YEAR_MAX, "failures", _FREQUENCY_WORDS)


def _currency(value: str) -> str:
    if not value.isprintable() or not value.strip() or len(value) > _CURRENCY_MAX:
        raise ConfigError("currency", value, f"1 to {_CURRENCY_MAX} characters, such as EUR")
    return value


Price = Annotated[float, BeforeValidator(_price), Written(NUMBER)]
Watts = Annotated[float, BeforeValidator(_watts), Written(POWER)]
PerYear = Annotated[float, BeforeValidator(_per_year), Written(FREQUENCY)]
_SWITCH = "Any switch without its own value"


class PriceSection(Section):
    """Cost of a piece, from the user's own offers. Without a price, totals list the omitted items."""

    switch: Price | None = Field(None, description=_SWITCH)
    t0: Price | None = Field(None, description="A T0 switch")
    t1: Price | None = Field(None, description="A T1 switch")
    t2: Price | None = Field(None, description="A T2 switch")
    nic: Price | None = Field(None, description="A NIC, with all its ports")
    transceiver: Price | None = Field(None, description="A transceiver, at a switch or a NIC")
    fiber_cable: Price | None = Field(None, description="A fiber between two transceivers")
    copper_cable: Price | None = Field(None, description="A copper cable, ready to plug")
    currency: Annotated[str, AfterValidator(_currency)] = Field(
        "USD", description="Currency of all prices, such as EUR"
    )


class PowerSection(Section):
    """Power of a piece, in watts."""

    switch: Watts | None = Field(None, description=_SWITCH)
    t0: Watts | None = Field(None, description="A T0 switch without transceivers")
    t1: Watts | None = Field(None, description="A T1 switch without transceivers")
    t2: Watts | None = Field(None, description="A T2 switch without transceivers")
    nic: Watts | None = Field(None, description="A NIC, with all its ports, without transceivers")
    transceiver: Watts | None = Field(None, description="A transceiver")
    fiber_cable: Watts | None = Field(None, description="A fiber, usually 0")
    copper_cable: Watts | None = Field(None, description="A copper cable; 0, unless it is an active one")


class FailureSection(Section):
    """Failure rate of a piece: a number per year, or with a unit, such as 0.02/year or 3/day."""

    switch: PerYear | None = Field(None, description=_SWITCH)
    t0: PerYear | None = Field(None, description="A T0 switch")
    t1: PerYear | None = Field(None, description="A T1 switch")
    t2: PerYear | None = Field(None, description="A T2 switch")
    nic: PerYear | None = Field(None, description="A NIC")
    link: PerYear | None = Field(None, description="A link by itself, such as a dirty or bent fiber")
    transceiver: PerYear | None = Field(None, description="A transceiver, with all links in it")


def items(section: PriceSection | PowerSection | FailureSection | None) -> dict[Any, float]:
    """The values of a table, piece by piece; `switch` applies to tiers without a value of their own."""
    if section is None:
        return {}
    values = {key: value for key, value in section if value is not None and key != "currency"}
    each = values.pop("switch", None)
    return values if each is None else dict.fromkeys(("t0", "t1", "t2"), each) | values
