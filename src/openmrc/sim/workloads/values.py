"""Sizes, times and shares as people write them, for the settings of workloads."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from openmrc.errors import ConfigError
from openmrc.units import parse_bytes, parse_percent, parse_time

__all__ = ["Bytes", "Count", "Duration", "Load", "Settings", "Start", "Switch", "whole"]

BYTES_MAX = 2**44
TIME_PS_MAX = 3600 * 10**12


def _bytes(value: Any) -> int:
    size = parse_bytes(value)
    if not 1 <= size <= BYTES_MAX:
        raise ConfigError("size", value, "1 byte to 16TiB, such as 2MB or 64KiB")
    return size


def _time(value: Any) -> int:
    time_ps = parse_time(value)
    if time_ps > TIME_PS_MAX:
        raise ConfigError("time", value, "0 to 1h, such as 10us")
    return time_ps


def _load(value: Any) -> float:
    share = parse_percent(value)
    if share == 0:
        raise ConfigError("load", value, "a percentage above 0 and up to 100, such as 80%")
    return share


def whole(low: int, high: int = 2**31 - 1) -> Any:
    """A field that holds a whole number from `low` to `high`."""
    return Field(strict=True, ge=low, le=high)


Bytes = Annotated[int, BeforeValidator(_bytes)]
Duration = Annotated[int, BeforeValidator(_time)]
Start = Annotated[int, BeforeValidator(_time)]
Load = Annotated[float, BeforeValidator(_load)]
Count = Annotated[int, whole(1)]
Switch = Annotated[bool, Field(strict=True)]


class Settings(BaseModel):
    """Settings of every workload.

    `name` says which workload. `job` names it in results (default: `name`). `hosts`: the hosts it runs on, as numbers
    and ranges `"0-63"` (default: all). `order`: how ranks are laid onto the hosts: `given` (as listed), `t0` (sorted,
    so that neighbours in rank share a T0), `random` (drawn from the seed). `start`: when it begins.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    job: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    hosts: int | str | tuple[int | str, ...] | None = None
    order: Literal["given", "t0", "random"] = "given"
    start: Start = 0
